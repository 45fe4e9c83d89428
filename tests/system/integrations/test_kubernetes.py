"""The admission webhook as an operator starts it: over TLS, with a watcher of kopf, and with both places of quotas."""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from support.certificates import Certificate
from support.hosts import HostProcess, Processes, QuotaService, free_ports, processes, wait_until
from support.kubernetes_api import ClusterProcess
from support.kubernetes_reviews import REPLICA_SET_CONTROLLER, deployment, pod, review
from ugm.partition import AbstractPartition
from ugm.store import open_partition

pytestmark = pytest.mark.hosts

CONFIG: Final = """
partitions:
- name: default
  placementrules: [{name: tag, value: namespace}]
  queues:
  - name: dev
    resources: {max: {vcore: 1100}}
    limits:
    - {users: [crowd], maxresources: {vcore: 1000}}
    - {groups: [lab], maxresources: {vcore: 6}}
    - {users: ["*"], maxresources: {vcore: 4}}
  ugm:
    budgets:
    - {name: hours, user: "*", amounts: {nvidia.com/gpu: 2}, unit: hour, period: week, mode: safe}
"""


class Webhook:
    """The webhook of a cluster, whose API server is the test.

    Attributes:
        cluster: the stored objects.
        service: the quota service; None if the quotas are in the process of the webhook.
        process: the process of the webhook.
    """

    def __init__(self, owner: Processes, folder: Path, kind: str, pods: Sequence[dict[str, Any]] = ()) -> None:
        self._owner: Final = owner
        self._folder: Final = folder

        self._certificate: Final = Certificate(folder)
        self._trusted: Final = self._certificate.of_client()
        [self._port] = free_ports(1)
        self.cluster: Final = ClusterProcess(owner, folder, pods)
        self.service: Final = QuotaService(owner, folder, CONFIG) if kind == "service" else None
        self._places: list[str | Path] = []
        if self.service is not None:
            self.service.start()
            self._places += ["--service", self.service.address, "--token-file", self.service.token_file]
        else:
            (folder / "quota.yaml").write_text(CONFIG, "utf-8")
            self._places += [folder / "quota.yaml", "--store", folder / "quota.db"]
        self.process: HostProcess

    def start(self) -> None:
        """Start the webhook, and wait until it admits pods."""
        certificate = ("--tls-cert", self._certificate.file, "--tls-key", self._certificate.key)
        self.process = self._owner.start(
            [
                *(sys.executable, "-m", "ugm.integrations.kubernetes", *self._places),
                *("--port", str(self._port), *certificate),
            ],
            self._folder / "webhook.log",
            environment={"KUBECONFIG": str(self.cluster.kubeconfig)},
        )
        self.process.wait_until(self.is_ready, "the webhook is ready")
        self.process.wait_until(self._follows, "the webhook follows the pods")

    def _follows(self) -> bool:
        """Return whether the webhook notices the deletion of a pod."""
        canary = pod("4")
        user = f"canary-{canary['metadata']['uid']}"
        assert self.create(canary, user=user)
        self.cluster.delete(canary)
        with suppress(AssertionError):
            wait_until(lambda: self.ask(canary, dry_run=True, user=user)["allowed"], "it is gone", seconds=2)
            return True
        return False

    def connect(self) -> http.client.HTTPSConnection:
        """Return a connection to the webhook."""
        return http.client.HTTPSConnection("localhost", self._port, timeout=5, context=self._trusted)

    def is_ready(self) -> bool:
        """Return whether the webhook admits pods."""
        with closing(self.connect()) as connection:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200

    def ask(
        self,
        manifest: Mapping[str, Any],
        operation: str = "CREATE",
        connection: http.client.HTTPSConnection | None = None,
        **options: Any,  # noqa: ANN401 - those of `review`
    ) -> dict[str, Any]:
        """Return the response to a review."""
        if connection is None:
            with closing(self.connect()) as new:
                return self.ask(manifest, operation, new, **options)
        body = json.dumps(review(manifest, operation, **options))
        connection.request("POST", "/kubernetes/admit", body, {"Content-Type": "application/json"})
        response: dict[str, Any] = json.load(connection.getresponse())["response"]
        return response

    def create(self, manifest: dict[str, Any], **options: Any) -> bool:  # noqa: ANN401 - those of `review`
        """Create a pod as the API server does, and return whether it is allowed."""
        if not self.ask(manifest, **options)["allowed"]:
            return False
        self.cluster.create(manifest)
        return True

    @contextmanager
    def ledger(self) -> Iterator[AbstractPartition]:
        """Open the ledger; an embedded one after the process has ended."""
        if self.service is not None:
            with self.service.partition() as remote:
                yield remote
        else:
            with open_partition(self._folder / "quota.db") as embedded:
                yield embedded


