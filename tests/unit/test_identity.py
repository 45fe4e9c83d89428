"""Users with their groups, and queue paths."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given

from support.tracking_fixtures import Wrong
from ugm import RequestError, TrackingType, UserGroup
from ugm.identity import ancestors, canonical_path
from ugm.testing import queue_paths


def test_groups_become_a_tuple() -> None:
    """Groups may be given as any several names; without groups there are none."""
    assert UserGroup("sue", ["dev", "test"]).groups == ("dev", "test")
    assert UserGroup("sue").groups == ()


def test_user_is_a_value() -> None:
    """Users with the same name and groups are equal, have one hash, and cannot be changed."""
    sue = UserGroup("sue", ("dev",))

    assert {sue, UserGroup("sue", ("dev",)), UserGroup("sue")} == {sue, UserGroup("sue")}
    assert sue != ("sue", ("dev",))
    with pytest.raises(AttributeError) as caught:
        sue.name = "bob"
    assert str(caught.value) == "a UserGroup is immutable: 'name' cannot be set"
    with pytest.raises(AttributeError) as caught:
        del sue.groups
    assert str(caught.value) == "a UserGroup is immutable: 'groups' cannot be deleted"


def test_user_survives_pickle_and_copy() -> None:
    """Users can be sent to other processes."""
    sue = UserGroup("sue", ("dev",))

    assert pickle.loads(pickle.dumps(sue)) == copy.deepcopy(sue) == sue  # noqa: S301 - made here


NO_NAME = "a name is a text of 1 to 256 characters"
WILDCARD = "the wildcard '*' is not a valid name (allowed: only in limits)"
PATH = "expected 'root', or names below it separated by single dots"
BELOW = ("s" * 256, "root.", ".root", "root..a", "root.a b", "rooted", "root.a\n", "root\n", "root.\x00", " root")


@pytest.mark.parametrize(
    ("call", "argument", "reason", "values"),
    [
        (UserGroup, "user", NO_NAME, ["", None, 7, b"sue"]),
        (UserGroup, "user", WILDCARD, ["*"]),
        (lambda group: UserGroup("sue", ("dev", group)), "group", NO_NAME, ["", None, 7]),
        (lambda group: UserGroup("sue", (group,)), "group", WILDCARD, ["*"]),
        # A text is not taken letter by letter.
        (lambda groups: UserGroup("sue", groups), "groups", "expected a collection of names", ["dev", None, 7]),
        (canonical_path, "queue_path", "expected a non-empty string", ["", None, 3]),
        (canonical_path, "queue_path", PATH, BELOW),
    ],
)
def test_invalid_names(call: Callable[[Wrong], object], argument: str, reason: str, values: Sequence[Wrong]) -> None:
    """Names of users and groups, and paths of queues, are refused with the reason."""
    for value in values:
        with pytest.raises(RequestError) as caught:
            call(value)
        assert str(caught.value) == f"{argument} {value!r}: {reason}"


def test_tracking_types_are_words() -> None:
    """The types write as the words that people use."""
    assert [str(kind) for kind in TrackingType] == ["user", "group", "queue"]


@pytest.mark.parametrize(
    ("path", "canonical"),
    [("root", "root"), ("ROOT", "root"), ("root.Sales.EMEA", "root.sales.emea"), ("root.a_b-c@d", "root.a_b-c@d")],
)
def test_canonical_path(path: str, canonical: str) -> None:
    """A queue has one name in any case."""
    assert canonical_path(path) == canonical


@given(queue_paths())
def test_canonical_path_is_idempotent(path: str) -> None:
    """A canonical path is its own canonical path."""
    assert canonical_path(canonical_path(path)) == canonical_path(path)


def test_ancestors() -> None:
    """The ancestors of a queue begin with the queue and end with the root."""
    assert list(ancestors("root.a.b")) == ["root.a.b", "root.a", "root"]
    assert list(ancestors("root")) == ["root"]
