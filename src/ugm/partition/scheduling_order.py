"""The scheduling order of a partition: fills an `OrderTree` with its queues and requests, and explains the result.

The comparison is not here: `ugm.fairness.order_tree` keeps the keys and searches the tree.

Only the data that decide the order are copied under the lock. The `OrderTree` is built and searched without the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice
from sys import maxsize
from typing import Any, Final, NamedTuple, TypeAlias, final

from ugm.arguments import require_items, require_mapping, require_name
from ugm.errors import RequestError
from ugm.fairness import Comparison, FairRank
from ugm.fairness.order_tree import OrderedApplication, OrderedRequest, OrderTree, RankKey
from ugm.fairness.sort_settings import QueueSettings
from ugm.identity import ROOT, canonical_path
from ugm.model import OrderNode
from ugm.partition.allocation import AllocationRequest
from ugm.partition.application import Application, ApplicationCopy, ApplicationInfo, LedgerEntry
from ugm.partition.group_order_maxima import GroupOrderMaxima
from ugm.partition.order_copy import (
    ApplicationChange,
    CopiedApplication,
    OrderCopy,
    QueueCopy,
    ordered_request,
    rank_of,
)
from ugm.partition.planned_start import Reservation
from ugm.partition.state import PartitionState
from ugm.queues.specs import Quota

__all__ = [
    "ApplicationKey",
    "ApplicationOrder",
    "Turn",
    "allocation_request",
    "by_share",
    "ledger_entry",
    "require_keys",
    "require_max_turns",
    "require_ranks",
    "require_requests_by_application",
    "turns_of",
]

#: A function that returns the key of an application in the order of its queue; the smallest key comes first.
ApplicationKey: TypeAlias = Callable[[ApplicationInfo], Any]

_NOTHING: Final[Mapping[str, int]] = {}
#: The name of the group of applications without a group.
_NO_GROUP: Final = "(no group)"

#: With more ended queues than there are queues, and this number, everything is read again.
_MOST_ENDED: Final = 100


class Turn(NamedTuple):
    """A pending request at its place in the order."""

    request: AllocationRequest
    user: str
    #: The queue of its application; or its group, if the order descends through the groups of a quota model.
    queue_path: str
    #: Whether it fits the maximum of each queue on its path, together with those before it that fit.
    fits: bool
    #: The queue whose maximum it exceeds; empty if it fits.
    blocked_by: str
    #: The comparisons that chose it, from the root down.
    keys: tuple[Comparison, ...]
    #: The reservation of the request, with its expected start; None if it has none.
    reservation: Reservation | None = None

    def explain(self) -> str:
        """Return the reasons for the place in words, one line for each comparison, and one for a reservation."""
        return "\n".join(self._reasons())

    def _reasons(self) -> list[str]:
        return [*map(str, self.keys), *([] if self.reservation is None else [str(self.reservation)])]

    def to_dict(self) -> dict[str, object]:
        """Return the turn for JSON; exact numbers are texts."""
        return {
            "allocation_id": self.request.allocation_id,
            "application_id": self.request.application_id,
            "user": self.user,
            "queue_path": self.queue_path,
            "usage": dict(self.request.usage),
            "priority": self.request.priority,
            "node": self.request.node,
            "fits": self.fits,
            "blocked_by": self.blocked_by,
            "reasons": self._reasons(),
            "start": None if self.reservation is None else self.reservation.start,
            "reserved_for": [] if self.reservation is None else list(self.reservation.queue_paths),
        }


def by_share(rank: FairRank) -> ApplicationKey:
    """Return the key that orders the applications of a queue by the rank of their users.

    Users that tie, and applications of one user, are ordered by submission.

    >>> from ugm.fairness import ShareTree
    >>> tree = ShareTree({}, {"ana": 1, "ben": 1})
    >>> keys = {"root.research": by_share(tree.rank({"ana": 5}))}
    """
    return lambda application: rank.position_of_user(application.user.name)


def turns_of(
    copied: OrderCopy,
    max_turns: int | None = None,
    keys: Mapping[str, ApplicationKey] | None = None,
    *,
    explained: bool = True,
) -> tuple[Turn, ...]:
    """Return the pending requests of a copy in their order; see `AbstractPartition.order`."""
    reservations = {one.allocation_id: one for one in copied.reservations}
    maxima = None if copied.tree is None else GroupOrderMaxima(copied)
    turns = islice(ApplicationOrder(copied, keys or {}).turns(maxima, explained=explained), max_turns)
    if not reservations:
        return tuple(turns)
    return tuple(one._replace(reservation=reservations.get(one.request.allocation_id)) for one in turns)


def allocation_request(application_id: str, request: OrderedRequest) -> AllocationRequest:
    """Return a request of an order as the caller or the ledger has it."""
    if isinstance(request.origin, AllocationRequest):
        return request.origin
    entry = ledger_entry(request)
    return AllocationRequest(request.request_id, application_id, entry.usage, *entry.traits[1:4], *entry.traits[5:])


def ledger_entry(request: OrderedRequest) -> LedgerEntry:
    """Return the entry of a pending request of an order."""
    assert isinstance(request.origin, LedgerEntry)  # noqa: S101 - `ordered_request` made it
    return request.origin


@final
class ApplicationOrder:
    """The order of the pending requests of a partition at one moment, which follows its changes.

    Args:
        copy: the partition.
        keys: see `require_keys`.
        requests: the requests by application that take part; None for the pending ones.
        without: requests that take no part.
        rank_key: the key of applications in queues with the policy ``share``; None to read the ranks of the copy.
    """

    __slots__ = (
        *("_copies", "_keys", "_paths", "_quotas", "_requests", "_settings", "_users"),
        *("groups", "rank_key", "tree"),
    )

    def __init__(
        self,
        copy: OrderCopy,
        keys: Mapping[str, ApplicationKey],
        requests: Mapping[str, tuple[AllocationRequest, ...]] | None = None,
        without: AbstractSet[str] = frozenset(),
        rank_key: RankKey | None = None,
    ) -> None:
        self._keys: Final = keys
        self._requests: Final = requests
        self._settings: Final = QueueSettings(copy.compiled.config)
        #: The user of each application.
        self._users: Final[dict[str, str]] = {}
        self.rank_key: Final = self._rank_key(copy.rank, rank_key)
        #: The copies of applications whose keys the program computes.
        self._copies: Final[dict[str, ApplicationCopy]] = {}
        self.tree: Final = OrderTree(
            self._settings.of(ROOT), _NOTHING if copy.cluster is None else copy.cluster.amounts
        )
        self._set_key(ROOT)
        #: The quotas of the queues below the root when they were added.
        self._quotas: Final[dict[str, Quota]] = {}
        #: The groups that are traversed, and their paths; None for the queues.
        self.groups: Final = copy.tree
        self._paths: Final[dict[str, str]] = {}
        if copy.tree is None:
            for queue in copy.queues:
                if queue.path != ROOT:
                    self._add_queue(queue)
        else:
            self._add_groups(copy.nodes)
        for application in copy.applications:
            self._fill(application, without, is_counted=copy.is_partial)
        if copy.is_partial:
            for path, used in copy.usage_by_queue().items():
                self.tree.queues[path].replace_usage(used)
        self.tree.refresh()

    def _rank_key(self, rank: Callable[[], FairRank] | None, known: RankKey | None) -> RankKey | None:
        """Return the key of applications by their users, if any queue needs it."""
        if rank is None or not self._settings.has_policy("share"):
            return None
        return RankKey(rank() if known is None else known.rank, self._users)

    def read_ranks(self, state: PartitionState) -> bool:
        """Read the ranks of users again if they decide, and return whether they do; the caller holds the lock."""
        if self.rank_key is None or (rank := rank_of(state)) is None:
            return False
        self.rank_key.rank = rank()
        self.tree.refresh()
        return True

    def is_stale(self, state: PartitionState, application_ids: Iterable[str]) -> bool:
        """Return whether the queues must be read again; the caller holds the lock.

        Queues that have ended stay in the order. This is harmless until there are too many of them, or until one comes
        back with another quota.

        Args:
            state: the partition.
            application_ids: the applications that have perhaps changed.
        """
        if len(self._quotas) > 2 * len(state.tree.queues) + _MOST_ENDED:
            return True
        return self.groups is None and any(
            self._quotas.get(queue.queue_path, queue.quota) != queue.quota
            for name in application_ids
            if (application := state.applications.get(name)) is not None and not self._has(application)
            for queue in application.queue.lineage()
            if queue.queue_path != ROOT
        )

    def _has(self, application: Application) -> bool:
        known = self.tree.applications.get(application.application_id)
        return known is not None and known.number == application.number

    def user_of(self, application_id: str) -> str:
        """Return the name of the user of an application."""
        return self._users[application_id]

    def _add_queue(self, queue: QueueCopy) -> None:
        self._quotas[queue.path] = queue.quota
        self.tree.add_queue(queue.path, self._settings.of(queue.path), queue.guaranteed, queue.maximum)
        self._set_key(queue.path)

    def _add_groups(self, nodes: Iterable[OrderNode]) -> None:
        """Add the groups of a quota model, and one for the applications without a group."""
        root = self.tree.root
        settings = root.settings._replace(offset=0, is_fenced=False)
        self._paths[""] = ROOT
        for name, parent, available in (*nodes, OrderNode(_NO_GROUP, "", _NOTHING)):
            above = self._paths[parent]
            path = self._paths[name] = f"{above}.{name}"
            self.tree.add_queue(path, settings, available, _NOTHING, above)
            self._set_key(path)

    def set_amounts(self, nodes: Iterable[OrderNode]) -> None:
        """Follow a change of the amounts that are available to the groups."""
        changed = False
        for one in nodes:
            path = self._paths.get(one.name)
            if path is not None and self.tree.queues[path].set_guaranteed(one.available):
                changed = True
        if changed:
            self.tree.refresh_queues()

    def _set_key(self, path: str) -> None:
        queue = self.tree.queues[path]
        key = self._keys.get(path)
        if key is not None:
            queue.first_key = lambda application: key(self._copies[application.application_id].info())
        elif queue.parent is not None and queue.parent.criterion == "custom":
            queue.first_key = queue.parent.first_key
        elif queue.settings.policy == "share":
            queue.first_key = self.rank_key

    def _fill(
        self, copied: CopiedApplication, without: AbstractSet[str], *, is_counted: bool = False
    ) -> OrderedApplication:
        """Add an application, with all its requests; *is_counted* if the usage of its queues is added separately."""
        application = copied.application
        name, path = application.application_id, application.queue.queue_path
        if self.groups is not None:
            group = copied.group
            path = self._paths[group if group in self._paths and group else _NO_GROUP]
        elif path not in self.tree.queues:
            for queue in reversed(list(application.queue.lineage())):
                if queue.queue_path not in self.tree.queues:
                    self._add_queue(QueueCopy.of(queue))
        ordered = self.tree.add_application(name, path, application.number)
        self._users[name] = application.submission.user.name
        self._change(ordered, copied, is_counted=is_counted)
        for request in self._requests_of(copied):
            if request.request_id not in without:
                ordered.add(request)
        return ordered

    def _change(self, ordered: OrderedApplication, copied: CopiedApplication, *, is_counted: bool = False) -> None:
        if is_counted:
            ordered.used = copied.used
        else:
            self.tree.set_usage(ordered, copied.used)
        if copied.copy is not None:
            self._copies[ordered.application_id] = copied.copy

    def _requests_of(self, copied: CopiedApplication) -> Iterable[OrderedRequest]:
        if self._requests is None:
            return copied.requests
        passed = self._requests.get(copied.application.application_id, ())
        return [OrderedRequest(one.allocation_id, one.usage, one.priority, one) for one in passed]

    def read(self, state: PartitionState, application_id: str, request_ids: Iterable[str]) -> ApplicationChange:
        """Return a change of an application for `apply`; the caller holds the lock.

        Args:
            state: the partition.
            application_id: the application.
            request_ids: its requests that have perhaps changed, in the order in which they were made.
        """
        application, for_key = state.applications.get(application_id), bool(self._keys)
        if application is None:
            return ApplicationChange(application_id, None, {})
        if not self._has(application):
            # It is new, or another application has ended and given its id to this one.
            return ApplicationChange(
                application_id, CopiedApplication.of(application, for_key=for_key, tree=self.groups), {}
            )
        copied = CopiedApplication.without_requests(application, for_key=for_key)
        return ApplicationChange(application_id, copied, dict(self._read_requests(application, request_ids)))

    def _read_requests(
        self, application: Application, request_ids: Iterable[str]
    ) -> Iterator[tuple[str, OrderedRequest | None]]:
        for name in request_ids:
            entry = application.pending.get(name)
            if entry is not None:
                yield name, ordered_request(name, entry)
            elif self._requests is None or name in application.allocations:
                yield name, None

    def apply(self, change: ApplicationChange, without: AbstractSet[str]) -> None:
        """Follow a change of an application.

        Args:
            change: the change.
            without: requests that take no further part.
        """
        name, copied = change.application_id, change.copied
        ordered = self.tree.applications.get(name)
        if ordered is not None and (copied is None or ordered.number != copied.application.number):
            self._remove(name)
            ordered = None
        if copied is None:
            return
        if ordered is None:
            self.tree.update(self._fill(copied, without))
            return
        self._change(ordered, copied)
        for request_id, request in change.requests.items():
            self._change_request(ordered, request_id, None if request_id in without else request)
        self.tree.update(ordered)

    def _remove(self, application_id: str) -> None:
        self.tree.remove(application_id)
        self._copies.pop(application_id, None)
        self._users.pop(application_id, None)

    def _change_request(self, ordered: OrderedApplication, request_id: str, request: OrderedRequest | None) -> None:
        if self._requests is None and request is not None:
            known = ordered.requests.get(request_id)
            # An equal request may have been withdrawn and made again, behind the others.
            if known is None or known[2].origin is not request.origin:
                ordered.add(request)
        elif request is None:
            ordered.requests.pop(request_id, None)

    # The pass of `order`

    def turns(self, maxima: GroupOrderMaxima | None, *, explained: bool) -> Iterator[Turn]:
        """Yield the requests in their order, each granted if it fits the maxima of its queues; ends the order.

        Args:
            maxima: the maxima of the queues if the order descends through groups; None to use those of the order.
            explained: whether they have the comparisons that chose them.
        """
        tree = self.tree
        while (application := tree.first()) is not None and (request := application.next()) is not None:
            name = application.application_id
            keys = tree.comparisons(application) if explained else ()
            blocked_by = (
                _blocking_queue(application, request) if maxima is None else maxima.blocking_queue(name, request.usage)
            )
            made = allocation_request(name, request)
            yield Turn(made, self._users[name], application.queue.path, not blocked_by, blocked_by, keys)
            if blocked_by:
                tree.skip(application, request)
                continue
            tree.grant(application, request)
            if maxima is not None:
                maxima.grant(name, request.usage)


def _blocking_queue(application: OrderedApplication, request: OrderedRequest) -> str:
    """Return the queue whose maximum a request exceeds; empty if it fits."""
    queue = application.queue.blocking_queue(request.usage)
    return "" if queue is None else queue.path


def require_keys(keys: Mapping[str, ApplicationKey] | None) -> dict[str, ApplicationKey]:
    """Return the keys of a program by canonical queue path; a key also applies to the queues below.

    Raises:
        RequestError: the keys are not a mapping, or a key is not callable.
    """
    found: dict[str, ApplicationKey] = {}
    for path, key in ({} if keys is None else require_mapping("keys", keys)).items():
        if not callable(key):
            raise RequestError("keys", key, f"the key of {path} must be a function of an application")
        found[canonical_path(path)] = key
    return found


def require_requests_by_application(
    requests: Mapping[str, Iterable[AllocationRequest]] | None,
) -> dict[str, tuple[AllocationRequest, ...]] | None:
    """Return the requests of a program by application; None for the pending ones.

    Raises:
        RequestError: the requests are not a mapping, or one is not an `AllocationRequest` of its application.
    """
    if requests is None:
        return None
    found: dict[str, tuple[AllocationRequest, ...]] = {}
    for application_id, listed in require_mapping("requests", requests).items():
        found[require_name("application_id", application_id)] = require_items("requests", listed)
        for request in found[application_id]:
            if type(request) is not AllocationRequest or request.application_id != application_id:
                raise RequestError("requests", request, f"expected an AllocationRequest of {application_id!r}")
    return found


def require_max_turns(max_turns: int | None) -> int | None:
    """Return a maximum number of turns; None for no maximum.

    Raises:
        RequestError: it is neither None nor a number of at least 0.
    """
    if max_turns is not None and (type(max_turns) is not int or max_turns < 0):
        raise RequestError("max_turns", max_turns, "expected an int of at least 0, or None")
    # More than any list can have.
    return None if max_turns is None else min(max_turns, maxsize)


def require_ranks(ranks: Mapping[str, int] | None) -> dict[str, ApplicationKey]:
    """Return the keys that order the applications of all queues by the places of their users.

    Raises:
        RequestError: the places are not a mapping, or one is not a number.
    """
    if ranks is None:
        return {}
    places = require_mapping("ranks", ranks)
    for name, place in places.items():
        if type(place) is not int:
            raise RequestError("ranks", place, f"the place of {name} must be an int")
    last = max(places.values(), default=0) + 1
    return {ROOT: lambda application: places.get(application.user.name, last)}