@pytest.fixture(name="webhook")
def _webhook(kind: str, tmp_path: Path) -> Iterator[Webhook]:
    """Return the webhook with a place of quotas."""
    with processes() as owner:
        made = Webhook(owner, tmp_path, kind)
        made.start()
        yield made


def charged_users(partition: AbstractPartition) -> dict[str, str]:
    """Return the users of the charged pods by uid, without those of `Webhook.start`."""
    users = {one.application_id.partition("/")[2]: one.user.name for one in partition.applications()}
    return {uid: user for uid, user in users.items() if not user.startswith("canary")}


def allowed_soon(webhook: Webhook, manifest: dict[str, Any], **options: Any) -> None:  # noqa: ANN401 - those of `review`
    """Create a pod as soon as it is allowed."""
    wait_until(lambda: webhook.create(manifest, **options), "the pod is allowed")


@pytest.mark.parametrize("kind", [pytest.param("embedded", marks=pytest.mark.deep), "service"])
def test_limits_of_a_cluster(webhook: Webhook) -> None:
    """Pods at once never exceed a limit; a deletion and an end let the next one start; nothing is left behind."""
    pods = [pod(name=f"pod-{number}") for number in range(40)]
    with ThreadPoolExecutor(16) as threads:
        created = list(threads.map(webhook.create, pods))
    assert sum(created) == 4
    first, second, *others = [manifest for manifest, is_created in zip(pods, created, strict=True) if is_created]
    denial = webhook.ask(pod())["status"]
    assert denial["code"] == 403
    assert denial["message"].startswith("Your limit allows 4 cores (in use: 4 cores), and the request is for 1 core.")
    ben, eve = pod("4", name="ben", user="ben"), pod("6", name="eve")
    assert webhook.create(ben, user=REPLICA_SET_CONTROLLER)
    assert not webhook.ask(deployment("5"))["allowed"]
    assert not webhook.create(
        pod("1", name="gpu", requests={"nvidia.com/gpu": "1"}, activeDeadlineSeconds=8000), user="cid"
    )
    assert webhook.create(eve, user="crowd", groups=("lab",))
    assert not webhook.create(pod("1", name="eve-2"), user="crowd", groups=("lab",))

    webhook.cluster.delete(first)
    allowed_soon(webhook, third := pod(name="third"))
    webhook.cluster.set_phase(second, "Succeeded")
    allowed_soon(webhook, fourth := pod(name="fourth"))
    for manifest in (second, third, fourth, ben, eve, *others):
        webhook.cluster.delete(manifest)
    wait_until(lambda: webhook.ask(pod("4"), dry_run=True)["allowed"], "all pods are gone")
    assert webhook.process.stop() == 0
    with webhook.ledger() as partition:
        assert not charged_users(partition)
        partition.verify()


@pytest.mark.parametrize("kind", ["embedded", pytest.param("service", marks=pytest.mark.deep)])
def test_a_killed_webhook(webhook: Webhook) -> None:
    """After a restart, the ledger agrees with the pods within seconds, also with those that it has never admitted."""
    pods = [pod(name=f"pod-{number}") for number in range(4)]
    assert all(map(webhook.create, pods))
    webhook.process.kill()
    webhook.cluster.delete(pods[0])
    webhook.cluster.create(foreign := pod("2", name="foreign", user="ben"))
    webhook.start()
    assert webhook.create(pod(name="next"))
    assert not webhook.ask(pod())["allowed"]
    assert not webhook.ask(pod("3"), user="ben")["allowed"]
    webhook.process.kill()
    with webhook.ledger() as partition:
        charged = charged_users(partition)
        partition.verify()
    assert len(charged) == 5
    assert charged[foreign["metadata"]["uid"]] == "ben"


@pytest.mark.parametrize("kind", ["service"])
def test_a_killed_quota_service(webhook: Webhook) -> None:
    """Pods are denied while the service is away, and deletions are not; its ledger is right when it is back."""
    assert webhook.service is not None
    first, second, third = pod("3", name="first"), pod("4", name="second"), pod("4", name="third")
    assert webhook.create(first)
    webhook.service.process.kill()
    begin = time.monotonic()
    status = webhook.ask(pod())["status"]
    assert time.monotonic() - begin < 5
    assert (status["code"], "quota service" in status["message"]) == (503, True)
    assert webhook.ask(first, "DELETE", before=first)["allowed"]
    webhook.cluster.delete(first)
    webhook.service.start()
    allowed_soon(webhook, second)
    webhook.service.process.suspend()
    begin = time.monotonic()
    assert webhook.ask(pod())["status"]["code"] == 503
    assert time.monotonic() - begin < 5
    webhook.service.process.resume()
    webhook.cluster.delete(second)
    allowed_soon(webhook, third)
