"""Who asks a tree for resources: what a consumer is to have in each tree, and the consumer as one tree holds it.

A `ConsumerInfo` says for each tree in which group the consumer is and what it requests there. A `Consumer` is made of
it when it is to be allocated on one tree; it knows the resources of that tree by position, and where it is held.

Whoever has preempted a consumer is remembered with its information (see `barred_from`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final
from weakref import WeakSet

from ugm.errors import RequestError
from ugm.identity import MAX_NAME, is_name
from ugm.quotatree.packing import Amounts, Packing
from ugm.resources import MAX_QUANTITY, Resource

if TYPE_CHECKING:
    from ugm.quotatree.node import TreeNode
    from ugm.quotatree.waiting import Waiting

__all__ = ["Consumer", "ConsumerInfo", "Rank", "TreeRequest"]


class TreeRequest(NamedTuple):
    """What a consumer is to have in one tree."""

    tree_name: str
    #: The leaf of the tree that the consumer belongs to.
    group: str
    request: Resource = Resource()
    #: A consumer preempts consumers of lower priority; one of priority 0 or less preempts nobody for room.
    priority: int = 0
    #: Consumers preempt their own type alone.
    type: int = 0
    unpreemptable: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of a consumer document."""
        return {
            "treeName": self.tree_name,
            "groupID": self.group,
            "request": dict(self.request.amounts),
            "priority": self.priority,
            "type": self.type,
            "unPreemptable": self.unpreemptable,
        }


@final
class ConsumerInfo:
    """What a consumer is to have in each of some trees.

    Args:
        consumer_id: its name, unique within a manager.
        trees: one entry for each tree.

    Raises:
        RequestError: the id is empty, or an entry holds something of the wrong kind.

    >>> ConsumerInfo("job-1", [TreeRequest("Context", "team-a", Resource(cpu=2))]).on["Context"].group
    'team-a'
    """

    __slots__ = ("__weakref__", "consumer_id", "preempted_by", "trees")

    consumer_id: str
    trees: tuple[TreeRequest, ...]
    #: Who has preempted it since it was made; None stands for nobody, which most are preempted by. Whoever is known and
    #: held no more can be no victim, and need not be remembered.
    preempted_by: WeakSet[ConsumerInfo] | None

    def __init__(self, consumer_id: str, trees: Iterable[TreeRequest] = ()) -> None:
        if not is_name(consumer_id):
            raise RequestError("consumer_id", consumer_id, "an id is a text of 1 to 256 characters")
        self.consumer_id = consumer_id
        self.trees = tuple(map(_checked, trees))
        self.preempted_by = None

    @property
    def on(self) -> Mapping[str, TreeRequest]:
        """The entry for each tree, the first if there are several."""
        return {entry.tree_name: entry for entry in reversed(self.trees)}

    def entry(self, tree_name: str) -> TreeRequest | None:
        """Return the entry for a tree, if there is one; the first if there are several."""
        for entry in self.trees:
            if entry.tree_name == tree_name:
                return entry
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return a consumer document, which `ugm.quotatree.parse_consumer` reads."""
        trees = [entry.to_dict() for entry in self.trees]
        return {
            "kind": "Consumer",
            "metadata": {"name": self.consumer_id},
            "spec": {"id": self.consumer_id, "trees": trees},
        }

    def __reduce__(self) -> tuple[type[ConsumerInfo], tuple[str, tuple[TreeRequest, ...]]]:
        # A copy is another consumer: nobody has preempted it.
        return ConsumerInfo, (self.consumer_id, self.trees)

    def barred_from(self) -> frozenset[ConsumerInfo]:
        """Return whom the consumer may not preempt: who has preempted it, who has preempted those, and so on.

        So "has preempted" never closes a circle. Among finitely many consumers that do not leave by themselves there
        can then be only finitely many preemptions, in whatever order they ask: take those who preempt again and
        again; one of them is preempted by none of the others, stays once it is in, and asks no more.
        """
        found: set[ConsumerInfo] = set()
        pending = [self]
        while pending:
            for preemptor in pending.pop().preempted_by or ():
                if preemptor not in found:
                    found.add(preemptor)
                    pending.append(preemptor)
        return frozenset(found)

    def __repr__(self) -> str:
        return f"ConsumerInfo({self.consumer_id!r}, {self.trees!r})"


def _checked(entry: object) -> TreeRequest:
    if not isinstance(entry, TreeRequest) or type(entry.request) is not Resource:
        raise RequestError("trees", entry, "expected a TreeRequest whose request is a Resource")
    if type(entry.tree_name) is not str or type(entry.group) is not str:
        raise RequestError("trees", entry, "tree and group are texts")
    if len(entry.tree_name) > MAX_NAME or len(entry.group) > MAX_NAME:
        raise RequestError("trees", entry, f"the name of a tree or a group has up to {MAX_NAME} characters")
    if any(abs(amount) > MAX_QUANTITY for amount in entry.request.amounts.values()):
        raise RequestError("trees", entry, "an amount fits a signed 64-bit integer")
    if type(entry.priority) is not int or type(entry.type) is not int:
        raise RequestError("trees", entry, "priority and type are an int")
    if type(entry.unpreemptable) is not bool:
        raise RequestError("trees", entry, "unpreemptable is a bool")
    return entry


@final
class Rank:
    """All that the choice of victims looks at. Compared by identity: a tree makes one object for all of a rank."""

    __slots__ = ("priority", "type", "unpreemptable")

    priority: int
    type: int
    #: Whether it is safe from preemption.
    unpreemptable: bool

    def __init__(self, priority: int, type: int, unpreemptable: bool) -> None:  # noqa: A002, FBT001 - as in `TreeRequest`
        self.priority = priority
        self.type = type
        self.unpreemptable = unpreemptable

    def __repr__(self) -> str:
        return f"Rank({self.priority}, {self.type}, {self.unpreemptable})"


@final
class Consumer:
    """One consumer in one tree."""

    __slots__ = (
        "amount",
        "asked",
        "entry",
        "gives_back",
        "info",
        "leaf",
        "node",
        "packing",
        "rank",
        "sequence",
        "slot",
        "waiting",
    )

    info: ConsumerInfo
    #: The entry for this tree. Its group changes with the names of the tree.
    entry: TreeRequest
    rank: Rank
    #: What it asks for, packed; the signs of the fields; and the same without what is negative.
    amount: int
    asked: int
    gives_back: int
    packing: Packing
    #: The group, if that is a leaf of the tree.
    leaf: TreeNode | None
    #: Where it is held; None before it is allocated and after it is gone.
    node: TreeNode | None
    #: Its place in the order of arrival at its node: lower came earlier.
    sequence: int
    #: Those with whom it waits for room in the node below on its way to its group; None if it is held at
    #: its group, or that is no leaf.
    waiting: Waiting | None
    #: Its place there, where many wait.
    slot: int

    def __init__(
        self, info: ConsumerInfo, entry: TreeRequest, packing: Packing, rank: Rank, leaf: TreeNode | None
    ) -> None:
        self.info = info
        self.entry = entry
        self.rank = rank
        self.amount, self.asked, self.gives_back = packing.request(entry.request.amounts)
        self.packing = packing
        self.leaf = leaf
        self.node = None

    @property
    def id(self) -> str:
        """Its name, unique within a manager."""
        return self.info.consumer_id

    @property
    def amounts(self) -> Amounts:
        """What it asks for, by the position of the resource in the tree."""
        return self.packing.amounts(self.amount, self.asked)
