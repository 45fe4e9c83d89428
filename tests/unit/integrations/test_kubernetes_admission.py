"""Reviews of the API server and the answers of the webhook, over a partition in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from support.clocks import Clock
from support.kubernetes_reviews import REPLICA_SET_CONTROLLER, deployment, new_uid, pod, review
from ugm import Partition, Resource, parse_config
from ugm.integrations import Grants, Work
from ugm.integrations.kubernetes import admission as admission_module
from ugm.integrations.kubernetes.__main__ import main
from ugm.integrations.kubernetes.admission import TENTATIVE, OwnerPolicy, PodAdmission, create_app
from ugm.kubernetes import NamespaceTerms
from ugm.partition import AbstractPartition

#: The namespace is the queue.
CONFIG: Final = """
partitions:
- placementrules: [{name: tag, value: namespace, create: true, parent: {name: fixed, value: teams}}]
  queues:
  - name: teams
    parent: true
    resources: {max: {vcore: 20}}
    limits:
    - {users: [boss], maxresources: {vcore: 12}}
    - {users: ["system:serviceaccount:dev:default"], maxresources: {vcore: 1}}
    - {users: ["*"], maxresources: {vcore: 4, nvidia.com/gpu: 1, pods: 5}}
    - {groups: [lab], maxresources: {vcore: 6}}
