"""The pending requests of a partition by what blocks them, so that a wake-up finds the ones that may fit.

The problem: after a release, nearly all waiting requests are still blocked. Testing each of them, or only skipping it,
would take time proportional to their number for every release.

The idea: each request is in one `PendingView`, with other requests of the same size. The requests that a limit of a
user, a group or a quota model denies are in the view of this limit, which stays closed until the limit has room for
their size. A model that cannot tell its room denies a request only until the next search. All others are in a view of
their size alone, which is always open. A queue without room for a size refuses it for the whole subtree, in all views
of the size at once. A search looks only at open views; see `ugm.fairness.order_view`.

Invariant: a request in a closed view, or below a queue that refuses its size, is denied. The other requests may fit.

The cost: a request moves to another view when it is denied, or when its limit has room again. A release opens the views
of the limits that it frees. So the time for a wake-up grows with the tested requests, and the sizes that may fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple, TypeAlias, final

from ugm.counters import fits
from ugm.fairness.order_tree import OrderedApplication, OrderedQueue, OrderEntry
from ugm.fairness.order_view import OrderLog, OrderView
from ugm.identity import TrackingType, ancestors
from ugm.partition.admission import AdmissionControl
from ugm.partition.application import Application
from ugm.partition.scheduling_order import ApplicationOrder
from ugm.partition.state import PartitionState
from ugm.resources import Resource

__all__ = ["BlockingLimit", "PendingView", "PendingViews", "RequestSize", "ViewedRequest"]

#: With more open views than this, a queue finds out which sizes it refuses when they come up.
_MOST_SIZES: Final = 64
#: With more open views of limits than this, the oldest one is dissolved.
_MOST_OPEN: Final = 16
#: A view of at most this many applications is dissolved if its limit has room after a search.
_FEW: Final = 8

#: The owner of limits: the kind and the name, for example ``("user", "ana")``.
Owner: TypeAlias = tuple[str, str]


class BlockingLimit(NamedTuple):
    """A limit that denies requests."""

    owner: Owner
    queue_path: str
    #: Whether it limits the number of running applications.
    is_count: bool
    #: The resource that a limit of a quota model is about; None for a limit of a user or group.
    resource: str | None = None


@final
class RequestSize:
    """The requests of one size.

    Attributes:
        usage: the usage of each request.
        refused: the queues that have no room for it.
        view: the requests that no limit is known to deny.
        count: the number of pending requests.
    """

    __slots__ = ("count", "refused", "usage", "view")

    def __init__(self, usage: Resource, order: ApplicationOrder, log: OrderLog, refused: Iterable[str]) -> None:
        self.usage: Final = usage
        self.refused: Final = set(refused)
        self.view: Final = PendingView(self, None, OrderView(order.tree, log, self.refused))
        self.count: int = 0


@final
class PendingView:
    """Requests of one size that are blocked together.

    Attributes:
        size: their size.
        limit: the limit that denies them; None for the requests that no limit is known to deny.
        view: the requests in their order.
        is_open: whether the limit may have room for one.
    """

    __slots__ = ("is_open", "limit", "size", "view")

    def __init__(self, size: RequestSize, limit: BlockingLimit | None, view: OrderView) -> None:
        self.size: Final = size
        self.limit: Final = limit
        self.view: Final = view
        self.is_open: bool = limit is None


class ViewedRequest(NamedTuple):
    """A pending request, with its place in the order of its application."""

    entry: OrderEntry
    size: RequestSize
    #: None while it takes no part: it was woken before, or a quota model of unknown room has denied it.
    view: PendingView | None


@final
class PendingViews:
    """All pending requests by what blocks them; the caller holds the lock.

    Args:
        state: the partition.
        admission: returns the vectors of sizes.
        order: the order of all pending requests.
    """

    __slots__ = (
        "_admission",
        "_limited",
        "_log",
        "_model_owners",
        "_open",
        "_order",
        "_reachable",
        "_refusing",
        "_set_aside",
        "_sizes",
        "_starts",
        "_state",
        "offered",
        "priorities",
        "requests",
    )

    #: All requests by application.
    requests: dict[str, dict[str, ViewedRequest]]
    #: The requests that were woken since something was released, with their applications.
    offered: dict[str, str]
    #: The number of requests of each priority.
    priorities: dict[int, int]

    def __init__(self, state: PartitionState, admission: AdmissionControl, order: ApplicationOrder) -> None:
        self._state: Final = state
        self._admission: Final = admission
        self._order: Final = order
        self._log: Final = OrderLog()
        self.requests = {}
        self.offered = {}
        self.priorities = {}
        #: The requests that take part again at the next search, with their applications.
        self._set_aside: dict[str, str] = {}
        self._sizes: Final[dict[Resource, RequestSize]] = {}
        #: The sizes that the root does not refuse.
        self._reachable: Final[dict[RequestSize, None]] = {}
        #: The sizes that each queue refuses.
        self._refusing: Final[dict[str, set[RequestSize]]] = {}
        #: The views of limits by their owners, and those that are open.
        self._limited: Final[dict[Owner, dict[tuple[RequestSize, BlockingLimit], PendingView]]] = {}
        self._open: Final[dict[PendingView, None]] = {}
        #: The owners of limits of quota models that have views.
        self._model_owners: Final[dict[Owner, None]] = {}
        #: What all requests of an application have in common.
        self._starts: Final[dict[str, _Start]] = {}
        for name in order.tree.applications:
            self._place_all(name)

    # Searching

    def open_views(self) -> list[PendingView]:
        """Return all views with requests that may fit, up to date."""
        found = [size.view for size in self._reachable]
        found += [one for one in self._open if "root" not in one.size.refused]
        for one in found:
            one.view.sync()
        return [one for one in found if one.view.root.key is not None]

    def may_fit(self, application: Application, request_id: str) -> bool:
        """Return whether a request is not known to be denied."""
        found = self.requests[application.application_id][request_id]
        refused = found.size.refused
        return (
            found.view is not None
            and found.view.is_open
            and not (refused and any(path in refused for path in ancestors(application.queue.queue_path)))
        )

    # Moving requests

    def offer(self, application_id: str, request_id: str) -> None:
        """Let a woken request take no part until something is released."""
        self._leave(application_id, request_id)
        self.offered[request_id] = application_id

    def withdraw_offer(self, request_id: str) -> None:
        """Undo `offer`."""
        self._return(request_id, self.offered.pop(request_id))

    def _return(self, request_id: str, application_id: str) -> None:
        """Let a request take part again."""
        found = self.requests.get(application_id, {}).get(request_id)
        if found is not None and found.view is None:
            self.requests[application_id][request_id] = found._replace(view=found.size.view)
            found.size.view.view.add(application_id, [found.entry])

    def set_aside(self, application_id: str, request_id: str) -> None:
        """Let a request take no part until the next search."""
        self._leave(application_id, request_id)
        self._set_aside[request_id] = application_id

    def _leave(self, application_id: str, request_id: str) -> None:
        found = self.requests[application_id][request_id]
        if found.view is not None:
            self._remove(found.view, application_id, [request_id])
            self.requests[application_id][request_id] = found._replace(view=None)

    def block(self, application: Application, request_id: str, limit: BlockingLimit) -> None:
        """Put a denied request into the view of the limit that denies it, with the later ones of its application."""
        name = application.application_id
        known = self.requests[name]
        found, size = known[request_id], known[request_id].size
        views = self._limited.setdefault(limit.owner, {})
        target = views.get((size, limit))
        if target is None:
            view = OrderView(self._order.tree, self._log, size.refused)
            target = views[size, limit] = PendingView(size, limit, view)
            if limit.resource is not None:
                self._model_owners[limit.owner] = None
        self._close(target)
        assert found.view is not None  # noqa: S101 - it takes part
        moved = list(found.view.view.applications[name].requests.values()) if found.view is not target else []
        later = [entry for entry in moved if entry[:2] >= found.entry[:2]]
        self._move(name, later, found.view, target)

    def blocking_limit(self, application: Application, size: RequestSize) -> BlockingLimit | None:
        """Return a limit of the user or the group of an application that is known to deny a size."""
        owners: list[Owner] = [(TrackingType.USER, application.submission.user.name)]
        if application.holding is not None and application.group is not None:
            owners.append((TrackingType.GROUP, application.group))
        for owner in owners:
            views = self._limited.get(owner, {})
            for path in ancestors(application.queue.queue_path) if views else ():
                limit = BlockingLimit(owner, path, is_count=False)
                one = views.get((size, limit))
                if one is not None and not one.is_open and not self._is_exempt(application, owner):
                    return limit
        return None

    def _is_exempt(self, application: Application, owner: Owner) -> bool:
        """Return whether the limits of an owner do not apply to a running application: those of its group may not."""
        holding = application.holding
        if owner[0] != TrackingType.GROUP or holding is None or not self._state.active_limits.user_limits_win:
            return False
        return all(counter.owner is not holding.group for counter in holding.enforced(holding.chain()))

    def unblock_later(self, application_id: str, entry: OrderEntry) -> None:
        """Let the requests of an application take part that come after one that has started it."""
        for found in list(self.requests[application_id].values()):
            view = found.view
            if view is not None and view.limit is not None and found.entry[:2] > entry[:2]:
                self._move(application_id, [found.entry], view, found.size.view)

    def _move(self, application_id: str, entries: list[OrderEntry], source: PendingView, target: PendingView) -> None:
        if not entries:
            return
        known = self.requests[application_id]
        names = [entry[2].request_id for entry in entries]
        self._remove(source, application_id, names)
        for name in names:
            known[name] = known[name]._replace(view=target)
        target.view.add(application_id, entries)

    def _remove(self, one: PendingView, application_id: str, request_ids: Collection[str]) -> None:
        one.view.remove(application_id, request_ids)
        if one.limit is not None and not one.view.applications:
            views = self._limited[one.limit.owner]
            del views[one.size, one.limit]
            if not views:
                del self._limited[one.limit.owner]
                self._model_owners.pop(one.limit.owner, None)
            self._open.pop(one, None)

    # Limits

    def open(self, owner: Owner) -> None:
        """Open the views of the limits of an owner that may have room."""
        for one in list(self._limited.get(owner, {}).values()):
            if not one.is_open and self._has_room(one):
                one.is_open = True
                self._open[one] = None

    def open_models(self, room_of: Callable[[str, str, str], int | None]) -> None:
        """Open the views of the limits of quota models that may have room.

        Args:
            room_of: returns the room of the limits with a kind, a name and a resource; None if it is unknown.
        """
        for kind, name in self._model_owners:
            for one in self._limited[kind, name].values():
                resource = None if one.is_open or one.limit is None else one.limit.resource
                if resource is not None:
                    room = room_of(kind, name, resource)
                    if room is None or room >= one.size.usage.get(resource, 0):
                        one.is_open = True
                        self._open[one] = None

    def known_group(self, application_id: str) -> str | None:
        """Return the group of an application at the last search."""
        start = self._starts.get(application_id)
        return None if start is None else start.group

    def _has_room(self, one: PendingView) -> bool:
        """Return whether a limit may have room for one request of its view."""
        limit = one.limit
        assert limit is not None  # noqa: S101 - only views of limits are closed
        application = self._state.applications.get(next(iter(one.view.applications)))
        if limit.is_count or application is None:
            return True
        vector = self._admission.vector(one.size.usage)
        (kind, name), path = limit.owner, limit.queue_path
        return all(
            fits((counter,), vector)
            for counter in self._state.holding_of(application).chain()
            if counter.queue_path == path and counter.owner.name == name and counter.owner.kind == kind
        )

    def _close(self, one: PendingView) -> None:
        if one.is_open:
            one.is_open = False
            self._open.pop(one, None)

    def dissolve(self) -> None:
        """Put the requests of most open views of limits into the views of their sizes."""
        excess = len(self._open) - _MOST_OPEN
        for number, one in enumerate(list(self._open)):
            if number < excess or len(one.view.applications) <= _FEW:
                for name, application in list(one.view.applications.items()):
                    self._move(name, list(application.requests.values()), one, one.size.view)

    # Queues

    def refuse_sizes(self, queue_paths: Iterable[str]) -> None:
        """Let queues refuse the sizes of open requests for which they have no room."""
        queues = self._state.tree.queues
        counters = [(path, counter) for path in queue_paths if (counter := queues[path].counter) is not None]
        views = self.open_views() if counters else []
        if len(views) > _MOST_SIZES:
            # Each queue finds out which sizes it refuses when they come up.
            return
        for path, counter in counters:
            for one in views:
                queue = one.view.queues.get(path)
                if queue is not None and not fits((counter,), self._admission.vector(one.size.usage)):
                    self.refuse(path, one.size)

    def refuse(self, queue_path: str, size: RequestSize) -> None:
        """Leave out all requests of a size in and below a queue."""
        if queue_path not in size.refused:
            size.refused.add(queue_path)
            self._refusing.setdefault(queue_path, set()).add(size)
            if queue_path == "root":
                del self._reachable[size]
            self._note_path(queue_path)

    def allow(self, queue_path: str) -> None:
        """Let a queue allow the sizes again for which it has room."""
        refusing = self._refusing.get(queue_path)
        if not refusing:
            return
        queue = self._state.tree.queues.get(queue_path)
        counter = None if queue is None else queue.counter
        for size in list(refusing):
            if counter is None or fits((counter,), self._admission.vector(size.usage)):
                refusing.discard(size)
                size.refused.discard(queue_path)
                if queue_path == "root":
                    self._reachable[size] = None
                self._note_path(queue_path)

    def _note_path(self, queue_path: str) -> None:
        queue = self._order.tree.queues.get(queue_path)
        if queue is not None:
            self.note_usage(queue)

    def note_usage(self, queue: OrderedQueue) -> None:
        """Follow a change of the usage of a queue, and so of the queues above it."""
        for one in queue.lineage():
            self._log.add(one)

    def note_application(self, application: OrderedApplication) -> None:
        """Follow a change of the usage of an application."""
        self.note_usage(application.queue)
        if application.queue.first_key is not None:
            self._log.add(application)

    def note_everything(self) -> None:
        """Follow a change of the ranks of users."""
        self._log.forget()

    # Following the partition

    def take_part_again(self, *, freed: bool) -> None:
        """Let the requests take part again that a quota model has denied, and after a release those that were woken."""
        for name, application_id in self._set_aside.items():
            self._return(name, application_id)
        self._set_aside = {}
        if freed:
            for name, application_id in self.offered.items():
                self._return(name, application_id)
            self.offered = {}

    def follow(self, application_id: str, request_ids: Iterable[str]) -> None:
        """Follow the changed requests of an application, or all if the application has changed."""
        application, known = self._state.applications.get(application_id), self.requests.get(application_id, {})
        ordered = self._order.tree.applications.get(application_id)
        changed = set(request_ids)
        if application is None or ordered is None or self._starts.get(application_id) != _start_of(application):
            changed.update(known)
        pending = {} if ordered is None else ordered.requests
        outdated = []
        for name in changed:
            found, entry = known.get(name), pending.get(name)
            if entry is None or (found is not None and found.entry is not entry):
                self.offered.pop(name, None)
            if found is not None and (found.entry is not entry or found.view is not found.size.view):
                outdated.append(name)
        self._forget(application_id, outdated)
        if application is None or ordered is None:
            self._starts.pop(application_id, None)
            return
        self._starts[application_id] = _start_of(application)
        self._place(application_id, [pending[name] for name in changed if name in pending])

    def _place_all(self, application_id: str) -> None:
        ordered = self._order.tree.applications[application_id]
        application = self._state.applications.get(application_id)
        if application is not None:
            self._starts[application_id] = _start_of(application)
        self._place(application_id, ordered.requests.values())

    def _place(self, application_id: str, entries: Iterable[OrderEntry]) -> None:
        """Put new requests into the views of their sizes."""
        new: dict[RequestSize, list[OrderEntry]] = {}
        for entry in entries:
            known = self.requests.setdefault(application_id, {})
            name = entry[2].request_id
            if name in known:
                continue
            size = self._size(Resource(entry[2].usage))
            size.count += 1
            self.priorities[-entry[0]] = self.priorities.get(-entry[0], 0) + 1
            takes_part = name not in self.offered
            known[name] = ViewedRequest(entry, size, size.view if takes_part else None)
            if takes_part:
                new.setdefault(size, []).append(entry)
        for size, listed in new.items():
            size.view.view.add(application_id, listed)

    def _size(self, usage: Resource) -> RequestSize:
        found = self._sizes.get(usage)
        if found is None:
            found = self._sizes[usage] = RequestSize(usage, self._order, self._log, ())
            self._reachable[found] = None
        return found

    def _forget(self, application_id: str, request_ids: Collection[str]) -> None:
        """Forget requests of an application.

        Each view removes all of them at once: an application that has ended has no place in the order any more.
        """
        if not request_ids:
            return
        known = self.requests[application_id]
        by_view: dict[PendingView, list[str]] = {}
        for name in request_ids:
            found = known.pop(name)
            if found.view is not None:
                by_view.setdefault(found.view, []).append(name)
            self._discount(found)
        if not known:
            del self.requests[application_id]
        for view, names in by_view.items():
            self._remove(view, application_id, names)

    def _discount(self, found: ViewedRequest) -> None:
        """Count a request no longer, and forget its priority and size if no other request has them."""
        priority = -found.entry[0]
        self.priorities[priority] -= 1
        if not self.priorities[priority]:
            del self.priorities[priority]
        found.size.count -= 1
        if not found.size.count:
            self._forget_size(found.size)

    def _forget_size(self, size: RequestSize) -> None:
        del self._sizes[size.usage]
        self._reachable.pop(size, None)
        for path in size.refused:
            self._refusing[path].discard(size)


class _Start(NamedTuple):
    """The facts that decide about all requests of an application."""

    #: Its place in the order of submission: after its end, another application may have its id.
    number: int
    queue_path: str
    group: str | None
    is_running: bool


def _start_of(application: Application) -> _Start:
    return _Start(application.number, application.queue.queue_path, application.group, application.holding is not None)
