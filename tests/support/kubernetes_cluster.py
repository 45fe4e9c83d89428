"""A simulated API server with two replicas of the webhook over one partition; a test decides what happens when.

It follows the documented rules: it asks the webhook before it stores a pod or a resize, may call it twice or with an
updated object, may reject the request afterwards, and stores it at most a minute later. Events of a watch arrive late,
in the order of the changes of each object, and a new watch begins with all objects. A list is consistent, and its
answer may arrive late.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from support.kubernetes_reviews import REPLICA_SET_CONTROLLER, pod, review
from ugm import Partition
from ugm.configuration import PartitionConfig
from ugm.integrations import Grants
from ugm.integrations.kubernetes.admission import TENTATIVE, OwnerPolicy, PodAdmission
from ugm.integrations.kubernetes.reviews import review_of
from ugm.integrations.kubernetes.watcher import Watcher

Manifest = dict[str, Any]
#: The maximum time of a request to the API server, and of a list by the watcher, in seconds.
REQUEST_TIMEOUT: Final = 60
LIST_TIMEOUT: Final = 30
_POLICY: Final = OwnerPolicy()


@dataclass(eq=False)
class ChangeRequest:
    """A request that the webhook has allowed, and that the API server has not stored yet."""

    manifest: Manifest
    user: str
    #: The stored pod that a resize replaces; None for a new pod.
    before: Manifest | None
    ends: float


@dataclass
class ListRequest:
    """A list of pods on its way: the pods when the API server has read them, and the time-out."""

    ends: float
    answer: asyncio.Future[list[Manifest]]
    pods: list[Manifest] | None = None


@dataclass(eq=False)
class Replica:
    """A process of the webhook."""

    grants: Grants
    admission: PodAdmission
    watcher: Watcher
    events: deque[tuple[str | None, Manifest]] = field(default_factory=deque)
    comparison: asyncio.Task[None] | None = None
    list_request: ListRequest | None = None


class ReplicaReader:
    """The connection of a replica to the API server."""

    def __init__(self, server: ApiServer) -> None:
        self._server: Final = server
        self.replica: Replica

    async def list(self, path: str) -> list[Manifest]:
        """Return all namespaces, or the pods when the test delivers them."""
        if path == "/api/v1/namespaces":
            return [{"metadata": {"name": "dev"}}]
        assert path == "/api/v1/pods"
        answer = asyncio.get_running_loop().create_future()
        self.replica.list_request = ListRequest(self._server.now + LIST_TIMEOUT, answer)
        found: list[Manifest] = await answer
        return found


class ApiServer:
    """The API server.

    Attributes:
        now: the time in seconds.
        partition: the partition that the replicas share.
        pods: the stored pods by uid.
        requests: the requests that the webhook has allowed.
        replicas: the processes of the webhook.
    """

    def __init__(self, config: PartitionConfig, *, replicas: int = 2) -> None:
        self.now = 1_800_000_000
        self.partition: Final = Partition(config, clock=lambda: self.now)
        self.pods: Final[dict[str, Manifest]] = {}
        self.requests: Final[list[ChangeRequest]] = []
        self._loop: Final = asyncio.new_event_loop()
        self.replicas: Final = [self._new_replica() for _ in range(replicas)]

    def close(self) -> None:
        """End everything."""
        for replica in self.replicas:
            self._stop(replica)
        self._loop.close()

    # Requests

    def ask(self, number: int, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer of a replica to a review."""
        request, uid = review_of(body)
        assert uid == body["request"]["uid"]
        return self._loop.run_until_complete(self.replicas[number].admission.answer(request))

    def create(self, number: int, user: str, cpu: int, *, is_controlled: bool, dry_run: bool) -> None:
        """Ask for a new pod. If it is allowed, the request is on its way."""
        manifest = pod(str(cpu), user=user if is_controlled else None)
        creator = REPLICA_SET_CONTROLLER if is_controlled else user
        answer = self.ask(number, review(manifest, user=creator, dry_run=dry_run))
        if answer["allowed"] and not dry_run:
            self.requests.append(ChangeRequest(manifest, creator, None, self.now + REQUEST_TIMEOUT))

    def resize(self, number: int, uid: str, cpu: int, *, ends: float | None = None) -> None:
        """Ask for another size of a stored pod."""
        before = deepcopy(self.pods[uid])
        manifest = deepcopy(before)
        manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(cpu)
        answer = self.ask(number, review(manifest, "UPDATE", before=before, sub_resource="resize"))
        if answer["allowed"]:
            self.requests.append(ChangeRequest(manifest, "ana", before, ends or self.now + REQUEST_TIMEOUT))

    def repeat(self, number: int, request: ChangeRequest) -> None:
        """Ask again for a request on its way: with a new review of the same object."""
        if request.before is None:
            self.ask(number, review(request.manifest, user=request.user))
        else:
            self.ask(number, review(request.manifest, "UPDATE", before=request.before, sub_resource="resize"))

    def store(self, number: int, request: ChangeRequest) -> None:
        """Store what was requested. If the pod has changed since, ask again for the change of the present pod."""
        self.requests.remove(request)
        uid = request.manifest["metadata"]["uid"]
        if request.before is None:
            self.pods[uid] = request.manifest
            self._emit("ADDED", request.manifest)
        elif uid in self.running():
            cpu = _cpu(request.manifest)
            if self.pods[uid] != request.before:
                self.resize(number, uid, cpu, ends=request.ends)
                return
            self.pods[uid] = request.manifest
            self._emit("MODIFIED", request.manifest)

    def reject(self, request: ChangeRequest) -> None:
        """Drop a request, as if another webhook had denied it or the client had gone."""
        self.requests.remove(request)

    # Pods

    def set_phase(self, uid: str, phase: str) -> None:
        """Let a pod start or finish."""
        self.pods[uid] = {**self.pods[uid], "status": {"phase": phase}}
        self._emit("MODIFIED", self.pods[uid])

    def delete(self, uid: str) -> None:
        """Remove a pod."""
        self._emit("DELETED", self.pods.pop(uid))

    def running(self) -> dict[str, int]:
        """Return the cores of each stored pod that has not finished."""
        return {
            uid: _cpu(manifest)
            for uid, manifest in self.pods.items()
            if manifest["status"]["phase"] not in {"Succeeded", "Failed"}
        }

    def owner(self, uid: str) -> str | None:
        """Return the user of a pod in the ledger."""
        found = self.partition.application(f"kubernetes/{uid}")
        return None if found is None else found.user.name

    # Watches and lists

    def deliver_event(self, number: int, *, batch: bool) -> None:
        """Let an event arrive at a replica. Of several events of one pod, possibly only the last one arrives."""
        replica = self.replicas[number]
        kind, manifest = replica.events.popleft()
        uid = manifest["metadata"]["uid"]
        while batch and (later := [one for one in replica.events if one[1]["metadata"]["uid"] == uid]):
            kind, manifest = later[0]
            replica.events.remove(later[0])
        self._loop.run_until_complete(replica.watcher.pod_changed(type=kind, body=manifest, memo=None))

    def reconnect(self, number: int) -> None:
        """Begin a new watch: events on their way are lost, and all pods are listed."""
        events = self.replicas[number].events
        events.clear()
        events.extend((None, deepcopy(manifest)) for manifest in self.pods.values())

    def begin_comparison(self, number: int) -> None:
        """Let a replica read the ledger and ask for a list."""
        replica = self.replicas[number]
        if replica.comparison is None:
            replica.comparison = self._loop.create_task(self._compare(replica))
            self._run_ready()

    def read_list(self, number: int) -> None:
        """Let the API server read the list that a replica waits for."""
        request = self.replicas[number].list_request
        if request is not None and request.pods is None:
            request.pods = [deepcopy(manifest) for manifest in self.pods.values()]

    def finish_comparison(self, number: int) -> None:
        """Let a replica get its list and repair the ledger."""
        replica = self.replicas[number]
        if replica.comparison is None or replica.list_request is None:
            return
        self.read_list(number)
        pods = replica.list_request.pods
        assert pods is not None
        replica.list_request.answer.set_result(pods)
        self._loop.run_until_complete(replica.comparison)
        replica.comparison = replica.list_request = None

    def restart(self, number: int) -> None:
        """Kill a replica and start it again."""
        self._stop(self.replicas[number])
        self.replicas[number] = self._new_replica()
        self.reconnect(number)

    def pass_time(self, seconds: int) -> None:
        """Let time pass, after which old requests and lists have failed."""
        self.now += seconds
        self.requests[:] = [one for one in self.requests if one.ends > self.now]
        for replica in self.replicas:
            if replica.list_request is not None and replica.list_request.ends <= self.now:
                self._stop(replica)

    def settle(self) -> None:
        """Let all requests and tentative charges end."""
        self.requests.clear()
        self.pass_time(TENTATIVE + 1)
        for number, _ in enumerate(self.replicas):
            self.begin_comparison(number)
            self.finish_comparison(number)

    def end_pods(self) -> None:
        """Let all pods end. Some pods are deleted, others finish."""
        for number, uid in enumerate([*self.running()]):
            if number % 2:
                self.delete(uid)
            else:
                self.set_phase(uid, "Succeeded")

    def _new_replica(self) -> Replica:
        grants = Grants(self.partition, "kubernetes", tentative=TENTATIVE, clock=lambda: self.now)
        reader = ReplicaReader(self)
        watcher = Watcher(grants, reader.list, _POLICY)
        reader.replica = Replica(grants, PodAdmission(grants, watcher.find_namespace, _POLICY), watcher)
        return reader.replica

    async def _compare(self, replica: Replica) -> None:
        await replica.grants.reconcile(replica.watcher.list_work)

    def _stop(self, replica: Replica) -> None:
        if replica.comparison is not None:
            replica.comparison.cancel()
            self._run_ready()
            replica.comparison = replica.list_request = None

    def _run_ready(self) -> None:
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(asyncio.sleep(0))

    def _emit(self, kind: str, manifest: Manifest) -> None:
        for replica in self.replicas:
            replica.events.append((kind, deepcopy(manifest)))


def _cpu(manifest: Mapping[str, Any]) -> int:
    return int(manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"])
