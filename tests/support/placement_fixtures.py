"""Queues to place applications in, and rules to do it with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ugm.config import PlacementRule, parse_config
from ugm.identity import UserGroup, ancestors
from ugm.queues import Acl, PlacementRules, Submission, path_allows

__all__ = ["LIN", "Queues", "rules", "submitted"]

LIN: Final = UserGroup("lin", ("physics",))


class Queues:
    """Queues that are there: leaves, and everything above them."""

    def __init__(
        self,
        leaves: Iterable[str] = (),
        *,
        parents: Iterable[str] = (),
        draining: Iterable[str] = (),
        acls: Mapping[str, str] | None = None,
    ) -> None:
        self.leaves = frozenset(leaves)
        self.draining = frozenset(draining)
        self.paths = {above for path in ("root", *self.leaves, *parents) for above in ancestors(path)}
        self.acls = {path: Acl.parse(text) for path, text in (acls or {}).items()}

    def exists(self, queue_path: str) -> bool:
        """Return whether the queue is there."""
        return queue_path in self.paths

    def is_leaf(self, queue_path: str) -> bool:
        """Return whether an existing queue is a leaf."""
        assert queue_path in self.paths
        return queue_path in self.leaves

    def is_draining(self, queue_path: str) -> bool:
        """Return whether an existing queue is draining."""
        assert queue_path in self.paths
        return queue_path in self.draining

    def may_submit(self, queue_path: str, user: UserGroup) -> bool:
        """Return what the lists on the path say."""
        return path_allows((self.acls.get(path) for path in ancestors(queue_path)), user)


def rules(text: str) -> PlacementRules:
    """Compile the rules of a configuration, given as YAML in one line each."""
    lines = "".join(f"  - {line}\n" for line in text.strip().splitlines())
    partition = parse_config(f"partitions:\n- queues: [{{name: root}}]\n  placementrules:\n{lines}").partition()
    configured: tuple[PlacementRule, ...] = partition.placement_rules
    return PlacementRules(configured)


def submitted(queue: str = "", tags: Mapping[str, str] | None = None, user: UserGroup = LIN) -> Submission:
    """Return an application."""
    return Submission("app-1", user, queue, tags or {})
