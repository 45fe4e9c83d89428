"""The codec of errors: they are raised again with the same class, data and text."""

from __future__ import annotations

import inspect
import pickle
from typing import Any, Final, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw, msgpack

import ugm
from support.examples import examples
from support.loopback import remote
from support.wire_values import values_of
from ugm import (
    AllocationRequest,
    ConfigError,
    InvariantError,
    Partition,
    Problem,
    ReentrantCallError,
    RequestError,
    Resource,
    UgmError,
    UserGroup,
    UserInQueue,
)
from ugm.journal import JournalError, JournalHeldError
from ugm.journal import errors as journal_errors
from ugm.partition import AuditReport, Difference, RunningAllocation
from ugm.service import FencedError, ProtocolError, ServiceError
from ugm.service import errors as service_errors
from ugm.service.error_codec import decode_error, encode_error

#: Every documented class of errors.
KINDS: Final[list[type[UgmError]]] = sorted(
    {
        member
        for module in (ugm.errors, journal_errors, service_errors)
        for member in vars(module).values()
        if inspect.isclass(member) and issubclass(member, UgmError) and member is not UgmError
    },
    key=lambda kind: kind.__name__,
)


def transported(error: Exception) -> UgmError:
    """Return an error after a round trip."""
    return decode_error(Raw(encode_error(error)))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_same_class_and_data(kind: type[UgmError], data: st.DataObject) -> None:
    """An error comes back with its class, its arguments, its attributes and its text."""
    hints = {name: hint for name, hint in get_type_hints(kind.__init__).items() if name != "return"}
    make: Any = kind
    error = make(*(data.draw(values_of(hint)) for hint in hints.values()))
    found = transported(error)

    assert type(found) is kind
    assert (found.args, vars(found), str(found)) == (error.args, vars(error), str(error))
    assert repr(pickle.loads(pickle.dumps(found))) == repr(error)  # noqa: S301 - our own data


@pytest.mark.parametrize(
    "error",
    [
        ReentrantCallError(),
        InvariantError(("one", "two")),
        ConfigError((Problem("file", 1, 2, "path", "code", "message"),)),
        JournalError("/path", "it is full"),
        JournalHeldError("/path", None),
        FencedError("abc"),
        ProtocolError("malformed", "reason"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_examples(error: UgmError) -> None:
    """Errors of each package come back."""
    assert repr(transported(error)) == repr(error)
    assert type(transported(error)) is type(error)


USAGE: Final = Resource({"memory": 2**70, "a-b": -1})


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**80),
        1.5,
        "text\ud800",
        b"bytes",
        [1, [2, ("a",)]],
        {"a": {1: (None,)}, "b": USAGE},
        (),
        {3},
        USAGE,
        UserGroup("sue", ("dev",)),
        UserInQueue(UserGroup("sue"), "root.a", {"tag": "x"}, USAGE),
        AllocationRequest("a", "b", USAGE, priority=3),
        [RunningAllocation("a", "b", USAGE)],
        AuditReport((Difference(None, RunningAllocation("a", "b", USAGE), is_application_known=False),)),
    ],
    ids=repr,
)
def test_values_of_requests(value: object) -> None:
    """The refused value of a RequestError comes back if it can be an argument."""
    found = transported(RequestError("argument", value, "reason"))

    assert isinstance(found, RequestError)
    assert found.value == value
    assert repr(found.value) == repr(value)


def nested(depth: int) -> list[Any]:
    """Return a list in a list and so on."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [object, lambda: None, [object()], "x" * 5000, list(range(5000)), nested(5000), Partition()], ids=type
)
def test_other_values_become_texts(value: object) -> None:
    """A refused value of another class, or a large one, comes back as the text of the message."""
    error = RequestError("argument", value, "reason")
    found = transported(error)

    assert isinstance(found, RequestError)
    assert isinstance(found.value, str)
    assert len(encode_error(error)) < 5000
    assert found.value[:20] in str(error)


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyError("x"), UgmError("new"), RuntimeError("y" * 5000)])
def test_undocumented_errors(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Any other exception becomes a `ServiceError` with its class and the beginning of its text, and is logged."""
    found = transported(error)

    assert type(found) is ServiceError
    assert found.reason.startswith(f"{type(error).__name__}: ")
    assert len(found.reason) <= 1000
    assert caplog.records


def test_subclasses_are_undocumented() -> None:
    """A subclass is not taken for its documented base, because its data differ."""

    class OwnError(RequestError):
        def __init__(self) -> None:
            super().__init__("a", 1, "b")

    assert type(transported(OwnError())) is ServiceError


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgpack.encode("RequestError"),
        msgpack.encode(["RequestError", []]),
        msgpack.encode(["RequestError", ["a", ["Resource", 3], "b"]]),
        msgpack.encode(["RequestError", ["a", ["Unknown", 3], "b"]]),
        msgpack.encode(["RequestError", ["a", [1], "b"]]),
        msgpack.encode(["RequestError", [1, 2, 3]]),
        msgpack.encode(["InvariantError", [[1]]]),
    ],
    ids=repr,
)
def test_malformed(data: bytes) -> None:
    """Other data are an error of the protocol."""
    with pytest.raises(ProtocolError):
        decode_error(data)


def test_unknown_class() -> None:
    """An error of a class that the client does not know is a `ServiceError` with its name."""
    found = decode_error(msgpack.encode(["NewError", [1]]))

    assert repr(found) == "ServiceError('the leader raised an error of an unknown class, NewError')"


def test_error_of_an_operation() -> None:
    """A client gets the error of the engine with its text."""
    with pytest.raises(RequestError, match="application_id 'nobody': there is no such application"):
        remote(Partition()).allocate("a", "nobody", Resource())
