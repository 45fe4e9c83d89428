"""Consumers as a program describes them: for each tree the group, the request and the priority."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, final

from ugm.arguments import require_items
from ugm.errors import RequestError
from ugm.identity import MAX_NAME, is_name
from ugm.resources import Resource

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
    if type(entry.tree_name) is not str or type(entry.group) is not str:
        raise RequestError("trees", entry, "expected texts as tree and group")
    if len(entry.tree_name) > MAX_NAME or len(entry.group) > MAX_NAME:
        raise RequestError("trees", entry, f"expected a tree and a group of up to {MAX_NAME} characters")
    if type(entry.priority) is not int or type(entry.type) is not int:
        raise RequestError("trees", entry, "expected an int as priority and as type")
    if type(entry.unpreemptable) is not bool:
        raise RequestError("trees", entry, "expected True or False as unpreemptable")
    return entry