"""
#: The answer without a warning.
ALLOWED: Final = {"allowed": True, "warnings": []}
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


@pytest.fixture(name="partition")
def _partition(clock: Clock) -> Partition:
    return Partition(parse_config(CONFIG).partition(), clock=clock)


@pytest.fixture(name="grants")
def _grants(partition: Partition, clock: Clock) -> Grants:
    grants = Grants(partition, "kubernetes", tentative=TENTATIVE, clock=clock)
    asyncio.run(grants.reconcile(lambda _: Work()))
    return grants


def asking(
    grants: Grants,
    policy: OwnerPolicy | None = None,
    quota: Resource | None = None,
    variants: Mapping[str, str] | None = None,
) -> Ask:
    """Return a function that posts a review and returns the response."""

    async def find_namespace(name: str) -> NamespaceTerms:
        return NamespaceTerms(name, quota)

    client = TestClient(create_app(PodAdmission(grants, find_namespace, policy or OwnerPolicy(), variants or {})))

    def ask(manifest: Mapping[str, Any] | None, operation: str = "CREATE", **options: Any) -> dict[str, Any]:  # noqa: ANN401
        body = review(manifest, operation, **options)
        answer = client.post("/kubernetes/admit", json=body)
        assert answer.status_code == 200
        given = answer.json()
        assert (given["apiVersion"], given["kind"]) == (body["apiVersion"], body["kind"])
        response: dict[str, Any] = given["response"]
        assert response.pop("uid") == body["request"]["uid"]
        return response

    return ask


@pytest.fixture(name="ask")
def _ask(grants: Grants) -> Ask:
    return asking(grants)


def charges(partition: AbstractPartition) -> list[tuple[str, int]]:
    """Return the user and the cores in thousandths of each charge."""
    owners = {one.application_id: one.user.name for one in partition.applications()}
    return sorted((owners[one.application_id], one.usage.get("vcore", 0)) for one in partition.allocations())


def message(response: Mapping[str, Any]) -> tuple[int, str]:
    """Return the code and the message of a denial."""
    assert response["allowed"] is False
    assert response["status"]["status"] == "Failure"
    return response["status"]["code"], response["status"]["message"]


# Pods


def test_pods_are_admitted_up_to_a_limit(ask: Ask, partition: Partition) -> None:
    """A denial is a status for people, with the limit as a cause; a dry run has the same answer, and no effect."""
    assert ask(pod("3"), dry_run=True) == ask(pod("3")) == ALLOWED
    assert message(ask(pod("5"), dry_run=True))[0] == 403
    response = ask(pod("2"))

    code, text = message(response)
    assert code == 403
    assert text == (
        "Your limit allows 4 cores (in use: 3 cores), and the request is for 2 cores. "
        "Try again when other work has ended."
    )
    cause = "user 'ana' in root.teams: 2 vcore requested, 3 of 4 used, 1 too much (limit for '*')"
    assert response["status"]["details"]["causes"] == [{"reason": "QuotaExceeded", "message": cause}]
    assert charges(partition) == [("ana", 3000)]


def test_a_repeated_review_charges_once(ask: Ask, partition: Partition) -> None:
    """The uid of the pod identifies it, also after the charge was confirmed."""
    made = pod("3")
    uid = made["metadata"]["uid"]
    assert [ask(made, uid=uid)["allowed"], ask(made)["allowed"]] == [True, True]
    partition.renew(f"kubernetes/{uid}", None)
    assert ask(made)["allowed"]
    assert charges(partition) == [("ana", 3000)]
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    assert message(ask(made))[0] == 422


def test_pods_request_models_of_gpus(clock: Clock) -> None:
    """A node selector requests the variant; another pod gets one that is free, also in a repeated review."""
    families, most = "ugm: {families: {gpu: [a100, v100]}}", "resources: {max: {gpu:a100: 1, gpu:v100: 1}}"
    config = CONFIG.replace("queues:", f"{families}\n  queues:", 1).replace("resources: {max: {vcore: 20}}", most)
    partition = Partition(parse_config(config).partition(), clock=clock)
    grants = Grants(partition, "kubernetes", tentative=TENTATIVE, clock=clock)
    asyncio.run(grants.reconcile(lambda _: Work()))
    ask = asking(grants, variants={"model=A100": "gpu:a100"})

    any_model, a100 = pod(requests={"gpu": "1"}), pod(requests={"gpu": "1"}, nodeSelector={"model": "A100"})
    assert ask(a100)["allowed"]
    assert [ask(any_model)["allowed"], ask(any_model)["allowed"]] == [True, True]
    models = [{name: one.usage.get(name) for name in one.usage if ":" in name} for one in partition.allocations()]
    assert models == [{"gpu:v100": 1}, {"gpu:a100": 1}]
    assert "GPU (a100)" in message(ask(pod(requests={"gpu": "1"}, nodeSelector={"model": "A100"})))[1]


def test_deadline(ask: Ask, partition: Partition) -> None:
    """The charge of a pod with a deadline promises to end then, also if the deadline is that of tentative charges."""
    for seconds in (3600, TENTATIVE):
        ask(pod(activeDeadlineSeconds=seconds))
    assert sorted(one.duration or 0 for one in partition.allocations()) == [TENTATIVE + 1, 3600]
    assert message(ask(pod(activeDeadlineSeconds="x")))[0] == 422
    code, text = message(ask(pod("1x")))
    assert (code, text.startswith("spec.containers[0].resources.requests.cpu ")) == (422, True)


@pytest.mark.parametrize(("cpu", "cores"), [("4", "4 cores"), ("3600m", "3.6 cores")])
def test_warning_near_a_limit(ask: Ask, cpu: str, cores: str) -> None:
    """From 90 per cent of a limit on, the answer has a warning. Limits of other resources do not matter."""
    [warning] = ask(pod(cpu))["warnings"]
    assert warning == f"in use: {cores} of 4 cores (user ana in root.teams)"
    assert not ask(pod("3500m"), user="ben")["warnings"]


# Other requests


def test_deletions_are_never_denied(grants: Grants) -> None:
    """Neither by a failure nor by an invalid object."""
    grants.is_ready = False
    ask = asking(grants)
    assert ask(None, "DELETE", before=pod("1x")) == ALLOWED


@pytest.mark.parametrize(
    "options",
    [
        {"manifest": {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "dev"}}},
        {"manifest": pod("100"), "operation": "UPDATE", "before": pod("100")},
        {"manifest": pod("100", namespace="kube-system")},
        {"manifest": pod("100"), "sub_resource": "eviction"},
    ],
)
def test_requests_without_a_charge(ask: Ask, partition: Partition, options: dict[str, Any]) -> None:
    """Other kinds, other operations and exempt namespaces are allowed."""
    assert ask(**options) == ALLOWED
    assert not partition.applications()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "a"}}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        b" " * (9 * 2**20),
    ],
)
def test_other_bodies(grants: Grants, body: bytes) -> None:
    """A body that is not a review of this version is a bad request, which the API server treats as a denial."""
    client = TestClient(create_app(PodAdmission(grants, NamespaceTerms, OwnerPolicy())))  # type: ignore[arg-type]
    assert client.post("/kubernetes/admit", content=body).status_code in {400, 413}


# Failures


def test_health(grants: Grants) -> None:
    """The webhook is ready after the first comparison, and denies before."""
    client = TestClient(create_app(PodAdmission(grants, NamespaceTerms, OwnerPolicy())))  # type: ignore[arg-type]
    assert client.get("/healthz").status_code == 200
    grants.is_ready = False
    assert client.get("/healthz").status_code == 503
    response = asking(grants)(pod())
    assert message(response)[0] == 503
    assert response["status"]["details"] == {"retryAfterSeconds": 10}


def test_a_silent_quota_service_denies(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The webhook answers before the time-out of the API server."""
    monkeypatch.setattr(admission_module, "_DEADLINE", 0.05)

    async def wait() -> AbstractPartition:
        await asyncio.sleep(60)
        raise AssertionError

    grants = Grants(wait, "kubernetes", tentative=TENTATIVE, clock=clock)
    grants.is_ready = True
    code, text = message(asking(grants)(pod()))
    assert (code, text) == (503, "The quota service does not answer. Try again in a few minutes.")


# Resizes


def resized(made: Mapping[str, Any], cpu: str) -> dict[str, Any]:
    """Return a pod with other requests."""
    new = pod(cpu, uid=made["metadata"]["uid"])
    return {**new, "metadata": made["metadata"]}


