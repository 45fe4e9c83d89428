"""The queues of one partition, and the size of the cluster at their root.

Compiling a configuration to `QueueSpecs` checks everything that can be wrong with one that a program has built, before
anything changes. The `QueueTree` is then reshaped to the result. It contains every queue that the configuration names.
A queue that is removed from the configuration drains: it accepts no more applications and is deleted with its last one.
Placement creates further queues below parents; they get their quota from the nearest template above and are deleted
when they are empty.

The root has no quota of resources. Its maximum is the sum of the registered nodes; it is unlimited until the first node
is registered.

The tree takes no lock and checks no requests; `ugm.Partition` does both. The usage of an application is charged to the
counters of its queue together with those of its user and group; see `Queue.chain`.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import ClassVar, Final, NamedTuple, Protocol, Self, final

from ugm.configuration import ChildTemplate, QueueConfig
from ugm.configuration.fields import to_data
from ugm.counters import Counter, Layout, Limit, charge, headroom
from ugm.errors import RequestError
from ugm.identity import ROOT, TrackingType, UserGroup, ancestors, canonical_path
from ugm.queues.placement import Acl, path_allows
from ugm.resources import Resource, as_float, smallest_amounts, sum_of

#: The number of zero amounts that the sum always keeps.
_KEPT_ZEROS: Final = 16


@final
@dataclass(slots=True, eq=False)
class Cluster:
    """The nodes of a cluster by name, with the resources of each node.

    The sum is None until the first node is registered, so that a program without nodes has no limit at the root. From
    then on the sum is the limit, even after the last node is removed.

    A resource that only removed nodes offered stays in the sum with the amount 0. If more than half of the amounts are
    0, the zeros are dropped: otherwise the sum would grow without bound in a cluster in which every device has its own
    resource name. Dropping them changes no decision, because a closed limit allows nothing of a resource that it does
    not name.
    """

    nodes: dict[str, Resource] = field(default_factory=dict)
    #: Invariant: the sum over all nodes, and names with a 0.
    total: Resource | None = None

    def add(self, name: str, offers: Resource) -> None:
        """Register a node; do nothing if it is already registered with the same resources.

        Raises:
            RequestError: the node is registered with other resources.
        """
        if name not in self.nodes:
            self._set(name, offers)
        elif self.nodes[name] != offers:
            raise RequestError("node", name, "a node of that name is registered with other resources", "id-in-use")

    def update(self, name: str, offers: Resource) -> None:
        """Change the resources of a registered node.

        Raises:
            RequestError: the node is not registered.
        """
        if name not in self.nodes:
            raise RequestError("node", name, "there is no such node", "node-unknown")
        self._set(name, offers)

    def remove(self, name: str) -> bool:
        """Remove a node; return whether it was registered."""
        if name not in self.nodes:
            return False
        self._set(name, Resource())
        del self.nodes[name]
        return True

    def _set(self, name: str, offers: Resource) -> None:
        before: Mapping[str, int] = self.nodes.get(name, Resource())
        total = dict(self.total or {})
        for resource in {**before, **offers}:
            total[resource] = total.get(resource, 0) + offers.get(resource, 0) - before.get(resource, 0)
        self.nodes[name] = offers
        if sum(1 for amount in total.values() if not amount) > max(_KEPT_ZEROS, len(total) // 2):
            # Keep the resources of this change: a sum without names would mean no limit.
            total = {name: amount for name, amount in total.items() if amount or name in before or name in offers}
        self.total = Resource(total)


class Quota(NamedTuple):
    """The maximum of a queue, and its guarantee."""

    #: None means unlimited, and so does a missing resource; an amount of 0 allows none of a resource.
    max_resources: Resource | None = None
    #: 0 means unlimited.
    max_applications: int = 0
    guaranteed: Resource | None = None

    @property
    def names(self) -> frozenset[str]:
        """The resources that have to be counted for the quota."""
        return frozenset((*(self.max_resources or ()), *(self.guaranteed or ())))


#: The quota that neither limits nor guarantees anything.
NO_QUOTA: Final = Quota()


@final
@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue of a configuration, compiled."""

    queue_path: str
    is_parent: bool = False
    quota: Quota = NO_QUOTA
    #: The quota of queues that are created below; None leaves it to the queue above.
    template: Quota | None = None
    submit_acl: Acl | None = None
    admin_acl: Acl | None = None

    @property
    def names(self) -> frozenset[str]:
        """The resources that have to be counted for the queue, and for queues that are created below it."""
        return self.quota.names | (self.template or NO_QUOTA).names


