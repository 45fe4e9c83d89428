"""ElasticQuota manifests, those of the document and those of today."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ugm import Resource
from ugm.elastic import ROOT_GROUP, ElasticGroup, ElasticTree, status
from ugm.kubernetes import ManifestError, read_elastic_quota, write_elastic_quota

PREFIX = "quota.scheduling.koordinator.sh"

#: As the document has it.
DOCUMENT = f"""
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata:
  name: test
  namespace: test
  annotations:
    {PREFIX}/runtime: {{cpu:4, memory: 8Gi}}
    {PREFIX}/shared-weight: {{cpu:4, memory: 8Gi}}
  labels:
    {PREFIX}/is-parent: false
    {PREFIX}/parent-quota-name: "parent"
    {PREFIX}/allow-lent-resource: true
spec:
  max:
    cpu: 20
    memory: 40Gi
    nvidia.com/gpu: 2
  min:
    cpu: 10
    memory: 20Gi
    nvidia.com/gpu: 1
"""


def manifest(labels: dict[str, Any] | None = None, annotations: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a manifest with some labels and annotations, without their prefix."""
    named = {f"{PREFIX}/{name}": value for name, value in (labels or {}).items()}
    noted = {f"{PREFIX}/{name}": value for name, value in (annotations or {}).items()}
    return {"kind": "ElasticQuota", "metadata": {"name": "a", "labels": named, "annotations": noted}}


def test_document() -> None:
    """The example of the document is read as it stands."""
    gib = 2**30

    assert read_elastic_quota(yaml.safe_load(DOCUMENT)) == ElasticGroup(
        "test",
        "parent",
        min=Resource({"vcore": 10_000, "memory": 20 * gib, "nvidia.com/gpu": 1}),
        max=Resource({"vcore": 20_000, "memory": 40 * gib, "nvidia.com/gpu": 2}),
        shared_weight=Resource(vcore=4000, memory=8 * gib),
        namespace="test",
    )


def test_current_labels() -> None:
    """The labels and annotations of today are read, and weights in JSON or in the document's looser spelling."""
    for weight in ("{cpu:4, memory: 8Gi}", '{"cpu": 4, "memory": "8Gi"}', {"cpu:4": None, "memory": "8Gi"}):
        found = read_elastic_quota(manifest(annotations={"shared-weight": weight}))
        assert found.shared_weight == Resource(vcore=4000, memory=2**33)
    read = read_elastic_quota(
        manifest(
            {"parent": "p", "is-parent": "true", "allow-lent-resource": "false", "tree-id": "t", "is-root": "true"},
            {"namespaces": '["x", "y"]', "max-strict-check-resource-keys": '["cpu"]'},
        )
    )

    assert read == ElasticGroup(
        "a",
        "p",
        allow_lent=False,
        is_parent=True,
        namespaces=("x", "y"),
        tree_id="t",
        is_root=True,
        strict_max=("vcore",),
    )


#: The places of errors, without the ends of names.
LABEL, NOTE = f"metadata.labels[{PREFIX}/", f"metadata.annotations[{PREFIX}/"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "Pod"}, "kind 'Pod': expected 'ElasticQuota'"),
        ({}, "metadata.name None: expected a name"),
        (manifest({"is-parent": "yes"}), f"{LABEL}is-parent] 'yes': expected true or false"),
        (
            manifest({"parent": "p", "parent-quota-name": "q"}),
            f"{LABEL}parent-quota-name] 'q': differs from the label 'parent', which is 'p'",
        ),
        (
            manifest(annotations={"shared-weight": "nonsense"}),
            f"{NOTE}shared-weight] 'nonsense': expected a mapping of quantities",
        ),
        (
            manifest(annotations={"shared-weight": "{cpu:x}"}),
            f"{NOTE}shared-weight].cpu 'x': expected a number and at most one suffix",
        ),
        (manifest(annotations={"namespaces": "x"}), f"{NOTE}namespaces] 'x': expected a JSON list of names"),
        (
            manifest(annotations={"namespaces": "[1]"}),
            f"{NOTE}namespaces] '[1]': expected a list of names of 1 to 256 characters",
        ),
    ],
)
def test_refused(given: dict[str, Any], message: str) -> None:
    """What cannot be understood is an error that names the place."""
    with pytest.raises(ManifestError) as caught:
        read_elastic_quota(given)

    assert str(caught.value) == message


def test_written_as_today() -> None:
    """A group is written with the current labels, in texts; and what it asks for, uses and gets with it."""
    group = ElasticGroup("a", min=Resource(vcore=500), max=Resource(vcore=2000), shared_weight=Resource(vcore=1))
    tree = ElasticTree(Resource(vcore=8000), [group])
    tree.change_request("a", Resource(vcore=3000))
    tree.change_used("a", Resource(vcore=1000))

    assert write_elastic_quota(group, status(tree, "a")) == {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "name": "a",
            "labels": {
                f"{PREFIX}/parent": ROOT_GROUP,
                f"{PREFIX}/is-parent": "false",
                f"{PREFIX}/allow-lent-resource": "true",
            },
            "annotations": {
                f"{PREFIX}/shared-weight": '{"cpu": "1m"}',
                f"{PREFIX}/runtime": '{"cpu": "2"}',
                f"{PREFIX}/request": '{"cpu": "3"}',
                f"{PREFIX}/child-request": '{"cpu": "3"}',
            },
        },
        "spec": {"min": {"cpu": "500m"}, "max": {"cpu": "2"}},
        "status": {"used": {"cpu": "1"}},
    }


names = st.text("abc-", min_size=1, max_size=6)
vectors = st.dictionaries(st.sampled_from(["vcore", "memory", "nvidia.com/gpu"]), st.integers(0, 2**63 - 1)).map(
    Resource
)
groups = st.tuples(
    names,
    names,
    vectors,
    vectors,
    st.none() | vectors.filter(len),
    st.booleans(),
    st.booleans(),
    st.lists(names, unique=True).map(tuple),
    st.just("") | names,
    st.just("") | names,
    st.booleans(),
    st.booleans(),
).map(lambda drawn: ElasticGroup(*drawn))


@given(groups)
def test_written_and_read(group: ElasticGroup) -> None:
    """Whatever is written is read as the same group."""
    assert read_elastic_quota(yaml.safe_load(yaml.safe_dump(write_elastic_quota(group)))) == group
