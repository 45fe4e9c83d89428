"""Consumers as a program describes them: for each tree the group, the request and the priority."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, final
from weakref import WeakSet

from ugm.arguments import require_items
from ugm.errors import RequestError
from ugm.identity import MAX_NAME, is_name
from ugm.resources import MAX_QUANTITY, Resource

__all__ = ["REQUEST_KEYS", "ConsumerInfo", "TreeRequest"]

#: The fields of a `TreeRequest` in a consumer document.
REQUEST_KEYS: Final = ("treeName", "groupID", "request", "priority", "type", "unPreemptable")


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

    def to_dict(self) -> dict[str, object]:
        """Return the entry of a consumer document."""
        return {**dict(zip(REQUEST_KEYS, self, strict=True)), "request": dict(self.request.amounts)}


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

    __slots__ = ("__weakref__", "consumer_id", "preempted_by", "trees")

    consumer_id: str
    trees: tuple[TreeRequest, ...]
    #: The consumers that have preempted it; None instead of an empty set. A consumer that is neither known nor held
    #: cannot be a victim, so the references are weak.
    preempted_by: WeakSet[ConsumerInfo] | None

    def __init__(self, consumer_id: str, trees: Iterable[TreeRequest] = ()) -> None:
        if not is_name(consumer_id):
            raise RequestError("consumer_id", consumer_id, "an id is a text of 1 to 256 characters")
        self.consumer_id = consumer_id
        self.trees = tuple(map(_require_request, require_items("trees", trees)))
        self.preempted_by = None

    @classmethod
    def of_claim(cls, consumer_id: str, trees: tuple[TreeRequest, ...]) -> ConsumerInfo:
        """Return the consumer of a claim, of which everything has been checked but the groups."""
        for entry in trees:
            if type(entry[1]) is not str or len(entry[1]) > MAX_NAME:
                _require_request(entry)
        info = cls.__new__(cls)
        info.consumer_id, info.trees, info.preempted_by = consumer_id, trees, None
        return info

    @property
    def on(self) -> Mapping[str, TreeRequest]:
        """The entry for each tree, the first if there are several."""
        return {entry.tree_name: entry for entry in reversed(self.trees)}

    def entry(self, tree_name: str) -> TreeRequest | None:
        """Return the entry for a tree, the first if there are several; None if there is none."""
        for entry in self.trees:
            if entry.tree_name == tree_name:
                return entry
        return None

    def to_dict(self) -> dict[str, object]:
        """Return a consumer document, which `ugm.quotatree.parse_consumer` reads."""
        return {
            "kind": "Consumer",
            "metadata": {"name": self.consumer_id},
            "spec": {"id": self.consumer_id, "trees": [entry.to_dict() for entry in self.trees]},
        }

    def __reduce__(self) -> tuple[type[ConsumerInfo], tuple[str, tuple[TreeRequest, ...]]]:
        # A copy is another consumer, without a history of preemptions.
        return ConsumerInfo, (self.consumer_id, self.trees)

    def barred_from(self) -> frozenset[ConsumerInfo]:
        """Return the consumers that this one may not preempt: those that have preempted it, directly or indirectly.

        So the relation "has preempted" has no cycles. Therefore a finite number of consumers that never leave by
        themselves causes a finite number of preemptions: of the consumers that keep preempting, one is preempted by
        none of the others, so it stays allocated and stops requesting.
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


def _require_request(entry: object) -> TreeRequest:
    if not isinstance(entry, TreeRequest) or type(entry.request) is not Resource:
        raise RequestError("trees", entry, "expected a TreeRequest whose request is a Resource")
    if type(entry.tree_name) is not str or type(entry.group) is not str:
        raise RequestError("trees", entry, "expected texts as tree and group")
    if len(entry.tree_name) > MAX_NAME or len(entry.group) > MAX_NAME:
        raise RequestError("trees", entry, f"expected a tree and a group of up to {MAX_NAME} characters")
    for amount in entry.request.amounts.values():
        if not -MAX_QUANTITY <= amount <= MAX_QUANTITY:
            raise RequestError("trees", entry, "expected amounts that fit a signed 64-bit integer")
    if type(entry.priority) is not int or type(entry.type) is not int:
        raise RequestError("trees", entry, "expected an int as priority and as type")
    if type(entry.unpreemptable) is not bool:
        raise RequestError("trees", entry, "expected True or False as unpreemptable")
    return entry