@final
class QueueSpecs:
    """All queues of a configuration by path; there is always a root."""

    def __init__(self, by_path: Mapping[str, QueueSpec]) -> None:
        #: Parents before their children.
        self.by_path: Final = by_path
        #: The resources that any queue limits or guarantees, including queues that may be created.
        self.names: Final[frozenset[str]] = frozenset().union(*(spec.names for spec in by_path.values()))

    @classmethod
    def compile(cls, root: QueueConfig | None) -> Self:
        """Compile the queues of a configuration; None is a root that limits nothing and takes no applications.

        Raises:
            RequestError: a queue has an invalid name or access control list, or two queues have the same path.
        """
        if root is None:
            return cls({ROOT: QueueSpec(ROOT, is_parent=True)})
        by_path: dict[str, QueueSpec] = {}
        for path, queue in root.walk():
            if path in by_path:
                raise RequestError("queues", path, "two queues have this path")
            by_path[path] = _spec(canonical_path(path), queue)
        # The maximum of the root is the size of the cluster.
        applications = by_path[ROOT].quota.max_applications
        by_path[ROOT] = replace(by_path[ROOT], is_parent=True, quota=Quota(max_applications=applications))
        return cls(by_path)


def _spec(path: str, queue: QueueConfig) -> QueueSpec:
    template = queue.child_template
    return QueueSpec(
        path,
        queue.parent,
        _quota(queue),
        None if template is None else _quota(template),
        Acl.parse(queue.submit_acl),
        Acl.parse(queue.admin_acl),
    )


def _quota(settings: QueueConfig | ChildTemplate) -> Quota:
    resources = settings.resources
    return Quota(resources.max or None, settings.max_applications, resources.guaranteed or None)


class Held(Protocol):
    """The amounts that a running application holds."""

    def held(self) -> Mapping[str, int]:
        """Return the held amounts by resource name."""


class QueueApplication(Protocol):
    """The part of an application that its queue depends on."""

    @property
    def holding(self) -> Held | None:
        """The held amounts; None if the application is not running."""


