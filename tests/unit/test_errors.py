"""The errors: their data, their texts, and that they survive pickling."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from inspect import isclass
from typing import Any, Final, NoReturn, TypeAlias

import pytest

from ugm import (
    ConfigError,
    InvariantError,
    NotTrackedError,
    Problem,
    QuantityError,
    ReentrantCallError,
    ReleaseError,
    RequestError,
    UgmError,
    errors,
    parse_config,
)
from ugm.config import dump_config, export_config, review_config, review_file
from ugm.elastic import GroupError, Refusal
from ugm.errors import OutageError

FIRST = Problem("queues.yaml", 3, 5, "partitions[0].queues[0]", "queue-name-missing", "A queue has no name.")
SECOND = Problem("queues.yaml", 0, 0, "", "file-unreadable", "The file cannot be read.")

#: A value of any type.
Anything: TypeAlias = Any

#: Every error with its text.
ERRORS: list[tuple[UgmError, str]] = [
    (QuantityError("1K", "unknown suffix 'K'"), "'1K' is not a quantity: unknown suffix 'K'"),
    (RequestError("user", None, "expected a UserGroup"), "user None: expected a UserGroup"),
    (
        NotTrackedError("app-1", "root.a", "sue", "the user is not tracked"),
        "application 'app-1' of user 'sue' in 'root.a': the user is not tracked",
    ),
    (
        ReleaseError("app-1", "root.a", "memory", 3, 4),
        "application 'app-1' in 'root.a' holds 3 memory and cannot give back 4",
    ),
    (
        ReleaseError("app-1", "root.a", "memory", 3, 1),
        "application 'app-1' in 'root.a' holds 3 memory and cannot end with 2 left",
    ),
    (ConfigError((FIRST, SECOND)), f"{FIRST}\n{SECOND}"),
    (
        ReentrantCallError(),
        "called in the middle of another operation of the same thread, by a signal handler, finalizer or model",
    ),
    (
        GroupError((Refusal("a", "cycle", "below itself"), Refusal("b", "not_found", "gone"))),
        "elastic group 'a': below itself [cycle]\nelastic group 'b': gone [not_found]",
    ),
    (InvariantError(("one is wrong", "two is wrong")), "one is wrong\ntwo is wrong"),
]

each_error = pytest.mark.parametrize(
    ("error", "text"), [pytest.param(*pair, id=f"{type(pair[0]).__name__}-{at}") for at, pair in enumerate(ERRORS)]
)


@each_error
def test_text(error: UgmError, text: str) -> None:
    """An error says what is wrong, with whom and where."""
    assert str(error) == text


@each_error
def test_pickle_and_copy(error: UgmError, text: str) -> None:
    """An error survives pickling and copying with all its data."""
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - made here
        assert type(same) is type(error)
        assert vars(same) == vars(error)
        assert str(same) == text


def test_every_error_is_here() -> None:
    """No error is left out of these tests."""
    members = [getattr(errors, name) for name in errors.__all__]
    kinds = {member for member in members if isclass(member) and issubclass(member, UgmError)}

    assert {type(error) for error, _ in ERRORS} == kinds - {UgmError, OutageError} | {GroupError}


def test_kinds() -> None:
    """Errors are also what a caller would expect of Python: values, lookups."""
    for kind in (QuantityError, RequestError, ReleaseError, ConfigError):
        assert issubclass(kind, ValueError)
    assert issubclass(NotTrackedError, LookupError)
    assert not issubclass(NotTrackedError, KeyError)


def test_problem() -> None:
    """A problem reads like the message of a compiler; one without a place in the configuration leaves it out."""
    assert str(FIRST) == "queues.yaml:3:5: partitions[0].queues[0]: A queue has no name. [queue-name-missing]"
    assert str(SECOND) == "queues.yaml: The file cannot be read. [file-unreadable]"


class Broken:
    """A value without a representation."""

    def __repr__(self) -> str:
        raise RuntimeError("no representation")


class BrokenText(str):
    """A text whose methods fail."""

    __slots__ = ()

    def __repr__(self) -> NoReturn:
        raise RuntimeError("no representation")

    __str__ = __len__ = __repr__


class BrokenNumber(int):
    """A number whose methods fail."""

    def __repr__(self) -> NoReturn:
        raise RuntimeError("no representation")

    __str__ = bit_length = __repr__


HUGE: Final = 10**5000
ODD: Final[list[Anything]] = [HUGE, Fraction(HUGE, 3), [HUGE], Broken(), (Broken(),), BrokenText("x"), BrokenNumber(5)]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_configurations_of_other_types(value: Anything) -> None:
    """A wrong argument is an error of ugm with a text, also if the argument is of a foreign class."""
    [problem] = review_file(value).problems
    assert problem.code == "file-unreadable"
    assert str(problem)

    for call in (
        lambda: parse_config(value),
        lambda: parse_config("x", file=value),
        lambda: review_config("x", known=value),
        lambda: export_config(value),
        lambda: dump_config(value),
    ):
        with pytest.raises(UgmError) as caught:
            call()
        assert str(caught.value)
        assert repr(caught.value)
