"""The violations of claims that a tree or a forest cannot decide about: nothing is full, but something is missing."""

from __future__ import annotations

from ugm.model import SetupViolation

__all__ = ["InMaintenance", "NoGroup", "UnknownForest", "UnknownNode", "UnknownTree"]


class InMaintenance(SetupViolation):
    """The denial of a claim because the manager is in maintenance mode."""

    __slots__ = ()
    reason = "its manager is in maintenance mode, in which no quota is enforced"


class UnknownTree(SetupViolation):
    """The denial of a claim because the manager has no such tree."""

    __slots__ = ()
    reason = "there is no such tree"


class UnknownForest(SetupViolation):
    """The denial of a claim because the manager has no such forest."""

    __slots__ = ()
    reason = "there is no such forest"


class UnknownNode(SetupViolation):
    """The denial of a claim because its group is not a leaf of the tree."""

    __slots__ = ()
    reason = "the tree has no such leaf"


class NoGroup(SetupViolation):
    """The denial of a claim because it has no group."""

    __slots__ = ()
    reason = "the request has no group in it"
