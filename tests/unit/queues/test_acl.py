"""Access control lists: their text, whom they allow, and how those of a path count together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ugm import RequestError, UserGroup
from ugm.queues import Acl, path_allows

ANA = UserGroup("ana")
BOB = UserGroup("bob", ("dev", "test"))
SUE = UserGroup("sue", ("ana",))


def allowed(text: str) -> list[str]:
    """Return the names of those whom a list allows."""
    acl = Acl.parse(text)
    assert acl is not None
    return [user.name for user in (ANA, BOB, SUE) if acl.allows(user)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ana", ["ana"]),
        ("ana,bob", ["ana", "bob"]),
        ("ana,,bob,", ["ana", "bob"]),
        ("ana ", ["ana"]),
        (" ana", ["sue"]),
        ("ana dev", ["ana", "bob"]),
        ("ana other,test", ["ana", "bob"]),
        ("ana  dev", ["ana", "bob"]),
        ("ANA Dev", []),
        ("ana,* ", ["ana"]),
    ],
)
def test_lists(text: str, expected: list[str]) -> None:
    """Users come before the blank and groups after it; names are compared as they are written."""
    assert allowed(text) == expected


REASON = "expected users, one space, and groups; names are separated by commas without spaces"


@pytest.mark.parametrize("text", ["a b c", " a b", "ana, bob, sue"])
def test_more_parts_are_refused(text: str) -> None:
    """A list with blanks between its names is refused: part of it would be taken for groups."""
    with pytest.raises(RequestError) as caught:
        Acl.parse(text)

    assert str(caught.value) == f"acl {text!r}: {REASON}"


@given(st.text(alphabet="ab,* ", max_size=12))
def test_text_of_a_list_reads_back(text: str) -> None:
    """A list that can be read is written as a text that means the same."""
    try:
        acl = Acl.parse(text)
    except RequestError:
        return

    assert acl is None or Acl.parse(str(acl)) == acl


def test_one_grant_is_enough() -> None:
    """A list anywhere on the path that allows a user lets the user in, whatever the others say."""
    acls = [Acl.parse(" "), None, Acl.parse("ana")]

    assert path_allows(acls, ANA)
    assert not path_allows(acls, BOB)
