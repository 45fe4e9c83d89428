"""The ledger follows the pods of a cluster, which are listed every minute and watched in between.

The comparison trusts the list: a pod that it does not contain does not run. So it is a consistent read of the API
server, and not the memory of a watch, which may be old after a lost connection. The watch only brings forward what the
next list would find: it confirms charges, and ends those of pods that are gone or have finished.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ugm.errors import RequestError, UgmError
from ugm.integrations.grants import Grants, Work
from ugm.integrations.kubernetes.admission import ONE_POD, OwnerPolicy, deadline_of
from ugm.kubernetes import ManifestError, NamespaceTerms, pod_usage, read_namespace, read_pod
from ugm.kubernetes.manifests import Fields
from ugm.kubernetes.objects import NOTHING
from ugm.partition import AllocationSpec, ApplicationInfo, OwnedAllocation, RunningApplication
from ugm.resources import Resource

_LOGGER: Final = logging.getLogger(__name__)
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
#: Returns all objects at a path of the API server, as they are stored now.
ListObjects: TypeAlias = Callable[[str], Awaitable[Sequence[Mapping[str, Any]]]]


@dataclass(slots=True, eq=False)
class Watcher:
    """Makes the ledger agree with the pods of a cluster."""

    #: The grants of the cluster.
    grants: Grants
    #: Lists the pods and namespaces.
    list_objects: ListObjects
    #: The pods that are charged, and their owners.
    policy: OwnerPolicy
    #: As for `ugm.kubernetes.pod_usage`. A pod that runs uses the variant of its node.
    variants: Mapping[str, str] = field(default_factory=dict)
    _namespaces: dict[str, Mapping[str, Any]] = field(default_factory=dict, init=False)
    #: The labels of the nodes, if they may name variants.
    _nodes: dict[str, Mapping[str, str]] = field(default_factory=dict, init=False)
    #: The pods whose charges are confirmed by the last list or by an event after it.
    _confirmed: set[str] = field(default_factory=set, init=False)
    #: The pods that have ended since the last list. An end may be lost while the quota service is away.
    _gone: set[str] = field(default_factory=set, init=False)

    async def find_namespace(self, name: str) -> NamespaceTerms:
        """Return the settings of a namespace as of the last list, or of now if it is new.

        Raises:
            ManifestError: an annotation of the namespace is invalid.
        """
        if name not in self._namespaces:
            await self._read_namespaces()
        return read_namespace(self._namespaces[name])

    async def _read_namespaces(self) -> None:
        self._namespaces = {one["metadata"]["name"]: one for one in await self.list_objects("/api/v1/namespaces")}

    # The list

    async def list_work(self, held: Mapping[str, OwnedAllocation]) -> Work:
        """Return the pods that run, for `Grants.keep_reconciled`."""
        gone, self._gone = self._gone, set()
        for uid in gone:
            await self.grants.end(uid)
        await self._read_namespaces()
        if self.variants:
            nodes = [one["metadata"] for one in await self.list_objects("/api/v1/nodes")]
            self._nodes = {one["name"]: one.get("labels", NOTHING) for one in nodes}
        listed = map(Fields, await self.list_objects("/api/v1/pods"))
        pods = {pod.mapping("metadata").name("uid") or "": pod for pod in listed if self._is_charged(pod)}
        self._confirmed = {*pods}
        names = [self.grants.ledger_id(uid) for uid in pods]
        known = {one.application_id: one for one in await self.grants.run(lambda p: p.applications_by_id(names))}
        parts = _parts(held)
        running: list[RunningApplication] = []
        for name, (uid, pod) in zip(names, pods.items(), strict=True):
            try:
                running.append(await self._running(uid, pod, known.get(name), parts.get(uid, {})))
            except (ManifestError, RequestError):
                _LOGGER.exception("the pod %s cannot be read; its charge stays as it is", uid)
        return Work(running, pods.keys() - {one.application_id for one in running})

    def _is_charged(self, pod: Fields) -> bool:
        is_exempt = pod.mapping("metadata").values.get("namespace") in self.policy.exempt
        return not is_exempt and pod.mapping("status").values.get("phase") not in _FINISHED

    async def _running(
        self, uid: str, pod: Fields, known: ApplicationInfo | None, parts: Mapping[str, Resource]
    ) -> RunningApplication:
        labels = self._nodes.get(pod.mapping("spec").name("nodeName") or "", NOTHING)
        allocations = _split(uid, pod_usage(pod.values, self.variants, labels) + ONE_POD, parts)
        if known is not None:  # possibly charged after the ledger was read
            return RunningApplication(uid, known.user, known.queue_path, allocations)
        namespace = pod.mapping("metadata").name("namespace") or ""
        user = self.policy.owner_of_unknown(pod, namespace)
        try:
            terms = read_pod(pod.values, await self.find_namespace(namespace))
        except ManifestError:  # the annotations of the namespace are invalid
            terms = read_pod(pod.values, NamespaceTerms(namespace))
        placement = await self.grants.run(lambda partition: partition.place(user, terms.queue or "", terms.tags))
        promised = [allocations[0]._replace(duration=deadline_of(pod.mapping("spec")))]
        return RunningApplication(uid, user, placement.queue_path or "", promised, terms.tags)

    # The watch

    async def pod_changed(self, *, type: str | None, body: Mapping[str, Any], **_: object) -> None:  # noqa: A002
        """Confirm the charge of a pod when it is seen, and end it when the pod is gone or has finished.

        Args:
            type: the type of the event; None for a pod of the first list.
            body: the pod.
        """
        uid: str = body["metadata"]["uid"]
        if type == "DELETED" or not self._is_charged(Fields(body)):
            self._gone.add(uid)
            await self.grants.end(uid)
        elif self.grants.is_ready and uid not in self._confirmed:
            with suppress(UgmError):  # the next list confirms it
                await self.grants.confirm(uid)
                self._confirmed.add(uid)


def _parts(held: Mapping[str, OwnedAllocation]) -> dict[str, dict[str, Resource]]:
    """Return the allocations of each pod: the one with its uid, and increases, whose ids begin with the uid."""
    parts: dict[str, dict[str, Resource]] = {}
    for name, owned in held.items():
        parts.setdefault(name.partition("/")[0], {})[name] = owned.allocation.requested_usage
    return parts


def _split(uid: str, usage: Resource, parts: Mapping[str, Resource]) -> list[AllocationSpec]:
    """Divide the usage of a pod among its allocations.

    If the pod has all of its increases, they keep their allocations. Otherwise one of them may still be on its way, was
    rejected, or the pod was decreased since. Then the first allocation has the whole usage, and an increase on its way
    counts in addition, until it is old enough to have arrived or failed.
    """
    increases = {name: part for name, part in parts.items() if name != uid}
    rest, first = usage - sum(increases.values(), Resource()), parts.get(uid, Resource())
    if any(rest.get(name, 0) < first.get(name, 0) for name in {**rest, **first}):
        return [AllocationSpec(uid, usage)]
    return [AllocationSpec(uid, rest), *(AllocationSpec(*item) for item in increases.items())]
