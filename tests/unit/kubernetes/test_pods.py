"""Pods: what they use, which application and queue they name, and what is said of manifests that make no sense."""

from __future__ import annotations

import pytest
import yaml

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.kubernetes import ManifestError, PodTerms, pod_usage, read_namespace, read_pod

Manifest = dict[str, object]

GIB = 2**30

#: The pod of the document on resource quota management.
DOCUMENT = """
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: container-1
    resources:
      requests:
        cpu: "250m"
        memory: "1Gi"
        hugepages-1Gi: "1"
"""


def container(*, restartable: bool = False, **requests: object) -> Manifest:
    """Return a container with these requests."""
    always = {"restartPolicy": "Always"} if restartable else {}
    return {"name": "main", "resources": {"requests": requests}, **always}


def pod(*containers: Manifest, init: tuple[Manifest, ...] = (), **spec: object) -> Manifest:
    """Return a pod of these containers."""
    return {"kind": "Pod", "spec": {"containers": list(containers), "initContainers": list(init), **spec}}


def labelled(labels: object = None, annotations: object = None, **metadata: object) -> Manifest:
    """Return a pod with one container and this metadata."""
    return {**pod(container(cpu=1)), "metadata": {"labels": labels, "annotations": annotations, **metadata}}


def test_document_example() -> None:
    """The pod of the document asks for what the document says."""
    assert pod_usage(yaml.safe_load(DOCUMENT)) == Resource({"vcore": 250, "memory": 1073741824, "hugepages-1Gi": 1})


ALWAYS = {"restartable": True}


@pytest.mark.parametrize(
    ("init", "usage"),
    [
        # They run one after another: the largest counts, for each resource, if it is above the sum.
        ((container(cpu=3), container(memory="1Gi"), container(cpu=1)), Resource(vcore=3000, memory=2 * GIB)),
        # A restartable one stays, so it counts like a container.
        ((container(cpu=1, **ALWAYS), container(cpu=2, **ALWAYS)), Resource(vcore=5000, memory=2 * GIB)),
        # Others run with the restartable ones before them, not with the later ones.
        (
            (container(cpu=1, **ALWAYS), container(cpu=5), container(cpu=2, **ALWAYS)),
            Resource(vcore=6000, memory=2 * GIB),
        ),
    ],
)
def test_init_containers(init: tuple[Manifest, ...], usage: Resource) -> None:
    """Init containers count if they need more than the containers."""
    assert pod_usage(pod(container(cpu=1, memory="2Gi"), container(cpu=1), init=init)) == usage


def test_pod_level_requests() -> None:
    """What the pod as a whole requests replaces what its containers come to; overhead is added to it."""
    whole = {"requests": {"cpu": 4, "hugepages-2Mi": "2Mi"}}

    assert pod_usage(
        pod(container(cpu=1, memory="1Gi"), init=(container(cpu=9),), resources=whole, overhead={"cpu": 1})
    ) == (Resource({"vcore": 5000, "memory": GIB, "hugepages-2Mi": 2**21}))


