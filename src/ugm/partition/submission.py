"""Checks of the arguments of a submission, which run before the lock is taken.

The group of an application is selected elsewhere, when it starts: see `ugm.tracking.limits.LimitTable.select_group`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ugm.arguments import require_application_id, require_name, require_user
from ugm.errors import RequestError
from ugm.identity import MAX_DEPTH, MAX_NAME, ROOT, UserGroup, canonical_path, exact_text
from ugm.partition.application import GangStyle
from ugm.queues import Submission

__all__ = ["require_chosen_group", "require_gang_style", "require_leaf_path", "require_submission"]

#: The longest queue path, with the dots in it.
_LONGEST_PATH: Final = MAX_DEPTH * (MAX_NAME + 1)
_NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})


def require_submission(application_id: str, user: UserGroup, queue: str, tags: Mapping[str, str] | None) -> Submission:
    """Return a submission, with a copy of the tags.

    Raises:
        RequestError: an argument has a wrong type, or is too long.
    """
    checked_id = require_application_id(application_id)
    require_user(user)
    if not isinstance(queue, str):
        raise RequestError("queue", queue, "expected a queue path, or an empty string for none")
    path = exact_text(queue)
    if len(path) > _LONGEST_PATH:
        raise RequestError("queue", queue, f"it has {len(path)} characters (allowed: up to {_LONGEST_PATH})")
    return Submission(checked_id, user, path, _require_tags(tags))


def _require_tags(tags: object) -> Mapping[str, str]:
    if tags is None:
        return _NO_TAGS
    if not isinstance(tags, Mapping):
        raise RequestError("tags", tags, "expected a mapping of strings")
    copy = {}
    for given, text in dict(tags).items():
        if not isinstance(given, str) or not isinstance(text, str):
            raise RequestError("tags", {given: text}, "expected strings")
        name, value = exact_text(given), exact_text(text)
        if not 0 < len(name) <= MAX_NAME or len(value) > MAX_NAME:
            reason = f"a tag has a name of 1 to {MAX_NAME} characters and a value of up to {MAX_NAME}"
            raise RequestError("tags", {name: value}, reason)
        copy[name] = value
    return MappingProxyType(copy)


def require_leaf_path(queue_path: str) -> str:
    """Return the canonical path of a queue that may contain applications.

    Raises:
        RequestError: the path is invalid, or it is the path of the root.
    """
    path = canonical_path(queue_path)
    if path == ROOT:
        raise RequestError("queue_path", queue_path, "the root takes no applications")
    return path


def require_chosen_group(group: str | None) -> str | None:
    """Return the group that the caller has chosen: a name, None for no group, or an empty string to select it later.

    Raises:
        RequestError: the value is something else.
    """
    return group if group is None or group == "" else require_name("group", group)


def require_gang_style(gang_style: str) -> GangStyle:
    """Return the style of a gang.

    Raises:
        RequestError: the style does not exist.
    """
    if gang_style not in tuple(GangStyle):
        raise RequestError("gang_style", gang_style, "expected 'soft' or 'hard'")
    return GangStyle(gang_style)
