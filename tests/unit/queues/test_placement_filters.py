"""Filters of placement rules: whom they name, and what follows."""

from __future__ import annotations

import pytest

from support.tracking_fixtures import Wrong
from ugm import RequestError, UserGroup
from ugm.config import FilterConfig
from ugm.queues import Filter

EVERYBODY = [UserGroup("ana", ("dev",)), UserGroup("bob", ("ops", "test")), UserGroup("sue")]


def allowed(kind: str = "", users: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> list[str]:
    """Return the names of those whom a filter allows."""
    found = Filter.compile(FilterConfig(type=kind, users=users, groups=groups))
    return [user.name for user in EVERYBODY if found is None or found.allows(user)]


@pytest.mark.parametrize(
    ("pattern", "named"),
    [("^a", ["ana"]), ("[ab]", ["ana", "bob"]), ("u.*", ["sue"]), ("b$", ["bob"]), ("(?i)^SUE$", ["sue"]), ("^n", [])],
)
def test_patterns(pattern: str, named: list[str]) -> None:
    """One name with a sign of a regular expression is one, and is searched for anywhere in the name."""
    assert allowed("allow", users=(pattern,)) == named


@pytest.mark.parametrize(
    "pattern",
    ["(" * 500 + ")" * 500, "(a", "a)", "*a", "a**", "a{3,2}", r"\pL+", "(?=a", "a(?i)b", "[[:alpha:]]", "[a&&b]"],
)
def test_invalid_patterns(pattern: str) -> None:
    """A pattern that cannot be compiled is refused."""
    with pytest.raises(RequestError, match="invalid regular expression: "):
        Filter.compile(FilterConfig(users=(pattern,)))


def test_long_patterns() -> None:
    """A pattern has at most 1,000 characters."""
    assert Filter.compile(FilterConfig(users=("a" * 999 + "*",))) is not None
    with pytest.raises(RequestError) as caught:
        Filter.compile(FilterConfig(users=("a" * 1000 + "*",)))

    assert caught.value.reason == "it has 1001 characters (allowed: up to 1000)"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"type": "denied"}, "filter.type 'denied': expected 'allow' or 'deny'"),
        ({"users": ("[a",)}, "filter.users '[a': invalid regular expression: unterminated character set at position 0"),
        (
            {"users": ("a{" + "9" * 20 + "}",)},
            f"filter.users 'a{{{'9' * 20}}}': invalid regular expression: the repetition number is too large",
        ),
        ({"groups": ("x", "y"), "users": "ana"}, "users 'ana': expected a sequence"),
        ({"users": (7,)}, "users 7: expected a text"),
        ({"groups": ("a", "x" * 257)}, f"filter.groups {'x' * 257!r}: a name has 1 to 256 characters"),
    ],
)
def test_wrong_filters(spec: dict[str, Wrong], message: str) -> None:
    """A filter of unknown type, a broken pattern, and one text in place of several names are refused."""
    with pytest.raises(RequestError) as caught:
        Filter.compile(FilterConfig(**spec))

    assert str(caught.value) == message
