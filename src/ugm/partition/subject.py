"""The subject of a query: an application, or a user who has no application in a queue yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ugm.identity import UserGroup
from ugm.resources import Resource

__all__ = ["Subject", "UserInQueue"]


@dataclass(frozen=True, slots=True)
class UserInQueue:
    """A user in a queue: stands for an application that the user could submit there.

    The queue need not exist. A queue that placement would create counts as created.

    >>> UserInQueue(UserGroup("sue"), "root.prod").queue_path
    'root.prod'
    """

    user: UserGroup
    queue_path: str
    #: The tags of the submission, for quota models that read them.
    tags: Mapping[str, str] | None = None
    #: The quota that the submission would set on a queue outside of the configuration.
    quota: Resource | None = None


#: The id of an application, or a user in a queue.
Subject: TypeAlias = str | UserInQueue
