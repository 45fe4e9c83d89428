"""The queues in which one user, or one group, uses something: a sparse tree below ``root``.

A `QueueTracker` is that whole tree. Its truth is the list of what each application holds in each queue (`Holding`);
the usage of a queue is the sum of what is held in and below it, and its running applications are their union. A counter
(`Node`) exists only where a limit needs one: at every limited queue in or below which something runs. A queue without a
limit therefore costs nothing, and a tracker costs what its applications cost.

When the limits change nobody visits the trackers. Each brings its counters in line when it is used next, by rebasing
those that exist and summing up only for queues that were not limited before.

Source: Apache YuniKorn, user based resource usage tracking, "Queue tracking"; user based quota enforcement, "Queue
tracking" and "Configuration updates and storage".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Self, final

from ugm.arguments import require_application_id, require_count, require_name, require_vector
from ugm.errors import NotTrackedError, RequestError
from ugm.hierarchy import Limit, Node, charge
from ugm.identity import ROOT, TrackingType, ancestors, is_below
from ugm.resources import Resource, sum_of
from ugm.tracking.holding import Holding, QuotaNode
from ugm.tracking.limits import Epoch, Level, LimitsInForce, checked_limit
from ugm.tracking.links import all_holdings, with_siblings

__all__ = ["QueueTracker"]

#: Looking up a member of an enumeration costs more than comparing with it.
_USER: Final = TrackingType.USER
_GROUP: Final = TrackingType.GROUP


@final
class QueueTracker:
    """What one user or one group uses in which queues, and the counters of its limits.

    A tracker by itself enforces the limits that *in_force* has for its name. Within a `ugm.Manager` it belongs to a
    user tracker or a group tracker.

    Args:
        name: the user or the group.
        kind: which of the two.
        in_force: the limits, shared by all trackers of a partition; None for a tracker without limits of its own.

    Raises:
        RequestError: the name is empty or no text, or the kind is neither a user nor a group.

    >>> tracker = QueueTracker("sue", TrackingType.USER)
    >>> tracker.increase_resource("root.prod", "app-1", Resource(memory=4))
    True
    >>> tracker.set_max_resources(Resource(memory=5), "root")
    >>> tracker.increase_resource("root.test", "app-2", Resource(memory=2))
    False
    >>> tracker.usage
    Resource(memory=4)
    """

    __slots__ = ("_by_hand", "_epoch", "holdings", "in_force", "kind", "name", "nodes")

    name: str
    kind: TrackingType
    in_force: LimitsInForce
    #: Application to what it holds; in several queues, to the first of what it holds.
    holdings: dict[str, Holding]
    #: Canonical queue path to its counter. Invariant: a node stands exactly where a limit holds and something runs.
    nodes: dict[str, QuotaNode]
    #: When `nodes` was last brought in line.
    _epoch: Epoch
    #: Limits set by hand, with the revision of the configuration that they were set under; they end with it.
    _by_hand: tuple[object, dict[str, Level]] | None

    def __init__(self, name: str, kind: TrackingType, in_force: LimitsInForce | None = None) -> None:
        if kind is not _USER and kind is not _GROUP:
            kind = _kind_of(kind)
        self._begin(require_name("name", name), kind, in_force or LimitsInForce())

    @classmethod
    def of_checked_name(cls, name: str, kind: TrackingType, in_force: LimitsInForce) -> Self:
        """Return a tracker for a name that was checked when it was passed in, perhaps by an earlier version."""
        tracker = cls.__new__(cls)
        tracker._begin(name, kind, in_force)  # noqa: SLF001 - of this class
        return tracker

    def _begin(self, name: str, kind: TrackingType, in_force: LimitsInForce) -> None:
        self.name = name
        self.kind = kind
        self.in_force = in_force
        self.holdings = {}
        self.nodes = {}
        self._epoch = self.in_force.epoch
        self._by_hand = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.kind} {self.name!r} applications={len(self.holdings)}>"

    # Reading

    @property
    def usage(self) -> Resource:
        """What is used in all queues together, without zeros. Takes time in the number of applications."""
        return self.in_force.lock.run(self.total)

    @property
    def running_applications(self) -> tuple[str, ...]:
        """The applications that run in any queue, sorted."""
        return tuple(sorted(self.in_force.lock.run(list, self.holdings)))

    def total(self) -> Resource:
        """Return `usage`, for callers that hold the lock."""
        return sum_of(holding.held() for holding in all_holdings(self.holdings))

    # Changing, by itself

    def increase_resource(self, queue_path: str, application_id: str, usage: Resource) -> bool:
        """Charge *usage* to an application in a queue, starting the application there if it does not run there yet.

        Checked from the queue to the root; charged only when every limit on the way agrees.

        Returns:
            Whether it was charged. If not, nothing has changed.

        Raises:
            RequestError: an argument is empty or of the wrong kind, the application is charged through its user, or
                the tracker belongs to a manager.
        """
        return self.in_force.lock.run(self.increase_locked, queue_path, application_id, usage, None)

    def increase_locked(
        self, queue_path: str, application_id: str, usage: Resource, group: QueueTracker | None
    ) -> bool:
        """Do what `increase_resource` does under a lock that is held, with the group that a new application has."""
        path, application_id = self.in_force.path(queue_path), require_application_id(application_id)
        vector = require_vector("usage", usage, self.in_force.epoch.layout)
        holding = self.find(application_id, path)
        if holding is None:
            self._require_free()
            for tracker in (self,) if group is None else (self, group):
                tracker.require_only(self, application_id)
            holding = Holding(application_id, path, self, group)
            self.in_force.lock.undo.append((holding.undo_attach, ()))
            return not holding.start(vector)
        self._require_own(holding)
        holding.refresh()
        return holding.try_charge(vector) or not holding.violations_or_charge(vector)

    def decrease_resource(
        self, queue_path: str, application_id: str, usage: Resource, *, remove_app: bool = False
    ) -> None:
        """Give *usage* of an application in a queue back, and with *remove_app* end the application there.

        Raises:
            RequestError: as for `increase_resource`.
            NotTrackedError: the application does not run in that queue.
            ReleaseError: it holds less than *usage*, or would end with something left.
        """
        self.in_force.lock.run(self._decrease, queue_path, application_id, usage, remove_app=remove_app)

    def _decrease(self, queue_path: str, application_id: str, usage: Resource, *, remove_app: bool) -> None:
        path, application_id = self.in_force.path(queue_path), require_application_id(application_id)
        vector = require_vector("usage", usage, self.in_force.epoch.layout)
        holding = self.find(application_id, path)
        if holding is None:
            raise NotTrackedError(application_id, path, self.name, "it does not run in that queue")
        self._require_own(holding)
        holding.refresh()
        holding.require_held(vector, everything=remove_app)
        if remove_app:
            self.in_force.lock.undo.append((holding.undo_detach, (holding.amounts,)))
        holding.try_refund(vector)
        if remove_app:
            holding.detach()

    def _require_free(self) -> None:
        if self.in_force.managed:
            raise RequestError("tracker", self.name, "the tracker belongs to a manager and is charged through it")

    def _require_own(self, holding: Holding) -> None:
        self._require_free()
        self.require_only(self, holding.application_id)

    def require_only(self, owner: QueueTracker, application_id: str) -> None:
        """Make sure that nobody but *owner* charges an application here.

        Raises:
            RequestError: somebody else does.
        """
        holding = self.holdings.get(application_id)
        if holding is not None and holding.owner is not owner:
            reason = f"the application is charged through its {holding.owner.kind} {holding.owner.name!r}"
            raise RequestError("application_id", application_id, reason)

    def set_max_applications(self, count: int | None, queue_path: str = "") -> None:
        """Limit the running applications in and below a queue until the next configuration is applied.

        The limit comes first, the queue second, as in the document. A setter creates nothing: where the owner of the
        tracker runs nothing in or below the queue, there is no counter to limit, and the call raises.

        Args:
            count: the most that may run; None or 0 lifts the limit.
            queue_path: a full path; empty for the root.

        Raises:
            RequestError: the count is no count, the path is not well formed, or nothing runs in or below the queue.
        """
        path, applications = self.in_force.path(queue_path or ROOT), require_count("count", count)
        self.in_force.lock.run(self._set, path, lambda old: _by_hand(old, old.resources, applications))

    def set_max_resources(self, resource: Resource | None, queue_path: str = "") -> None:
        """Limit the resources used in and below a queue until the next configuration is applied.

        The arguments are in the same order as those of `set_max_applications`, and the same holds where nothing runs.

        Args:
            resource: the most that may be used; None or an empty vector lifts the limit.
            queue_path: a full path; empty for the root.

        Raises:
            RequestError: the vector is no limit (negative, or nothing but zeros), the path is not well formed, or
                nothing runs in or below the queue.
        """
        path, resources = self.in_force.path(queue_path or ROOT), checked_limit("resource", resource)
        self.in_force.lock.run(self._set, path, lambda old: _by_hand(old, resources, old.applications))

    def _set(self, queue_path: str, change: Callable[[Limit], Limit]) -> None:
        if not any(is_below(holding.queue_path, queue_path) for holding in all_holdings(self.holdings)):
            reason = f"{self.kind} {self.name!r} runs nothing in or below the queue, so there is no usage to limit"
            raise RequestError("queue_path", queue_path, reason)
        self.refresh()
        node = self.nodes.get(queue_path)
        if self._by_hand is None or self._by_hand[0] is not self.in_force.limits.revision:
            self._by_hand = (self.in_force.limits.revision, {})
        limit = change(node.limit if node else Limit(Resource()))
        self.in_force.count(limit.resources)
        named = {self.name: limit} if limit.resources or limit.applications else {}
        self._by_hand[1][queue_path] = Level(queue_path, named, None)
        self._recount()
        for holding in all_holdings(self.holdings):
            holding.invalidate()

    def forget_counters(self) -> None:
        """Drop all counters and the list of applications; a rebuild of the ledger lists them again."""
        self.holdings, self.nodes = {}, {}

    # What holdings and managers work with; they hold the lock.

    def find(self, application_id: str, queue_path: str) -> Holding | None:
        """Return what an application holds in a queue."""
        for holding in with_siblings(self.holdings.get(application_id)):
            if holding.queue_path == queue_path:
                return holding
        return None

    def chain(self, queue_path: str) -> list[QuotaNode]:
        """Return every limit from a queue to the root, leaf to root.

        Where nothing runs below a limit yet, the node is a new one, which the tracker does not know.
        """
        if self._epoch is not self.in_force.epoch:
            self._recount()
        nodes, name, chain = self.nodes, self.name, []
        limits = self.in_force.limits
        levels = (limits.users if self.kind is _USER else limits.groups).levels_on(queue_path)
        for path, named, fallback in levels if self._by_hand is None else self._levels_by_hand(queue_path, levels):
            node = nodes.get(path)
            if node is None:
                limit = named.get(name, fallback)
                if limit is None:
                    continue
                node = Node(self, path, limit, self._epoch.layout)
            chain.append(node)
        return chain

    def _levels_by_hand(self, queue_path: str, levels: Iterable[Level]) -> Iterable[Level]:
        """Put limits set by hand in the place of those of the configuration."""
        if self._by_hand is None:
            return levels
        by_path = {level.queue_path: level for level in levels} | self._by_hand[1]
        return [by_path[path] for path in ancestors(queue_path) if path in by_path]

    def limits_on(self, queue_path: str) -> Iterator[tuple[str, Limit]]:
        """Yield the limits that hold from a queue to the root, leaf to root."""
        limits = self.in_force.limits
        levels = (limits.users if self.kind is _USER else limits.groups).levels_on(queue_path)
        for path, named, fallback in self._levels_by_hand(queue_path, levels):
            limit = named.get(self.name, fallback)
            if limit is not None:
                yield path, limit

    def refresh(self) -> None:
        """Bring the counters in line with the limits in force."""
        if self._epoch is not self.in_force.epoch:
            self._recount()

    def counters(self) -> list[QuotaNode]:
        """Return all counters, in line with the limits in force, leaf to root."""
        self.refresh()
        return sorted(self.nodes.values(), key=lambda node: (-node.queue_path.count("."), node.queue_path))

    def _recount(self) -> None:
        epoch = self.in_force.epoch
        if self._by_hand is not None and self._by_hand[0] is not self.in_force.limits.revision:
            self._by_hand = None
        # Counters have other columns under another layout: nothing can be carried over, so everything is summed up.
        old = self.nodes if self._epoch.layout is epoch.layout else {}
        uncounted: dict[str, QuotaNode] = {}
        self.nodes = {}
        for path, limit in self._limits_needed().items():
            node = old.get(path)
            if node is None:
                uncounted[path] = node = Node(self, path, limit, epoch.layout)
            else:
                node.replace_limit(limit)
            self.nodes[path] = node
        self._epoch = epoch
        if uncounted:
            self._sum_up(uncounted)

    def _limits_needed(self) -> dict[str, Limit]:
        """Return the limit of every limited queue in or below which something runs."""
        paths = dict.fromkeys(holding.queue_path for holding in all_holdings(self.holdings))
        return {path: limit for queue_path in paths for path, limit in self.limits_on(queue_path)}

    def _sum_up(self, nodes: Mapping[str, QuotaNode]) -> None:
        """Charge to *nodes*, which are new, all that is held below them."""
        require_vector = self._epoch.layout.vector
        for first in self.holdings.values():
            counted: set[str] = set()
            for holding in with_siblings(first):
                vector = require_vector(Resource(holding.held()))
                for path in ancestors(holding.queue_path):
                    node = nodes.get(path)
                    if node is not None:
                        charge([node], vector)
                        if path not in counted:
                            counted.add(path)
                            node.running += 1

    def uncounted(self) -> list[str]:
        """Return the limited queues that have no counter though something runs there, of which there must be none."""
        if self._epoch is not self.in_force.epoch:
            return []
        return [path for path in self._limits_needed() if path not in self.nodes]

    def expected(self) -> dict[str, dict[str | None, int]]:
        """Return for every queue what its applications add up to, recomputed; None counts the applications."""
        sums: dict[str, dict[str | None, int]] = {}
        for first in self.holdings.values():
            for holding in with_siblings(first):
                for path in ancestors(holding.queue_path):
                    queue = sums.setdefault(path, {})
                    for name, amount in holding.held().items():
                        queue[name] = queue.get(name, 0) + amount
            for path in {path for holding in with_siblings(first) for path in ancestors(holding.queue_path)}:
                sums[path][None] = sums[path].get(None, 0) + 1
        return sums


def _by_hand(old: Limit, resources: Resource, applications: int) -> Limit:
    """Return a limit with one half set by hand. It stays whose it was, so that nobody gains or loses another by it."""
    place = f"{old.place}, changed by hand" if old.place else "set by hand"
    return Limit(resources, applications, wildcard=old.wildcard, place=place)


def _kind_of(kind: object) -> TrackingType:
    """Return whose usage a tracker counts, also from its text."""
    if kind in (_USER, _GROUP):
        return TrackingType(str(kind))
    raise RequestError("kind", kind, f"expected {_USER.value!r} or {_GROUP.value!r}")
