"""The order of the pending requests of a partition: the facts that decide it, and an order that follows their changes.

The comparison is not here: `ugm.ordering.request_order` keeps the keys and searches the tree.

The lock of the partition must be held while the facts are read, and computing an order takes much longer. So only
values that never change in place are copied under the lock, and the order is built and searched without it. An order of
one moment copies the applications with requests, and of the others only what they hold. An order that follows later
changes copies all applications.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, TypeAlias, final

from ugm.identity import ROOT
from ugm.model import Claim, OrderNode, TreeOrderModel, UserRank
from ugm.ordering.request_order import OrderedApplication, OrderTree, RankKey
from ugm.ordering.sort_settings import QueueSettings
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.application import Application, ApplicationCopy, ApplicationInfo
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.ordering.planned_start import Reservation
from ugm.partition.rows import Allocation, AllocationRequest
from ugm.queues.tree import Queue, Quota
from ugm.resources import Resource
from ugm.tracking.holding import Amounts, amounts_by_name

#: A function that returns the key of an application in the order of its queue; the smallest key comes first.
ApplicationKey: TypeAlias = Callable[[ApplicationInfo], Any]

_NOTHING: Final[Mapping[str, int]] = {}
_NO_USAGE: Final = Resource()
#: The name of the group of applications without a group.
_NO_GROUP: Final = "(no group)"


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
        name, user, queue_path, _, tags, *_ = application.row
        return self.model.order_node(self.name, Claim("", name, _NO_USAGE, queue_path, user, tags))


class CopiedApplication(NamedTuple):
    """The facts that determine the place of an application, copied under the lock."""

    application: Application
    #: What it holds; None while it is not running.
    amounts: Amounts | None
    #: Pending requests, each with its place in the order of all requests.
    pending: Sequence[tuple[int, Allocation]] = ()
    #: The requests that are no longer pending, of those that have perhaps changed.
    ended: Collection[str] = ()
    #: Only if the program gives keys.
    copy: ApplicationCopy | None = None
    #: Its group, if the groups of a quota model are traversed.
    group: str | None = None

    @classmethod
    def of(
        cls,
        state: PartitionState,
        application: Application,
        *,
        for_key: bool,
        tree: GroupTree | None = None,
        among: Iterable[str] | None = None,
    ) -> CopiedApplication:
        """Copy an application; the caller holds the lock.

        Args:
            state: the partition.
            application: the application.
            for_key: whether a program computes its key.
            tree: the groups that are traversed, if its group is needed.
            among: the requests that are needed; None for all.
        """
        holding, pending, numbers = application.holding, application.pending, state.tables.requests
        names = list(pending if among is None else among)
        return cls(
            application,
            None if holding is None else holding.amounts,
            [(numbers[name].number, pending[name]) for name in names if name in pending],
            [name for name in names if name not in pending],
            application.copy() if for_key else None,
            None if tree is None else tree.node_of(application),
        )

    @property
    def used(self) -> Mapping[str, int]:
        """The usage by resource name."""
        return _NOTHING if self.amounts is None else amounts_by_name(self.amounts)


class OrderCopy(NamedTuple):
    """The facts that determine the order, copied under the lock."""

    compiled: CompiledConfig
    cluster: Resource | None
    #: The paths of all queues with their quotas, parents before their children.
    queues: Sequence[tuple[str, Quota]]
    applications: Sequence[CopiedApplication]
    #: What the applications of each queue hold, if those without requests are left out; otherwise None.
    held: Mapping[str, Iterable[Mapping[str, int]]] | None = None
    #: Returns the order of users at that moment; None without shares.
    rank: Callable[[], UserRank] | None = None
    reservations: tuple[Reservation, ...] = ()
    #: The groups that are traversed instead of the queues, and their amounts; None for the queues.
    tree: GroupTree | None = None
    nodes: Sequence[OrderNode] = ()

    @classmethod
    def of(cls, state: PartitionState, *, for_keys: bool, tree: GroupTree | None = None) -> OrderCopy:
        """Copy everything that decides the order now and after later changes; the caller holds the lock."""
        return cls(
            state.compiled,
            state.tree.cluster,
            [(queue.queue_path, queue.quota) for queue in state.tree.root.below()],
            [CopiedApplication.of(state, one, for_key=for_keys, tree=tree) for one in state.applications.values()],
            rank=rank_of(state),
            tree=tree,
            nodes=() if tree is None else tree.nodes(),
        )

    @classmethod
    def of_pending(cls, state: PartitionState, *, for_keys: bool) -> OrderCopy:
        """Copy what decides the order at this moment; the caller holds the lock."""
        waiting = [one for one in state.applications.values() if one.pending]
        queues = list(state.tree.root.below())
        return cls(
            state.compiled,
            state.tree.cluster,
            [(queue.queue_path, queue.quota) for queue in queues],
            [CopiedApplication.of(state, one, for_key=for_keys) for one in waiting],
            {queue.queue_path: _held_in(queue) for queue in queues if queue.applications},
            rank_of(state),
        )


def _held_in(queue: Queue) -> list[Mapping[str, int]]:
    """Return what the applications of a queue itself hold, all together if a counter knows it."""
    if queue.counter is not None and not queue.children:
        return [queue.counter.used()]
    return queue.held()


def rank_of(state: PartitionState) -> Callable[[], UserRank] | None:
    """Return a function that returns the order of users at this moment; None without shares."""
    shares = state.fair_shares()
    return None if shares is None else shares.capture_rank(one.row.user for one in state.applications.values())


@final
class PendingOrder:
    """The order of the pending requests of a partition at one moment, which follows its changes.

    Args:
        copy: the partition.
        keys: a function by queue path that returns the key of an application of the queue or of one below it.
        requests: the requests by application that take part; None for the pending ones.
        without: requests that take no part.
        rank: the ranks of users for queues with the policy ``share``; None to read those of the copy.

    Attributes:
        settings: the settings of all queues.
        tree: the queues, applications and requests in their order.
        groups: the groups that are traversed; None for the queues.
        users: the user of each application.
    """

    def __init__(
        self,
        copy: OrderCopy,
        keys: Mapping[str, ApplicationKey],
        requests: Mapping[str, tuple[AllocationRequest, ...]] | None = None,
        without: AbstractSet[str] = frozenset(),
        rank: UserRank | None = None,
    ) -> None:
        self._keys: Final = keys
        self._requests: Final = requests
        self.settings: Final = QueueSettings(copy.compiled.config)
        self.users: Final[dict[str, str]] = {}
        self._rank_key: Final = self._rank_key_of(copy.rank, rank)
        #: The copies of applications whose keys the program computes.
        self._copies: Final[dict[str, ApplicationCopy]] = {}
        cluster = _NOTHING if copy.cluster is None else copy.cluster.amounts
        self.tree: Final = OrderTree(self.settings.of(ROOT), cluster)
        self._set_key(ROOT)
        #: The quotas of the queues below the root when they were added.
        self._quotas: Final[dict[str, Quota]] = {}
        self.groups: Final = copy.tree
        #: The paths of the groups.
        self._paths: Final[dict[str, str]] = {}
        if copy.tree is None:
            for path, quota in copy.queues[1:]:
                self._add_queue(path, quota)
        else:
            self._add_groups(copy.nodes)
        for application in copy.applications:
            self._fill(application, without, is_counted=copy.held is not None)
        for path, held in (copy.held or {}).items():
            for amounts in held:
                self.tree.queues[path].add_usage(amounts)
        self.tree.refresh()

    def _rank_key_of(self, read: Callable[[], UserRank] | None, known: UserRank | None) -> RankKey | None:
        """Return the key of applications by their users, if any queue needs it."""
        if read is None or not self.settings.has_shares:
            return None
        return RankKey(read() if known is None else known, self.users)

    @property
    def rank(self) -> UserRank | None:
        """The ranks of users, if any queue needs them."""
        return None if self._rank_key is None else self._rank_key.rank

    def _add_queue(self, path: str, quota: Quota) -> None:
        self._quotas[path] = quota
        guaranteed, maximum = (
            _NOTHING if one is None else one.amounts for one in (quota.guaranteed, quota.max_resources)
        )
        self.tree.add_queue(path, self.settings.of(path), guaranteed, maximum)
        self._set_key(path)

    def _add_groups(self, nodes: Iterable[OrderNode]) -> None:
        """Add the groups of a quota model, and one for the applications without a group."""
        settings = self.tree.root.settings._replace(offset=0, is_fenced=False)
        self._paths[""] = ROOT
        for name, parent, available in (*nodes, OrderNode(_NO_GROUP, "", _NOTHING)):
            above = self._paths[parent]
            path = self._paths[name] = f"{above}.{name}"
            self.tree.add_queue(path, settings, available, _NOTHING, above)
            self._set_key(path)

    def set_amounts(self, nodes: Iterable[OrderNode]) -> None:
        """Follow a change of the amounts that are available to the groups."""
        known = [(self.tree.queues[self._paths[one.name]], one.available) for one in nodes if one.name in self._paths]
        changed = [queue for queue, available in known if queue.set_guaranteed(available)]
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
            queue.first_key = self._rank_key

    # Applications

    def _fill(
        self, copied: CopiedApplication, without: AbstractSet[str], *, is_counted: bool = False
    ) -> OrderedApplication:
        """Add an application, with all its requests; *is_counted* if the usage of its queue contains its own."""
        row = copied.application.row
        if self.groups is not None:
            path = self._paths[copied.group if copied.group and copied.group in self._paths else _NO_GROUP]
        else:
            path = row.queue_path
        ordered = self.tree.add_application(row.application_id, path, row.number)
        self.users[row.application_id] = row.user.name
        if is_counted:
            ordered.used = copied.used
        self._change(ordered, copied)
        requests: Iterable[tuple[int, Allocation | AllocationRequest]] = copied.pending
        if self._requests is not None:
            requests = enumerate(self._requests.get(row.application_id, ()))
        for number, request in requests:
            if request.allocation_id not in without:
                ordered.add(request, number)
        return ordered

    def _change(self, ordered: OrderedApplication, copied: CopiedApplication) -> None:
        self.tree.set_usage(ordered, copied.used)
        if copied.copy is not None:
            self._copies[ordered.application_id] = copied.copy

    # Following the partition

    def is_stale(self, state: PartitionState, application_ids: Iterable[str]) -> bool:
        """Return whether the queues must be read again, because a new application is in a queue that is not known.

        Queues that have ended stay in the order, which is harmless. The caller holds the lock.

        Args:
            state: the partition.
            application_ids: the applications that have perhaps changed.
        """
        return self.groups is None and any(
            self._quotas.get(queue.queue_path) != queue.quota
            for name in application_ids
            if (application := state.applications.get(name)) is not None and not self._has(application)
            for queue in application.queue.lineage()
            if queue.queue_path != ROOT
        )

    def _has(self, application: Application) -> bool:
        known = self.tree.applications.get(application.application_id)
        return known is not None and known.number == application.row.number

    def read(self, state: PartitionState, application_id: str, request_ids: Iterable[str]) -> CopiedApplication | None:
        """Return an application for `apply`, None if it has ended; the caller holds the lock.

        Args:
            state: the partition.
            application_id: the application.
            request_ids: its requests that have perhaps changed.
        """
        application, for_key = state.applications.get(application_id), bool(self._keys)
        if application is None:
            return None
        if not self._has(application):
            # It is new, or another application has ended and given its id to this one.
            return CopiedApplication.of(state, application, for_key=for_key, tree=self.groups)
        copied = CopiedApplication.of(state, application, for_key=for_key, among=request_ids)
        if self._requests is None:
            return copied
        return copied._replace(pending=(), ended=[name for name in copied.ended if name in application.allocations])

    def apply(self, application_id: str, copied: CopiedApplication | None, without: AbstractSet[str]) -> None:
        """Follow a change of an application.

        Args:
            application_id: the application.
            copied: what `read` has returned.
            without: requests that take no further part.
        """
        ordered = self.tree.applications.get(application_id)
        if ordered is not None and (copied is None or ordered.number != copied.application.row.number):
            self.tree.remove(application_id)
            self._copies.pop(application_id, None)
            del self.users[application_id]
            ordered = None
        if copied is None:
            return
        if ordered is None:
            ordered = self._fill(copied, without)
        else:
            self._change(ordered, copied)
            self._change_requests(ordered, copied, without)
        self.tree.update(ordered)

    def _change_requests(
        self, ordered: OrderedApplication, copied: CopiedApplication, without: AbstractSet[str]
    ) -> None:
        for number, row in copied.pending:
            known = ordered.requests.get(row.allocation_id)
            if row.allocation_id in without:
                ordered.requests.pop(row.allocation_id, None)
            elif known is None or known[2] is not row:
                ordered.add(row, number)
        for name in copied.ended:
            ordered.requests.pop(name, None)
