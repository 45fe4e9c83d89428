"""The pending requests of a partition by class, and which of them were woken before.

The classes follow the applications: a request changes its class when its application starts, stops or gets a group. A
request that was woken does not count as open until something has been released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, final

from ugm.hierarchy import fits
from ugm.identity import TrackingType, UserGroup, ancestors
from ugm.partition.admission import Admission
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.open_requests import ClassKey, OpenRequests, RequestClass
from ugm.partition.scheduling_order import CopiedApplication, ledger_entry
from ugm.partition.state import PartitionState

__all__ = ["PendingClasses", "class_start"]


@final
class PendingClasses:
    """The classes of all pending requests.

    Args:
        state: the partition.
        admission: returns the vectors of sizes.
        by_id: whether each request has a class of its own, because quota models decide about it.
        copied: all applications with their pending requests. If the lock is not held, they may have changed since, and
            have to be classified again.
    """

    __slots__ = ("_admission", "_by_id", "_state", "_users", "by_application", "offered", "open")

    open: OpenRequests
    #: The class of each request, by application.
    by_application: dict[str, dict[str, RequestClass]]
    #: The requests that were woken since something was released, with their applications.
    offered: dict[str, str]

    def __init__(
        self, state: PartitionState, admission: Admission, *, by_id: bool, copied: Iterable[CopiedApplication] = ()
    ) -> None:
        self._state: Final = state
        self._admission: Final = admission
        self._by_id: Final = by_id
        self.open = OpenRequests()
        self.by_application = {}
        self.offered = {}
        #: The owner of each application.
        self._users: Final[dict[str, str]] = {}
        for application, _, requests, *_ in copied:
            self._users[application.application_id] = application.submission.user.name
            self.classify(application, {one.request_id: ledger_entry(one) for one in requests})

    def forget_offers(self) -> None:
        """Let the requests take part again that were woken before."""
        for name, application_id in self.offered.items():
            one = self.by_application.get(application_id, {}).get(name)
            if one is not None:
                self.open.add(one, 1)
        self.offered.clear()

    def free(self, application_id: str, queue_path: str | None) -> Iterable[str]:
        """Open what an application may have closed by its usage, and return the paths of its queues."""
        application = self._state.applications.get(application_id)
        if queue_path is None:
            # It came after the last call. What it may have freed, it has used since then.
            return ()
        self.open.reopen((TrackingType.USER, self._users[application_id]))
        # If it was removed, its group is unknown.
        group = None if application is None else application.group
        for witness in [(TrackingType.GROUP, group)] if group else self.open.witnesses(TrackingType.GROUP):
            self.open.reopen(witness)
        paths = list(ancestors(queue_path))
        for each in paths:
            self.open.reopen((TrackingType.QUEUE, each))
        return paths

    def allow(self, queue_path: str) -> None:
        """Let a queue allow the sizes again for which it has room."""
        queue = self._state.tree.queues.get(queue_path)
        for size in self.open.refused(queue_path):
            if queue is None or queue.counter is None or fits((queue.counter,), self._admission.vector(size.usage)):
                self.open.allow(queue_path, size)

    def reclassify(self, application_id: str, request_ids: Iterable[str]) -> None:
        """Put the changed requests of an application into their classes, or all if the application has changed."""
        known = self.by_application.get(application_id, {})
        application = self._state.applications.get(application_id)
        if application is None:
            self._users.pop(application_id, None)
            self._drop(self.by_application.pop(application_id, {}), list(known))
            self._withdraw_offers(request_ids)
            return
        self._users[application_id] = application.submission.user.name
        start = class_start(application)
        changed = set(request_ids)
        if any(one.key[:4] != start for one in known.values()):
            changed.update(known)
        self._drop(known, changed)
        pending = {name: entry for name, entry in application.pending.items() if name in changed}
        self._withdraw_offers(changed.difference(pending))
        self.classify(application, pending)
        if not self.by_application.get(application_id):
            self.by_application.pop(application_id, None)

    def _withdraw_offers(self, request_ids: Iterable[str]) -> None:
        for name in request_ids:
            self.offered.pop(name, None)

    def _drop(self, known: dict[str, RequestClass], request_ids: Iterable[str]) -> None:
        for name in request_ids:
            one = known.pop(name, None)
            if one is not None:
                if name not in self.offered:
                    self.open.add(one, -1)
                del one.requests[name]
                self.open.forget_if_empty(one)

    def classify(self, application: Application, pending: Mapping[str, LedgerEntry]) -> None:
        """Put requests of an application into their classes."""
        start, classes = class_start(application), self.by_application.setdefault(application.application_id, {})
        for name, entry in pending.items():
            key: ClassKey = (*start, entry.usage, name if self._by_id else "", entry.traits.priority)
            one = classes[name] = self.open.class_of(key)
            one.requests[name] = application.application_id
            if name not in self.offered:
                self.open.add(one, 1)


def class_start(application: Application) -> tuple[UserGroup, str | None, str, bool]:
    """Return the part of the key of a class that all requests of an application have in common."""
    queue_path, is_running = application.queue.queue_path, application.holding is not None
    return application.submission.user, application.group, queue_path, is_running
