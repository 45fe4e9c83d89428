"""Users with their groups, and queue paths."""

from __future__ import annotations

import copy
import pickle

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


@pytest.mark.parametrize("name", ["", None, 7, b"sue"])
def test_user_has_a_name(name: Wrong) -> None:
    """A user without a name is refused."""
    with pytest.raises(RequestError) as caught:
        UserGroup(name)

    assert str(caught.value) == f"user {name!r}: a name is a text of 1 to 256 characters"


@pytest.mark.parametrize("group", ["", None, 7])
def test_groups_have_names(group: Wrong) -> None:
    """A group without a name is refused."""
    with pytest.raises(RequestError) as caught:
        UserGroup("sue", ("dev", group))

    assert str(caught.value) == f"group {group!r}: a name is a text of 1 to 256 characters"


def test_wildcard_is_nobody() -> None:
    """The wildcard stands in limits and is no name of a user or group."""
    for kind, arguments in (("user", ("*",)), ("group", ("sue", ("*",)))):
        with pytest.raises(RequestError) as caught:
            UserGroup(*arguments)
        assert str(caught.value) == f"{kind} '*': the wildcard '*' is not a valid name (allowed: only in limits)"


@pytest.mark.parametrize("groups", ["dev", None, 7])
def test_groups_are_several(groups: Wrong) -> None:
    """A text in place of several groups is refused, not taken letter by letter; so is what is not several."""
    with pytest.raises(RequestError) as caught:
        UserGroup("sue", groups)

    assert str(caught.value) == f"groups {groups!r}: expected a collection of names"


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


@pytest.mark.parametrize("path", ["", None, 3])
def test_path_is_a_text(path: Wrong) -> None:
    """A missing path is refused."""
    with pytest.raises(RequestError) as caught:
        canonical_path(path)

    assert str(caught.value) == f"queue_path {path!r}: expected a non-empty string"


@pytest.mark.parametrize(
    "path", ["sales", "root.", ".root", "root..a", "root.a b", "rooted", "root.a\n", "root\n", "root.\x00", " root"]
)
def test_path_is_well_formed(path: str) -> None:
    """A path is the root, or names below it separated by single dots."""
    with pytest.raises(RequestError) as caught:
        canonical_path(path)

    assert str(caught.value) == f"queue_path {path!r}: expected 'root', or names below it separated by single dots"


@given(queue_paths())
def test_canonical_path_is_idempotent(path: str) -> None:
    """A canonical path is its own canonical path."""
    assert canonical_path(canonical_path(path)) == canonical_path(path)


def test_ancestors() -> None:
    """The ancestors of a queue begin with the queue and end with the root."""
    assert list(ancestors("root.a.b")) == ["root.a.b", "root.a", "root"]
    assert list(ancestors("root")) == ["root"]