@final
@dataclass(slots=True, eq=False, repr=False)
class Queue:
    """A queue of a `QueueTree`.

    Only the root, and queues that limit or guarantee something, have a counter. The usage of other queues is computed
    on demand.

    Args:
        spec: the settings of the queue, from the configuration or from the template of a queue above.
        parent: the queue above; None for the root.
        counters: the index of counters that all queues of a tree share.
        managed: true if the configuration names the queue.
    """

    kind: ClassVar[TrackingType] = TrackingType.QUEUE

    spec: QueueSpec
    parent: Queue | None
    #: The counters of the whole tree that have running applications.
    counters: dict[str, Counter]
    #: True if the configuration names it; otherwise it is deleted when it is empty.
    managed: bool = field(kw_only=True)
    #: True if an earlier configuration named it.
    was_configured: bool = False
    #: A maximum that replaces the one of `spec`: the quota of a namespace.
    quota_override: Resource | None = None
    queue_path: str = field(init=False)
    #: The same path, as the owner of a counter.
    name: str = field(init=False)
    #: By the last part of their path.
    children: dict[str, Queue] = field(init=False, default_factory=dict)
    #: All applications that were submitted to it and have not ended.
    applications: dict[str, QueueApplication] = field(init=False, default_factory=dict)
    #: Its counter.
    counter: Counter | None = field(init=False, default=None)
    #: The counters of the queue and of those above it, leaf to root. Invariant: exactly those that have one.
    chain: tuple[Counter, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        self.queue_path = self.name = self.spec.queue_path
        if self.parent is not None:
            self.parent.children[self.queue_path.rpartition(".")[2]] = self

    @property
    def is_leaf(self) -> bool:
        """True if applications may be submitted to it."""
        return not self.spec.is_parent

    @property
    def draining(self) -> bool:
        """True if it accepts no more applications.

        The configuration no longer names it, or it could not be created again, because its parent is draining
        or has become a leaf.
        """
        if self.managed or self.parent is None:
            return False
        return self.was_configured or self.parent.draining or not self.parent.spec.is_parent

    @property
    def is_idle(self) -> bool:
        """True if it has neither applications nor child queues, and may be deleted."""
        return not self.applications and not self.children

    @property
    def quota(self) -> Quota:
        """The maximum and the guarantee of the queue."""
        quota = self.spec.quota
        return quota if self.quota_override is None else quota._replace(max_resources=self.quota_override)

    @property
    def template(self) -> Quota:
        """The quota of a queue created directly below: the template of the nearest queue upward that has one."""
        return next((queue.spec.template for queue in self.lineage() if queue.spec.template is not None), NO_QUOTA)

    def lineage(self) -> Iterator[Queue]:
        """Yield the queue and the queues above it, leaf to root."""
        queue: Queue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    def below(self) -> Iterator[Queue]:
        """Yield the queue and all queues below it, parents before children, in the order of their names."""
        yield self
        for name in sorted(self.children):
            yield from self.children[name].below()

    def may_submit(self, user: UserGroup) -> bool:
        """Return whether a user may submit applications to the queue, or to a queue that is created below it."""
        return path_allows(
            (acl for queue in self.lineage() for acl in (queue.spec.submit_acl, queue.spec.admin_acl)), user
        )

    def connect(self, layout: Layout, cluster: Resource | None) -> None:
        """Update the counter and the chain of the queue, and of all queues below it, to the configuration.

        Takes time linear in the number of queues, and of the applications below every counter that has to be created.

        Args:
            layout: the resources that are counted.
            cluster: the size of the cluster, which is the maximum of the root; None for no limit.
        """
        limit = self.limit(cluster)
        if limit is None:
            self.counters.pop(self.queue_path, None)
            self.counter = None
        elif self.counter is not None and self.counter.layout is layout:
            self.counter.replace_limit(limit)
        else:
            self.counter = self._counted(Counter(self, self.queue_path, limit, layout))
        above = () if self.parent is None else self.parent.chain
        self.chain = above if self.counter is None else (self.counter, *above)
        for child in self.children.values():
            child.connect(layout, cluster)

    def limit(self, cluster: Resource | None) -> Limit | None:
        """Return the limit of the counter; None if the queue needs no counter."""
        most, applications, guaranteed = self.quota
        if self.parent is None:
            return Limit(cluster or Resource(), applications, closed=cluster is not None, place=self.queue_path)
        if most is None and guaranteed is None and not applications:
            return None
        return Limit(most or Resource(), applications, place=self.queue_path)

    def _counted(self, counter: Counter) -> Counter:
        """Charge a new counter with all running applications below."""
        for held in self.running():
            charge([counter], counter.layout.vector(Resource(held)))
            counter.running += 1
        if counter.running:
            self.counters[self.queue_path] = counter
        else:
            self.counters.pop(self.queue_path, None)
        return counter

    def running(self) -> Iterator[Mapping[str, int]]:
        """Yield the held amounts of every running application in or below the queue."""
        for queue in self.below():
            yield from queue.held()

    def held(self) -> list[Mapping[str, int]]:
        """Return the held amounts of every running application in the queue itself."""
        return [one.holding.held() for one in self.applications.values() if one.holding is not None]

    def usage(self) -> Resource:
        """Return the usage in and below the queue, without zeros; takes time linear in the number of applications."""
        return sum_of(self.running())


@final
@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of one queue at one moment, with the queues below it."""

    queue_path: str
    #: True if applications may be submitted to it.
    is_leaf: bool
    #: True if the configuration names it; otherwise placement has created it, or it is draining.
    is_managed: bool
    #: True if it accepts no more applications, see ``Queue.draining``.
    is_draining: bool
    #: Its own maximum, which for the root is the size of the cluster; None for no limit.
    max_resources: Resource | None
    #: 0 for no limit.
    max_applications: int
    guaranteed: Resource | None
    #: The usage in and below it, without zeros.
    usage: Resource
    #: The number of applications that run in and below it.
    running_applications: int
    #: The ids of the applications that were submitted to it and have not ended, sorted.
    applications: tuple[str, ...]
    #: Sorted by path.
    children: tuple[QueueState, ...] = ()

    @property
    def share(self) -> Fraction | None:
        """The largest fraction of usage and guarantee over all guaranteed resources; None without a guarantee.

        A scheduler that serves the queue with the smallest share first gives every queue its guarantee before any
        queue gets more.
        """
        shares = [Fraction(self.usage.get(name, 0), most) for name, most in (self.guaranteed or {}).items() if most]
        return max(shares, default=None)

    def walk(self) -> Iterator[QueueState]:
        """Yield the queue and all queues below it, parents before children."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_dict(self) -> dict[str, object]:
        """Return the queue for JSON, with the names of the attributes and the share as a decimal number."""
        shown = {each.name: to_data(getattr(self, each.name)) for each in fields(self)}
        children = [child.to_dict() for child in self.children]
        return {**shown, "children": children, "share": None if self.share is None else as_float(self.share)}


def queue_state(queue: Queue, cluster: Resource | None) -> QueueState:
    """Return the current state of a queue; takes time linear in the number of its applications.

    Args:
        queue: the queue.
        cluster: the size of the cluster, which is the maximum of the root; None for no limit.
    """
    children = tuple(queue_state(queue.children[name], cluster) for name in sorted(queue.children))
    running = queue.held()
    quota = queue.quota
    return QueueState(
        queue_path=queue.queue_path,
        is_leaf=queue.is_leaf,
        is_managed=queue.managed,
        is_draining=queue.draining,
        max_resources=cluster if queue.parent is None else quota.max_resources,
        max_applications=quota.max_applications,
        guaranteed=quota.guaranteed,
        usage=sum_of((*running, *(child.usage for child in children))),
        running_applications=len(running) + sum(child.running_applications for child in children),
        applications=tuple(sorted(queue.applications)),
        children=children,
    )


@final
class QueueTree:
    """All queues of a partition.

    Args:
        specs: the configured queues.
        layout: the resources that are counted.
        cluster: the size of the cluster; None until the first node is registered.
    """

    #: The counters that have running applications.
    counters: dict[str, Counter]
    cluster: Resource | None
    specs: QueueSpecs
    _layout: Layout

    def __init__(self, specs: QueueSpecs, layout: Layout, cluster: Resource | None = None) -> None:
        self.counters = {}
        #: By canonical path; always with a root.
        self.queues: dict[str, Queue] = {ROOT: Queue(specs.by_path[ROOT], None, self.counters, managed=True)}
        self.cluster = cluster
        self.reshape(specs, layout)

    @property
    def root(self) -> Queue:
        """The root queue."""
        return self.queues[ROOT]

    # The view for placement

    def exists(self, queue_path: str) -> bool:
        """Return whether a queue exists."""
        return queue_path in self.queues

    def is_leaf(self, queue_path: str) -> bool:
        """Return whether an existing queue accepts applications."""
        return self.queues[queue_path].is_leaf

    def is_draining(self, queue_path: str) -> bool:
        """Return whether an existing queue is draining."""
        return self.queues[queue_path].draining

    def may_submit(self, queue_path: str, user: UserGroup) -> bool:
        """Return whether a user may submit to a queue, or create it by a submission."""
        return self.nearest(queue_path).may_submit(user)

    def nearest(self, queue_path: str) -> Queue:
        """Return the queue, or the nearest existing queue above it."""
        found = self.queues.get(queue_path)
        return found or next(self.queues[path] for path in ancestors(queue_path) if path in self.queues)

    # Changes

    def create(self, queue_path: str) -> Queue:
        """Create a queue that the configuration does not name, and the missing queues above it.

        The leaf gets its quota from the template above. Return the queue, which may have existed already.
        """
        above = self.nearest(queue_path)
        missing = [path for path in ancestors(queue_path) if path not in self.queues]
        for path in reversed(missing):
            is_leaf = path == queue_path
            spec = QueueSpec(path, not is_leaf, above.template if is_leaf else NO_QUOTA)
            above = self.queues[path] = Queue(spec, above, self.counters, managed=False)
            above.connect(self._layout, self.cluster)
        return above

    def override_quota(self, queue: Queue, most: Resource | None) -> None:
        """Set the maximum of a queue that the configuration does not name; the layout must count its resources."""
        queue.quota_override = most
        queue.connect(self._layout, self.cluster)

    def prune(self, queue: Queue) -> list[str]:
        """Delete a queue, and the queues above it, as far as they are empty and not named by the configuration.

        Return the paths of the deleted queues.
        """
        deleted = []
        while queue.is_idle and not queue.managed and queue.parent is not None:
            del self.queues[queue.queue_path]
            del queue.parent.children[queue.queue_path.rpartition(".")[2]]
            deleted.append(queue.queue_path)
            queue = queue.parent
        return deleted

    def reshape(self, specs: QueueSpecs, layout: Layout, left_out: QueueSpecs | None = None) -> None:
        """Change the tree to another configuration.

        Args:
            specs: the queues of the configuration.
            layout: the layout of all counters.
            left_out: the specs of the queues that it does not name any more; by default they keep theirs.
        """
        self.specs = specs
        for path, spec in specs.by_path.items():
            queue = self.queues.get(path)
            if queue is None:
                above = self.queues[path.rpartition(".")[0]]
                self.queues[path] = Queue(spec, above, self.counters, managed=True)
            else:
                queue.spec, queue.managed, queue.was_configured, queue.quota_override = spec, True, False, None
        for queue in list(self.root.below()):
            if queue.parent is not None and queue.queue_path not in specs.by_path:
                queue.spec = _spec_outside(queue, left_out)
                self._release(queue, queue.parent)
        # Parents come before their children, and are deleted with the last of them.
        for queue in list(self.queues.values()):
            self.prune(queue)
        self.connect(layout)

    def _release(self, queue: Queue, parent: Queue) -> None:
        """Mark a queue as one that the configuration does not name; its parent has been updated before."""
        queue.was_configured = queue.was_configured or queue.managed
        queue.managed = False
        if not queue.draining and not queue.spec.is_parent:
            queue.spec = replace(queue.spec, quota=parent.template)

    def connect(self, layout: Layout) -> None:
        """Update all counters to a layout and to the size of the cluster."""
        self._layout = layout
        self.root.connect(layout, self.cluster)

    def resize(self, cluster: Resource) -> None:
        """Change the size of the cluster, whose resources the layout must count; updates one counter."""
        self.cluster = cluster
        limit = self.root.limit(cluster)
        if self.root.counter is not None and limit is not None:
            self.root.counter.replace_limit(limit)

    def load(self, specs: QueueSpecs, unnamed: Iterable[tuple[QueueSpec, bool, Resource | None]]) -> None:
        """Make all queues again, without applications; `connect` must follow.

        Args:
            specs: the queues of the configuration.
            unnamed: the other queues: the settings of each, whether an earlier configuration named it, and its quota.
        """
        self.specs = specs
        self.counters.clear()
        self.queues.clear()
        for path, spec in specs.by_path.items():
            above = self.queues.get(path.rpartition(".")[0])
            self.queues[path] = Queue(spec, above, self.counters, managed=True)
        for spec, was_configured, quota in sorted(unnamed, key=lambda row: row[0].queue_path.count(".")):
            parent = self.queues[spec.queue_path.rpartition(".")[0]]
            queue = self.queues[spec.queue_path] = Queue(spec, parent, self.counters, managed=False)
            queue.was_configured, queue.quota_override = was_configured, quota
            self._release(queue, parent)

    # Queries

    def headroom(self, queue_path: str, *, cluster: bool) -> Resource | None:
        """Return the free amount of each limited resource: the smallest over the queues from *queue_path* up.

        Args:
            queue_path: an existing queue.
            cluster: if false, ignore the size of the cluster, which is the limit of the root.

        Returns:
            None if no queue limits resources. An amount is negative if the usage exceeds the limit.
        """
        return headroom(counter for counter in self.queues[queue_path].chain if cluster or counter.queue_path != ROOT)

    def chain_if_made(self, queue_path: str, quota: Resource | None = None) -> tuple[Counter, ...]:
        """Return the counters that a new application in a queue would be charged to, leaf to root; changes nothing.

        As in `create`, a queue that does not exist gets its quota from the template above. As in `override_quota`,
        *quota* replaces the maximum of a queue that the configuration does not name. In both cases the counter of the
        queue is temporary, and its layout counts the resources of the quota.

        Args:
            queue_path: an existing queue, or the path of a queue to create.
            quota: the maximum that the submission would set; None leaves it as it is.
        """
        nearest = self.nearest(queue_path)
        if nearest.queue_path != queue_path:
            spec, above = QueueSpec(queue_path, is_parent=False, quota=nearest.template), nearest
        elif nearest.parent is None or nearest.managed or quota is None:
            return nearest.chain
        else:
            spec, above = nearest.spec, nearest.parent
        made = Queue(spec, None, {}, managed=False)
        made.parent, made.quota_override = above, quota
        if nearest.queue_path == queue_path:
            for queue in nearest.below():
                made.applications.update(queue.applications)
        made.connect(self._layout.with_names(made.quota.names), self.cluster)
        return made.chain

    def maximum(self, queue_path: str) -> Resource | None:
        """Return the maximum of a queue and of all queues above it: the smallest amount of each limited resource.

        Returns:
            None if no queue limits resources.
        """
        queues = self.queues[queue_path].lineage()
        maxima = (self.cluster if queue.parent is None else queue.quota.max_resources for queue in queues)
        return smallest_amounts(item for maximum in maxima for item in (maximum or {}).items())

    def names_outside(self, specs: QueueSpecs, left_out: QueueSpecs | None = None) -> Iterator[str]:
        """Yield the resources of the quotas and templates of all queues that a configuration does not name.

        Args:
            specs: the queues of the configuration.
            left_out: as for `reshape`.
        """
        for path, queue in self.queues.items():
            if path not in specs.by_path:
                yield from (*_spec_outside(queue, left_out).names, *queue.quota.names)


def _spec_outside(queue: Queue, left_out: QueueSpecs | None) -> QueueSpec:
    """Return the spec of a queue that the next configuration does not name."""
    return queue.spec if left_out is None or not queue.managed else left_out.by_path[queue.queue_path]
