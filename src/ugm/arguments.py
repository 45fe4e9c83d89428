"""Checks of arguments, which run before an operation changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Final, TypeVar

from ugm.counters import Layout, RequestVector
from ugm.errors import RequestError
from ugm.identity import MAX_NAME, UserGroup, require_name
from ugm.resources import MAX_QUANTITY, Resource

_T = TypeVar("_T")

#: A larger limit of applications is a mistake in a program.
_MAX_COUNT: Final = 2**63 - 1
#: The maximum finite duration, in seconds.
_MAX_SECONDS: Final = 10**15


def require_exact_name(argument: str, name: object) -> None:
    """Check a name that is stored as it is given, so that a subclass of `str` is refused."""
    if type(name) is str and name and len(name) <= MAX_NAME:
        return
    require_name(argument, name)
    raise RequestError(argument, name, "expected a str, not an instance of a subclass")


def require_callable(argument: str, function: object) -> None:
    """Check that a function, which is foreign code, can be called."""
    if not callable(function):
        raise RequestError(argument, function, "expected a callable")


def require_mapping_view(argument: str, mapping: object) -> Mapping[Any, Any]:
    """Return a mapping without a copy, after checking its type."""
    if not isinstance(mapping, Mapping):
        raise RequestError(argument, mapping, "expected a mapping, for example a dict")
    return mapping


def require_instance(argument: str, value: object, kind: type[_T]) -> _T:
    """Return a value, after checking its type."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise RequestError(argument, value, f"expected {article} {kind.__name__}")
    return value


def require_instances(argument: str, items: object, kind: type[_T]) -> tuple[_T, ...]:
    """Return the items of an iterable, after checking their types."""
    return tuple(require_instance(argument, item, kind) for item in require_iterable(argument, items))


def require_iterable(argument: str, items: object) -> Iterable[Any]:
    """Return an iterable, after checking its type; a text is not one."""
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise RequestError(argument, items, "expected several items, for example a list")
    return items


def require_items(argument: str, items: object) -> tuple[Any, ...]:
    """Return the items of an iterable, which may be foreign code; a text is not one."""
    return tuple(require_iterable(argument, items))


def require_names(argument: str, names: object) -> tuple[str, ...]:
    """Return several names, after checking them."""
    return tuple(require_name(argument, name) for name in require_items(argument, names))


def require_mapping(argument: str, mapping: object) -> dict[Any, Any]:
    """Return a copy of a mapping, which may be foreign code."""
    return dict(require_mapping_view(argument, mapping))


def require_whole(argument: str, number: object, minimum: int = 0) -> int:
    """Return a whole number that is not below a minimum; a `bool` is none."""
    if type(number) is not int or number < minimum:
        raise RequestError(argument, number, f"expected an int >= {minimum}")
    return number


def require_seconds(argument: str, seconds: float) -> float:
    """Return a duration in seconds, after checking it; infinity stands for no end."""
    # A comparison with NaN is false. An integer has to fit a float.
    if type(seconds) in (int, float) and (0 <= seconds <= _MAX_SECONDS or seconds == inf):
        return seconds
    raise RequestError(argument, seconds, "expected a number of seconds, 0 or more")


def require_user(user: object) -> UserGroup:
    """Return a user, after checking its type."""
    if not isinstance(user, UserGroup):
        raise RequestError("user", user, "expected a UserGroup")
    return user


def require_nodes(nodes: object) -> dict[str, Resource] | None:
    """Return the free amounts of nodes as a new dictionary; None for None. An amount may be negative."""
    if nodes is None:
        return None
    checked = dict(require_mapping_view("nodes", nodes))
    for name, free in checked.items():
        require_exact_name("nodes", name)
        if type(free) is not Resource:
            raise RequestError("nodes", free, f"expected a Resource for node {name!r}")
    return checked


def require_vector(argument: str, usage: object, layout: Layout) -> RequestVector:
    """Return the amounts of a usage in a layout; it must be a `Resource` without negative amounts."""
    if type(usage) is not Resource:
        raise RequestError(argument, usage, "expected a Resource")
    known, vector = usage.compiled
    return vector if known is layout else layout.vector(usage)


def require_request(argument: str, usage: object, layout: Layout) -> RequestVector:
    """Return the amounts of a request in a layout, like `require_vector`, after a check of their names."""
    if type(usage) is not Resource:
        raise RequestError(argument, usage, "expected a Resource")
    known, vector = usage.compiled
    return vector if known is layout else layout.request_vector(usage)


def require_resource(argument: str, resource: object) -> Resource:
    """Return a resource vector without negative amounts."""
    if type(resource) is not Resource:
        raise RequestError(argument, resource, "expected a Resource")
    for name, amount in resource.amounts.items():
        if amount < 0:
            raise RequestError(argument, resource, f"the amount of {name} is negative")
    return resource


def require_amounts(argument: str, amounts: object) -> Resource | None:
    """Return amounts of a queue or node that fit into 64-bit integers; None for None and for an empty vector."""
    if amounts is None:
        return None
    resource = require_resource(argument, amounts)
    for name, amount in resource.amounts.items():
        if amount > MAX_QUANTITY:
            raise RequestError(argument, amounts, f"the amount of {name} is above what a signed 64-bit integer holds")
    return resource or None


def require_count(argument: str, count: object) -> int:
    """Return a maximum number of applications; 0 for None, which means no limit."""
    if count is None:
        return 0
    if type(count) is not int or not 0 <= count <= _MAX_COUNT:
        raise RequestError(argument, count, "expected a count of applications, 0 for no limit")
    return count


def require_group_limits(group_limits: object) -> bool:
    """Return whether a user with a limit of its own is exempt from group limits, given the option ``group_limits``."""
    if group_limits not in ("always", "unless-user-limited"):
        raise RequestError("group_limits", group_limits, "expected 'always' or 'unless-user-limited'")
    return group_limits == "unless-user-limited"