def test_resizes(ask: Ask, partition: Partition) -> None:
    """Only the difference is charged; a decrease changes nothing until the pod is seen."""
    made = pod("2")
    ask(made)
    assert message(ask(resized(made, "5"), "UPDATE", before=made, sub_resource="resize"))[0] == 403
    assert message(ask(resized(made, "5"), "UPDATE", before=made, sub_resource="resize", dry_run=True))[0] == 403
    assert ask(resized(made, "3"), "UPDATE", before=made, sub_resource="resize", dry_run=True)["allowed"]
    assert charges(partition) == [("ana", 2000)]
    uid = new_uid()
    for _ in range(2):
        assert ask(resized(made, "3"), "UPDATE", before=made, sub_resource="resize", uid=uid)["allowed"]
    assert charges(partition) == [("ana", 1000), ("ana", 2000)]
    assert ask(resized(made, "1"), "UPDATE", before=resized(made, "3"), sub_resource="resize")["allowed"]
    assert partition.application(f"kubernetes/{made['metadata']['uid']}").usage["vcore"] == 3000  # type: ignore[union-attr]


# Owners


def test_nobody_charges_others(ask: Ask, partition: Partition) -> None:
    """An untrusted creator may neither name another user nor groups of others, in pods and in templates."""
    foreign = [{"user": "eve"}, {"user": "ana", "annotations": {"ugm/groups": "lab"}}]
    for options in foreign:
        for made in (pod(**options), deployment(**options)):  # type: ignore[arg-type]
            assert message(ask(made))[0] == 403
    assert ask(pod(user="ana"))["allowed"]
    assert charges(partition) == [("ana", 1000)]
    both = pod(user="ana", annotations={"ugm/user": "eve"})
    assert message(ask(both))[0] == 422


def test_pods_without_an_owner(ask: Ask, grants: Grants, partition: Partition) -> None:
    """They are denied, or charged to their service account."""
    assert "the label ugm/user" in message(ask(pod(), user=REPLICA_SET_CONTROLLER))[1]
    assert message(ask(deployment(user=None)))[1].endswith("Set the label ugm/user: 'ana'.")
    assert "Set the annotation ugm/user: 'a@b'" in message(ask(deployment(user=None), user="a@b"))[1]
    ask = asking(grants, OwnerPolicy(charges_service_accounts=True))
    assert ask(pod(), user=REPLICA_SET_CONTROLLER)["allowed"]
    account = "system:serviceaccount:dev:default"
    assert charges(partition) == [(account, 1000)]
    assert f"the pods are charged to {account}" in ask(deployment(user=None))["warnings"]


# Templates


KINDS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")


@pytest.mark.parametrize("kind", KINDS)
def test_templates_are_checked_early(ask: Ask, partition: Partition, kind: str) -> None:
    """A template is denied only if one of its pods can never start. Nothing is charged."""
    ask(pod("2"))
    assert ask(deployment("2", kind=kind)) == ALLOWED
    assert message(ask(deployment("5", kind=kind)))[0] == 403
    later = ask(deployment("3", kind=kind))
    assert later["allowed"]
    assert charges(partition) == [("ana", 2000)]
    if kind == "DaemonSet":
        assert not later["warnings"]
        return
    [warning] = later["warnings"]
    assert warning.startswith("not all 1 pods can start now. Your limit allows 4 cores")
    [warning] = ask(deployment("1", kind=kind, pods=3))["warnings"]
    assert warning == "not all 3 pods can start now."
    [warning] = ask(deployment("2", kind=kind, pods=10**18))["warnings"]
    assert warning.startswith("not all 1000000000000000000 pods")
    assert ask(deployment("2", kind=kind, pods=0)) == ALLOWED


def test_updates_of_templates(ask: Ask) -> None:
    """A changed template may not get another owner, and an unchanged one is not checked."""
    old, new = deployment("1"), deployment("2")
    assert ask(new, "UPDATE", before=old) == ALLOWED
    assert ask(new, "UPDATE", before=old, user="ben") == ALLOWED
    assert message(ask(deployment("2", user="eve"), "UPDATE", before=old))[0] == 403
    unnamed = deployment("100", user=None)
    assert ask(unnamed, "UPDATE", before=unnamed, user="ben") == ALLOWED
    # The pods of a template count for the same group as pods that the owner creates.
    denied = message(ask(deployment(), groups=("lab",)))[1]
    assert denied == "Set the annotation ugm/groups of the pod template: 'lab'."
    assert ask(deployment(annotations={"ugm/groups": "lab"}), groups=("lab",))["allowed"]


def test_invalid_rules_of_variants_end_the_command() -> None:
    """They are an error of the command, and not of the first pod."""
    result = CliRunner().invoke(main, ["--variant", "model", "gpu:a100"])

    assert (result.exit_code, "expected label=value" in result.output) == (1, True)
