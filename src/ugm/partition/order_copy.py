"""Copies of what determines the scheduling order of a partition.

The problem: the lock of the partition must be held while the facts are read, and computing an order takes much longer.

The idea: only values that never change in place are collected under the lock. A single order takes into account the
applications with requests, and of the others only the usage of their queues, which counters know already. An order that
follows later changes needs all applications.

The cost under the lock: proportional to the copied applications and queues. A single order also looks at every
application once, to find those with requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeAlias

from ugm.fairness import FairRank
from ugm.fairness.order_tree import OrderedRequest
from ugm.identity import ancestors
from ugm.model import Claim, OrderNode, TreeOrderModel
from ugm.partition.application import Application, ApplicationCopy, LedgerEntry
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.model_set import ModelSet
from ugm.partition.planned_start import Reservation
from ugm.partition.state import PartitionState
from ugm.queues.queue import Queue
from ugm.queues.specs import Quota
from ugm.resources import Resource
from ugm.tracking.holding import Amounts, amounts_by_name

__all__ = [
    "ApplicationChange",
    "CopiedApplication",
    "GroupTree",
    "OrderCopy",
    "QueueCopy",
    "ordered_request",
    "rank_of",
]

_NOTHING: Final[Mapping[str, int]] = {}
_NO_USAGE: Final = Resource()

#: The applications of a partition by id.
_Applications: TypeAlias = Mapping[str, Application]


class GroupTree(NamedTuple):
    """The groups of a quota model as the traversed tree; the caller of its methods holds the lock."""

    models: ModelSet
    model: TreeOrderModel
    name: str

    def nodes(self) -> list[OrderNode]:
        """Return the groups with the amounts that are available to them now."""
        return list(self.models.query(self.model, self.model.order_nodes, self.name))

    def node_of(self, application: Application) -> str | None:
        """Return the group of an application."""
        one, queue_path = application.submission, application.queue.queue_path
        return self.model.order_node(
            self.name, Claim("", one.application_id, _NO_USAGE, queue_path, one.user, one.tags)
        )


class CopiedApplication(NamedTuple):
    """The facts that determine the place of an application, copied under the lock."""

    application: Application
    #: What it holds; None while it is not running.
    amounts: Amounts | None
    #: Its pending requests in the order in which they were made.
    pending: tuple[tuple[str, LedgerEntry], ...] = ()
    #: Only if the program gives keys.
    copy: ApplicationCopy | None = None
    #: Its group, if the groups of a quota model are traversed.
    group: str | None = None

    @classmethod
    def of(cls, application: Application, *, for_key: bool, tree: GroupTree | None = None) -> CopiedApplication:
        """Copy an application; the caller holds the lock."""
        holding = application.holding
        return cls(
            application,
            None if holding is None else holding.amounts,
            tuple(application.pending.items()),
            application.copy() if for_key else None,
            None if tree is None else tree.node_of(application),
        )

    @classmethod
    def without_requests(cls, application: Application, *, for_key: bool) -> CopiedApplication:
        """Copy the rest of an application; the caller holds the lock."""
        holding = application.holding
        amounts = None if holding is None else holding.amounts
        return cls(application, amounts, copy=application.copy() if for_key else None)

    @property
    def used(self) -> Mapping[str, int]:
        """The usage by resource name."""
        return _NOTHING if self.amounts is None else amounts_by_name(self.amounts)

    @property
    def requests(self) -> list[OrderedRequest]:
        """The pending requests in the order in which they were made."""
        return [ordered_request(name, entry) for name, entry in self.pending]


class ApplicationChange(NamedTuple):
    """A change of an application."""

    application_id: str
    #: The application after the change, with all its requests only if it is new or replaces another one of the same id;
    #: None if it was removed.
    copied: CopiedApplication | None
    #: Its requests that have perhaps changed; None for one that is not pending.
    requests: Mapping[str, OrderedRequest | None]


class QueueCopy(NamedTuple):
    """A queue with its quota, and what its usage consists of."""

    path: str
    quota: Quota
    #: Its usage, if it has a counter.
    counted: Mapping[str, int] | None = None
    #: What its own applications hold, if it has no counter.
    held: Sequence[Amounts] = ()

    @classmethod
    def of(cls, queue: Queue) -> QueueCopy:
        """Copy a queue without its usage; the caller holds the lock."""
        return cls(queue.queue_path, queue.quota)

    @classmethod
    def with_usage(cls, queue: Queue, applications: _Applications) -> QueueCopy:
        """Copy a queue with its usage; the caller holds the lock."""
        if queue.counter is not None:
            return cls(queue.queue_path, queue.quota, queue.counter.used())
        holdings = [applications[name].holding for name in queue.applications]
        return cls(queue.queue_path, queue.quota, None, [one.amounts for one in holdings if one is not None])

    @property
    def guaranteed(self) -> Mapping[str, int]:
        """The guarantee."""
        return _NOTHING if self.quota.guaranteed is None else self.quota.guaranteed.amounts

    @property
    def maximum(self) -> Mapping[str, int]:
        """The maximum; a missing resource is not limited."""
        return _NOTHING if self.quota.max_resources is None else self.quota.max_resources.amounts


class OrderCopy(NamedTuple):
    """The facts that determine the order, copied under the lock."""

    compiled: CompiledConfig
    cluster: Resource | None
    #: Parents before their children.
    queues: Sequence[QueueCopy]
    applications: Sequence[CopiedApplication]
    #: Returns the order of users at that moment; None without shares.
    rank: Callable[[], FairRank] | None = None
    reservations: tuple[Reservation, ...] = ()
    #: The groups that are traversed instead of the queues, and their amounts; None for the queues.
    tree: GroupTree | None = None
    nodes: Sequence[OrderNode] = ()
    #: Whether applications without requests are left out. The queues then have their usage.
    is_partial: bool = False

    @classmethod
    def of(cls, state: PartitionState, *, for_keys: bool, tree: GroupTree | None = None) -> OrderCopy:
        """Copy everything that decides the order now and after later changes; the caller holds the lock."""
        return cls(
            state.compiled,
            state.tree.cluster,
            list(map(QueueCopy.of, state.tree.root.below())),
            [CopiedApplication.of(one, for_key=for_keys, tree=tree) for one in state.applications.values()],
            rank_of(state),
            tree=tree,
            nodes=() if tree is None else tree.nodes(),
        )

    @classmethod
    def of_groups(cls, state: PartitionState, tree: GroupTree, *, for_keys: bool) -> OrderCopy:
        """Copy what decides the order by groups, and the usage of all queues; the caller holds the lock."""
        queues = [QueueCopy.with_usage(one, state.applications) for one in state.tree.root.below()]
        return cls.of(state, for_keys=for_keys, tree=tree)._replace(queues=queues)

    @classmethod
    def of_pending(cls, state: PartitionState, *, for_keys: bool) -> OrderCopy:
        """Copy what decides the order at this moment; the caller holds the lock."""
        waiting = [one for one in state.applications.values() if one.pending]
        leaves = {one.queue.queue_path for one in waiting}
        paths = {path for leaf in leaves for path in ancestors(leaf)}
        return cls(
            state.compiled,
            state.tree.cluster,
            list(_queues_with_usage(state.tree.root, paths, state.applications)),
            [CopiedApplication.of(one, for_key=for_keys) for one in waiting],
            rank_of(state),
            is_partial=True,
        )

    def usage_by_queue(self) -> dict[str, dict[str, int]]:
        """Return the usage in and below each queue; the queues were copied with their usage."""
        found = {one.path: dict(one.counted or _NOTHING) for one in self.queues}
        uncounted = {one.path for one in self.queues if one.counted is None}
        # Children come before their parents.
        for queue in reversed(self.queues):
            used = found[queue.path]
            for amounts in queue.held:
                _add(used, amounts_by_name(amounts))
            above = queue.path.rpartition(".")[0]
            if above in uncounted:
                _add(found[above], used)
        return found


def ordered_request(request_id: str, entry: LedgerEntry) -> OrderedRequest:
    """Return a pending entry of the ledger as a request."""
    return OrderedRequest(request_id, entry.usage.amounts, entry.traits.priority, entry)


def _queues_with_usage(queue: Queue, paths: AbstractSet[str], applications: _Applications) -> Iterator[QueueCopy]:
    """Yield a queue, and those below it that are among *paths* or determine the usage of one without a counter."""
    yield QueueCopy.with_usage(queue, applications)
    for child in queue.children.values():
        if queue.counter is None or child.queue_path in paths:
            yield from _queues_with_usage(child, paths, applications)


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def rank_of(state: PartitionState) -> Callable[[], FairRank] | None:
    """Return a function that returns the order of users at this moment; None without shares."""
    shares = state.fair_shares()
    return None if shares is None else shares.capture_rank(one.submission.user for one in state.applications.values())
