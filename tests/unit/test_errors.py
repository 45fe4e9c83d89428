"""The errors: their data, their texts, and that they survive pickling."""

from __future__ import annotations

import copy
import pickle

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
)
from ugm.errors import OutageError

FIRST = Problem("queues.yaml", 3, 5, "partitions[0].queues[0]", "queue-name-missing", "A queue has no name.")
SECOND = Problem("queues.yaml", 0, 0, "", "file-unreadable", "The file cannot be read.")

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
    (
        ConfigError((FIRST, SECOND)),
        f"{FIRST}\n{SECOND}",
    ),
    (
        ReentrantCallError(),
        "called in the middle of another operation of the same thread, by a signal handler, finalizer or model",
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
    kinds = {getattr(errors, name) for name in errors.__all__}

    assert {type(error) for error, _ in ERRORS} == kinds - {UgmError, OutageError, Problem}


def test_kinds() -> None:
    """Errors are also what a caller would expect of Python: values, lookups."""
    for kind in (QuantityError, RequestError, ReleaseError, ConfigError):
        assert issubclass(kind, ValueError)
    assert issubclass(NotTrackedError, LookupError)
    assert not issubclass(NotTrackedError, KeyError)


def test_problem() -> None:
    """A problem reads like the message of a compiler; one without a place in the configuration leaves it out."""
    assert str(FIRST) == "queues.yaml:3:5: partitions[0].queues[0]: A queue has no name. [queue-name-missing]"
    assert str(SECOND) == "queues.yaml:0:0: The file cannot be read. [file-unreadable]"


def test_problems_sort_by_place() -> None:
    """Sorted problems read like the file."""
    assert sorted([FIRST, SECOND]) == [SECOND, FIRST]
