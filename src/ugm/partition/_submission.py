"""What a submission must be; misuse is found here, before the lock is taken."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ugm.arguments import require_application_id, require_name, require_user
from ugm.errors import RequestError
from ugm.identity import MAX_DEPTH, MAX_NAME, ROOT, UserGroup, canonical_path
from ugm.partition.application import GangStyle
from ugm.queues import Submission

__all__ = ["group_of", "placed_path", "style_of", "submission_of"]

#: The longest queue path, with the dots in it.
_LONGEST_PATH: Final = MAX_DEPTH * (MAX_NAME + 1)
_NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})


def submission_of(application_id: str, user: UserGroup, queue: str, tags: Mapping[str, str] | None) -> Submission:
    """Return what is submitted, with a copy of the tags.

    Raises:
        RequestError: something in it is of the wrong kind, or too long.
    """
    require_application_id(application_id)
    require_user(user)
    if not isinstance(queue, str):
        raise RequestError("queue", queue, "the queue that is asked for is a text, empty for none")
    if len(queue) > _LONGEST_PATH:
        raise RequestError("queue", queue, f"it has {len(queue)} characters (allowed: up to {_LONGEST_PATH})")
    return Submission(application_id, user, queue, _tags_of(tags))


def _tags_of(tags: object) -> Mapping[str, str]:
    if tags is None:
        return _NO_TAGS
    if not isinstance(tags, Mapping):
        raise RequestError("tags", tags, "expected a mapping of texts")
    copy = dict(tags)
    for name, value in copy.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise RequestError("tags", {name: value}, "expected texts")
        if not 0 < len(name) <= MAX_NAME or len(value) > MAX_NAME:
            reason = f"a tag has a name of 1 to {MAX_NAME} characters and a value of up to {MAX_NAME}"
            raise RequestError("tags", {name: value}, reason)
    return MappingProxyType(copy)


def placed_path(queue_path: str) -> str:
    """Return the canonical path of a queue in which an application may have been placed.

    Raises:
        RequestError: it is not a valid path, or it is that of the root.
    """
    path = canonical_path(queue_path)
    if path == ROOT:
        raise RequestError("queue_path", queue_path, "the root takes no applications")
    return path


def group_of(group: str | None) -> str | None:
    """Return the group of an application: a name, None for none, or the empty text where it is still to be chosen.

    Raises:
        RequestError: it is something else.
    """
    return group if group is None or group == "" else require_name("group", group)


def style_of(gang_style: str) -> GangStyle:
    """Return the style of a gang.

    Raises:
        RequestError: there is no such style.
    """
    if gang_style not in tuple(GangStyle):
        raise RequestError("gang_style", gang_style, "expected 'soft' or 'hard'")
    return GangStyle(gang_style)