#: The places of many errors.
REQUESTS = "spec.containers[0].resources.requests"
LABELS = "metadata.labels"
NO_QUEUE = "expected queue names separated by single dots"


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (pod(container(memory="1K")), f"{REQUESTS}.memory '1K': unknown suffix 'K'"),
        (pod(container(cpu="-1")), f"{REQUESTS}.cpu '-1': expected a quantity of at least 0"),
        (pod(container(cpu="10E")), f"{REQUESTS}.cpu '10E': expected an amount of at most 9223372036854775807"),
        (pod(container(vcore=1)), f"{REQUESTS}.vcore 1: unknown resource in Kubernetes; expected 'cpu'"),
        (pod({"resources": {"requests": {1: 1}}}), f"{REQUESTS}[1] 1: expected a resource name of 1 to 256 characters"),
        (
            pod(container(), init=(container(**{"nvidia.com/gpu": True}),)),
            "spec.initContainers[0].resources.requests[nvidia.com/gpu] True: expected a text or a number",
        ),
        (pod(container(), overhead=[1]), "spec.overhead [1]: expected a mapping"),
        (pod(container(), init=({"restartPolicy": 1},)), "spec.initContainers[0].restartPolicy 1: expected a text"),
        ({"spec": {"containers": {}}}, "spec.containers {}: expected a list"),
        ({"spec": {"containers": ["a"]}}, "spec.containers[0] 'a': expected a mapping"),
        ({"kind": "Pod"}, "spec.containers None: expected at least one container"),
        ({"kind": "Deployment"}, "kind 'Deployment': expected 'Pod'"),
        (labelled({"applicationId": 5}), f"{LABELS}.applicationId 5: expected a text"),
        (labelled(namespace=True), "metadata.namespace True: expected a text"),
        (labelled({"queue": "root..a"}), f"{LABELS}.queue 'root..a': {NO_QUEUE}"),
        (labelled({"yunikorn.apache.org/queue": "a b"}), f"{LABELS}[yunikorn.apache.org/queue] 'a b': {NO_QUEUE}"),
    ],
)
def test_errors_name_the_place(manifest: Manifest, message: str) -> None:
    """An error says where in the manifest what is wrong: a label is a text, and a queue has a possible name."""
    with pytest.raises(ManifestError) as caught:
        read_pod(manifest)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("labels", "annotations", "winner"),
    [
        ({"id": "old", "new": "label"}, {"new": "annotation"}, "label"),
        ({"id": "old"}, {"new": "annotation"}, "annotation"),
        ({"id": "old", "new": ""}, {"new": None}, "old"),
        ({"new": "label"}, None, "label"),
    ],
)
def test_order_of_labels(labels: dict[str, str], annotations: dict[str, str] | None, winner: str) -> None:
    """The current label comes before the current annotation, and both before the document's label; empty is absent."""
    for old, new, field in (("applicationId", "app-id", "application_id"), ("queue", "queue", "queue")):
        keys = {"id": old, "new": f"yunikorn.apache.org/{new}"}
        given = [{keys[key]: text for key, text in (fields or {}).items()} for fields in (labels, annotations)]

        assert getattr(read_pod(labelled(*given)), field) == winner


def test_application_for_each_pod() -> None:
    """On request, pods without labels are an application each, named by namespace and uid."""
    uid = "5a9ee1b6-4a6b-4b63-8b7f-0d6a5b0e2f11"
    made = read_pod(labelled(uid=uid, namespace="a-namespace-with-a-very-long-name"), generated_ids="pod")
    named = read_pod(labelled({"applicationId": "mine"}, uid=uid), generated_ids="pod")

    assert made.application_id == f"a-namespace-with-a-very-lo-{uid}"
    assert len(made.application_id) == 63
    assert named.application_id == "mine"


def test_namespace_gives_tags_and_quota() -> None:
    """What placement needs to know of the namespace comes with the pod."""
    quota = {"yunikorn.apache.org/namespace.max.cpu": "64", "yunikorn.apache.org/parentqueue": "root.production"}
    namespace = read_namespace({"metadata": {"name": "finance", "annotations": quota}})
    found = read_pod(labelled(namespace="finance", name="p", uid="u"), namespace)

    assert found == PodTerms("yunikorn-finance-autogen", None, Resource(vcore=1000), "p", "u", namespace)
    assert found.tags == {"namespace": "finance", "namespace.parentqueue": "root.production"}
    assert found.namespace.max_resources == Resource(vcore=64000)


GPU = {"nvidia.com/gpu": 1}


def test_gpu_under_limits_counts_for_a_quota() -> None:
    """A quota of four GPUs admits four pods that name one GPU only under limits."""
    text = "partitions: [{queues: [{name: ml, resources: {max: {nvidia.com/gpu: 4}}}]}]"
    partition = Partition(parse_config(text).partition())
    partition.submit("job", UserGroup("ana"), "root.ml")
    template = {"spec": {"containers": [{"resources": {"requests": {"cpu": 4}, "limits": GPU}}]}}
    granted = [bool(partition.allocate(f"w{number}", "job", read_pod(template).usage)) for number in range(6)]
    assert granted == [True] * 4 + [False] * 2


@pytest.mark.parametrize(
    ("container", "usage"), [({}, Resource(vcore=3000)), ({"requests": {"cpu": 1}}, Resource(vcore=1000))]
)
def test_limit_of_a_whole_pod(container: dict[str, object], usage: Resource) -> None:
    """A limit of the whole pod counts if neither the pod nor a container requests the resource."""
    spec = {"containers": [{"resources": container}], "resources": {"limits": {"cpu": 3}}}
    assert pod_usage({"spec": spec}) == usage
