"""The nodes of a quota tree and the consumers that they hold.

The amount charged to a node is the sum over the consumers at the node and at all nodes below. A consumer is charged to
the node that holds it and to every node above, but not to the nodes between its group and the node that holds it.

The consumers of a node are ordered by arrival. This order decides which of them is moved or preempted first. A node
keeps them by rank (priority, type, preemptible or not) with the sum of their amounts. So a search knows that the
consumers of some ranks cannot free enough before it looks at any of them.

*Packing.* The amounts of all resources of a tree are packed into one integer. Each resource has a field of 128 bits.
Packed requests are added and subtracted like plain integers. A negative amount borrows from the next field, and
subtracting it gives that back.

A *free amount* is the part of a quota that is not charged, plus the highest bit, the *sign*, of every field. So no
field borrows from the next, even if the node is over its quota. If a request is subtracted, the sign disappears exactly
in the fields that would drop below 0:

    free - request & mask == mask       the request fits; the mask has the signs of the requested resources

A `ConsumerInfo` is a consumer as a program describes it: for each tree the group, the request and the priority.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias, final

from ugm.arguments import require_items
from ugm.errors import RequestError
from ugm.identity import MAX_NAME, is_name
from ugm.resources import Resource

by_arrival: Final = attrgetter("sequence")


class Rank(NamedTuple):
    """The attributes of a consumer that decide whether it can be preempted."""

    priority: int
    type: int
    unpreemptable: bool


@final
@dataclass(slots=True, eq=False, repr=False)
class Consumer:
    """One consumer in one tree."""

    info: ConsumerInfo
    #: The entry for this tree. Its group follows renames in the tree.
    entry: TreeRequest
    rank: Rank
    #: The group, if it is a leaf of the tree.
    leaf: TreeNode | None
    #: The packed request, the signs of the requested resources (any other resource never denies), the request without
    #: negative amounts, and its size.
    packed: int
    mask: int
    freed: int
    size: _Size
    #: The node that holds it; None before it is allocated and after it is deallocated.
    node: TreeNode | None = field(default=None, init=False)
    #: Its position in the order of arrival at the node.
    sequence: int = field(default=0, init=False)

    @property
    def id(self) -> str:
        """The id, unique within a manager."""
        return self.info.consumer_id


#: Consumers in the order of arrival.
_Line: TypeAlias = "OrderedDict[Consumer, None]"


@final
@dataclass(slots=True, eq=False)
class _Members:
    """The consumers of one rank that a node holds."""

    #: The sum of what they can free, packed.
    total: int = 0
    line: _Line = field(default_factory=OrderedDict)


@final
class TreeNode:
    """A node with a quota.

    Args:
        name: unique in its tree.
        parent: None for the root.
        quota: the quotas by position of the resource.
        packing: the positions of the resources of the tree.
        hard: whether consumers below may not borrow above the node. It has no effect at the root.
    """

    __slots__ = (
        "borrowers", "children", "depth", "free", "hard", "members", "name", "packing", "parent",
        "path", "quota", "toward",
    )  # fmt: skip

    def __init__(
        self, name: str, parent: TreeNode | None, quota: tuple[int, ...], packing: Packing, *, hard: bool
    ) -> None:
        self.name: Final = name
        self.parent: Final = parent
        self.children: Final[list[TreeNode]] = []
        self.hard: Final = hard
        self.quota: Final = quota
        self.packing: Final = packing
        #: The node itself and every node above it, up to the root.
        self.path: Final[tuple[TreeNode, ...]] = (self, *parent.path) if parent else (self,)
        #: 0 for the root.
        self.depth: Final = len(self.path) - 1
        #: For each leaf below this node the child on the path to it.
        self.toward: Final[dict[TreeNode, TreeNode]] = {}
        self.clear()
        if parent:
            parent.children.append(self)

    def clear(self) -> None:
        """Reset all counters and lists from any state: no consumers, nothing charged."""
        #: The part of the quota that is not charged, packed. Negative after forced allocations or a lowered quota.
        self.free: int = self.packing.pack_free(self.quota)
        #: The consumers that this node holds, by rank.
        self.members: dict[Rank, _Members] = {}
        #: The consumers that the parent holds and that may move down here, by their size. If a size does not
        #: fit, none of its consumers does.
        self.borrowers: dict[_Size, _Line] = {}

    def __repr__(self) -> str:
        return f"<TreeNode {self.name!r}>"

    def free_amounts(self) -> tuple[int, ...]:
        """Return the part of the quota that is not charged, by position of the resource."""
        return self.packing.unpack_free(self.free)

    def allocated(self) -> tuple[int, ...]:
        """Return the charged amounts, by position of the resource."""
        return tuple(quota - free for quota, free in zip(self.quota, self.free_amounts(), strict=True))

    def walk(self) -> Iterator[TreeNode]:
        """Yield the node and all nodes below it, parents first, children by name."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending += sorted(node.children, key=attrgetter("name"), reverse=True)

    def consumers(self, ranks: Iterable[Rank] | None = None) -> Iterable[Consumer]:
        """Return the consumers of some ranks, or all of them, in order of arrival."""
        lines = [self.members[rank].line for rank in (self.members if ranks is None else ranks)]
        return lines[0] if len(lines) == 1 else merge(*lines, key=by_arrival)

    def first_borrower(self) -> Consumer | None:
        """Return the first consumer that can move down here, if there is one."""
        free, found = self.free, None
        for (size, signs), line in self.borrowers.items():
            if free - size & signs == signs:
                for consumer in line:
                    mask = consumer.mask
                    if free - consumer.packed & mask == mask:
                        if found is None or consumer.sequence < found.sequence:
                            found = consumer
                        break
        return found

    # Changes. The caller updates the free amounts.

    def append(self, consumer: Consumer, sequence: int) -> None:
        """Add a consumer behind all others, without charging it."""
        consumer.node = self
        consumer.sequence = sequence
        members = self.members.get(consumer.rank)
        if members is None:
            members = self.members[consumer.rank] = _Members()
        members.line[consumer] = None
        members.total += consumer.freed
        if consumer.leaf is not None and consumer.leaf is not self:
            borrowers, size = self.toward[consumer.leaf].borrowers, consumer.size
            line = borrowers.get(size)
            if line is None:
                line = borrowers[size] = OrderedDict()
            line[consumer] = None

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, without refunding it."""
        consumer.node = None
        members = self.members[consumer.rank]
        members.total -= consumer.freed
        del members.line[consumer]
        if not members.line:
            del self.members[consumer.rank]
        if consumer.leaf is not None and consumer.leaf is not self:
            borrowers, size = self.toward[consumer.leaf].borrowers, consumer.size
            line = borrowers[size]
            del line[consumer]
            if not line:
                del borrowers[size]

    def sort(self) -> None:
        """Restore the order of arrival after consumers have returned to earlier places."""
        lines = [members.line for members in self.members.values()]
        for line in (*lines, *(line for child in self.children for line in child.borrowers.values())):
            for consumer in sorted(line, key=by_arrival):
                line.move_to_end(consumer)


#: The number of bits of a field, the highest bit, and all bits.
_FIELD: Final = 128
_SIGN: Final = 1 << (_FIELD - 1)
_MASK: Final = (1 << _FIELD) - 1
#: Larger amounts count as this one, which no quota allows. The sum of a hundred of them fits a field.
_MOST: Final = 1 << 120


#: A lower bound that many requests share: the largest powers of two that are not above the amounts, and the mask.
_Size: TypeAlias = tuple[int, int]


@final
class Packing:
    """The positions of the resources of one tree in packed amounts.

    Args:
        resources: the names, in order.
    """

    def __init__(self, resources: tuple[str, ...]) -> None:
        #: For each resource the name, the position of its field, and its sign.
        self._fields: Final = tuple((name, _FIELD * at, _SIGN << _FIELD * at) for at, name in enumerate(resources))
        #: The signs of all fields.
        self.signs: Final = sum(sign for _, _, sign in self._fields)

    def pack_free(self, quota: Sequence[int]) -> int:
        """Return the free amount of a quota to which nothing is charged."""
        return self.signs + sum(amount << _FIELD * at for at, amount in enumerate(quota))

    def unpack_free(self, free: int) -> tuple[int, ...]:
        """Return a free amount by position of the resource."""
        return tuple([(free >> place & _MASK) - _SIGN for _, place, _ in self._fields])

    def pack_request(self, amounts: Mapping[str, int]) -> tuple[int, int, int, _Size]:
        """Pack a request. Resources that the tree does not count are left out.

        Returns:
            The packed request, the signs of the requested resources, the request without negative amounts, which is an
            upper bound of what a release frees, and its size.
        """
        packed = mask = negative = size = 0
        for name, place, sign in self._fields:
            amount = amounts.get(name)
            if amount:
                mask += sign
                if amount > 0:
                    packed += min(amount, _MOST) << place
                    size += 1 << place + min(amount, _MOST).bit_length() - 1
                else:
                    negative += amount << place
        return packed + negative, mask, packed, (size + negative, mask)


class TreeRequest(NamedTuple):
    """The request of a consumer in one tree."""

    tree_name: str
    #: The leaf of the tree to which the consumer belongs.
    group: str
    request: Resource = Resource()
    #: Consumers of lower priority make way: they slide up to the parent node, or leave the tree at the root. If the
    #: priority is above 0 and this does not suffice, others of lower priority are preempted. A consumer that borrows
    #: makes way for the owner of the quota, whatever the priorities are.
    priority: int = 0
    #: Only consumers of the same type have to leave the tree for it.
    type: int = 0
    unpreemptable: bool = False


@final
class ConsumerInfo:
    """A consumer and its requests in one or several trees.

    Args:
        consumer_id: its name, unique within a manager.
        trees: one entry for each tree.

    Raises:
        RequestError: the id is empty, or an entry has a value of the wrong type.

    >>> ConsumerInfo("job-1", [TreeRequest("Context", "team-a", Resource(cpu=2))]).on["Context"].group
    'team-a'
    """

    __slots__ = ("consumer_id", "on", "trees")

    consumer_id: str
    trees: tuple[TreeRequest, ...]
    #: The entry for each tree, the first if there are several.
    on: Mapping[str, TreeRequest]

    def __init__(self, consumer_id: str, trees: Iterable[TreeRequest] = ()) -> None:
        if not is_name(consumer_id):
            raise RequestError("consumer_id", consumer_id, "an id is a text of 1 to 256 characters")
        self.consumer_id = consumer_id
        self.trees = tuple(map(_require_request, require_items("trees", trees)))
        self.on = {entry.tree_name: entry for entry in reversed(self.trees)}

    def __repr__(self) -> str:
        return f"ConsumerInfo({self.consumer_id!r}, {self.trees!r})"


def _require_request(entry: object) -> TreeRequest:
    if not isinstance(entry, TreeRequest) or type(entry.request) is not Resource:
        raise RequestError("trees", entry, "expected a TreeRequest whose request is a Resource")
    for name in (entry.tree_name, entry.group):
        if type(name) is not str or len(name) > MAX_NAME:
            raise RequestError("trees", entry, f"expected texts of up to {MAX_NAME} characters as tree and group")
    if type(entry.priority) is not int or type(entry.type) is not int:
        raise RequestError("trees", entry, "expected an int as priority and as type")
    if type(entry.unpreemptable) is not bool:
        raise RequestError("trees", entry, "expected True or False as unpreemptable")
    return entry
