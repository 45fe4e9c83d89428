"""The names of users and groups that limits and filters may contain.

Apache YuniKorn rejects many names that identity providers issue, for example ``8f3c2a10-11aa``, ``auth0|123`` and
``Jane Doe``. Its rules are the default, because YuniKorn cannot read a file with other names. The setting ``names:
any`` under the key ``ugm`` of a partition allows all names.
"""

from __future__ import annotations

import re
from typing import Final

from ugm.errors import quote
from ugm.identity import MAX_NAME

__all__ = ["ANY", "YUNIKORN", "invalid_name_reason", "is_yunikorn_name"]

#: The values of the setting.
YUNIKORN: Final = "yunikorn"
ANY: Final = "any"

_PATTERNS: Final = {
    "user": re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*\$?"),
    "group": re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*"),
}
_ALLOWED: Final = {
    "user": "a letter or _, then letters, digits and characters of :#/_.@-, and possibly a $ at the end",
    "group": "a letter or _, then letters, digits and characters of :_.-",
}
_ALLOWED_ANY: Final = "printable characters without a comma, and no space at the beginning or end"


def is_yunikorn_name(kind: str, name: str) -> bool:
    """Return whether Apache YuniKorn accepts the name of a user or group in a limit."""
    return len(name) <= MAX_NAME and bool(_PATTERNS[kind].fullmatch(name))


def invalid_name_reason(kind: str, name: str, setting: str) -> str | None:
    """Return the reason why a text is not a valid name; None if it is valid.

    Args:
        kind: ``user`` or ``group``.
        name: the text.
        setting: the allowed names, `YUNIKORN` or `ANY`.

    >>> invalid_name_reason("group", "8-gpus", ANY)
    >>> invalid_name_reason("group", "8-gpus", YUNIKORN)[:40]
    "'8-gpus' is not a valid group name (allo"
    """
    if len(name) > MAX_NAME:
        return f"the name of a {kind} has {len(name)} characters (allowed: up to {MAX_NAME})"
    if is_yunikorn_name(kind, name):
        return None
    if setting == YUNIKORN:
        hint = "; 'ugm: {names: any}' in the partition allows more" if _is_printable_name(name) else ""
        return f"{quote(name)} is not a valid {kind} name (allowed: {_ALLOWED[kind]}{hint})"
    if _is_printable_name(name):
        return None
    return f"{quote(name)} is not a valid {kind} name (allowed: {_ALLOWED_ANY})"


def _is_printable_name(name: str) -> bool:
    return bool(name) and name.isprintable() and "," not in name and name == name.strip(" ")
