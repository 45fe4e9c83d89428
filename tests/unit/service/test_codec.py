"""The codec of the service: every value comes back as it was sent, and everything else is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw, msgpack

from support.examples import examples
from support.partition_fixtures import memory
from support.wire_forms import RECORDED, current_forms, hints_of, parameters_of
from support.wire_values import values_of
from ugm import (
    AllocationRequest,
    Decision,
    Partition,
    RequestError,
    Resource,
    TrackingType,
    UgmError,
    UserGroup,
    Violation,
)
from ugm.decision import ALLOWED, Explanation
from ugm.partition import AllocationSpec, RunningAllocation
from ugm.partition.compiled_config import CompiledConfig
from ugm.quotatree import SoftQuotaViolation
from ugm.quotatree.setup_violations import InMaintenance
from ugm.service import ProtocolError, ServiceError
from ugm.service.codec import Codec, Shape, Shapes
from ugm.service.operations import ERROR, OPERATIONS, operations_of
from ugm.service.shapes import RESULTS
from ugm.service.wire import OperationRequest
from ugm.tracking import EffectiveLimit

#: The number of values for each of the about 60 operations.
some: Final = settings(max_examples=examples(10))

#: The classes of the items of an argument, by operation.
ITEMS: Final[Mapping[str, Callable[..., object]]] = {"allocate_all": AllocationRequest, "audit": RunningAllocation}


def arguments_of(name: str) -> st.SearchStrategy[tuple[Any, ...]]:
    """Draw arguments of an operation; those with a default may be left out at the end."""
    hints, listed = hints_of(name), parameters_of(name)
    required = sum(1 for one in listed if one.default is one.empty)
    if hints.get("allocation_id") == str | AllocationRequest:
        # The client sends the parts of a request.
        hints, required = {**hints, "allocation_id": str}, len(("allocation_id", "application_id", "usage"))
    drawn = [values_of(hints[one.name]) for one in listed]
    return st.integers(required, len(drawn)).flatmap(lambda count: st.tuples(*drawn[:count]))


def comparable(value: object) -> object:
    """Return a value, or the content of compiled configurations in it."""
    if isinstance(value, CompiledConfig):
        return value.config, value.version
    return tuple(map(comparable, value)) if type(value) is tuple else value


def assert_same(found: object, expected: object) -> None:
    """Expect an equal value with the same classes."""
    assert comparable(found) == comparable(expected)
    assert repr(comparable(found)) == repr(comparable(expected))


@pytest.mark.parametrize("name", OPERATIONS)
@some
@given(data=st.data())
def test_arguments(name: str, data: st.DataObject) -> None:
    """Arguments come back as they were sent; those that were left out come back as the defaults, or not at all."""
    operation = OPERATIONS[name]
    sent = data.draw(arguments_of(name))
    received = operation.decode_arguments(Raw(operation.encode_arguments(sent)))

    if name == "apply":
        found, plan = received[0], sent[0]
        assert [*received[1:]] == [*(sent[1:] or (False,))]
        assert (found.compiled.config, found.compiled.version) == (plan.compiled.config, plan.compiled.version)
        assert found.base.version == plan.base.version
        return
    defaults = [one.default for one in parameters_of(name)]
    expected = [*sent, *defaults[len(sent) :]]
    if name == "plan_preemption":
        expected[5] = tuple(AllocationRequest(*one) for one in expected[5])
    if name == "admit":
        expected[3] = tuple(AllocationSpec(*one) for one in expected[3])
    if name == "synchronize":
        expected[0] = tuple(
            one._replace(allocations=tuple(AllocationSpec(*each) for each in one.allocations)) for one in expected[0]
        )
    kind = ITEMS.get(name)
    if kind is not None:
        # A tuple of the first fields stands for an object.
        expected = [tuple(kind(*item) for item in expected[0])]
    assert_same([*received, *defaults[len(received) :]], expected)


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - {"plan_input"}))
@some
@given(data=st.data())
def test_results(name: str, data: st.DataObject) -> None:
    """Results come back as they were sent."""
    operation = OPERATIONS[name]
    result = data.draw(values_of(hints_of(name)["return"]))

    assert_same(operation.decode_result(Raw(operation.encode_result(result))), result)


def test_granted_is_one_byte() -> None:
    """A grant is one byte on the wire, and one object at the client."""
    operation = OPERATIONS["allocate"]

    assert len(operation.encode_result(ALLOWED)) == 1
    assert operation.encode_result(Decision()) == operation.encode_result(ALLOWED)
    assert operation.decode_result(operation.encode_result(ALLOWED)) is ALLOWED


def test_equal_resources_are_one_object() -> None:
    """The leader gets one object for equal usages, because the engine caches values in it."""
    operation = OPERATIONS["allocate"]
    received = [
        operation.decode_arguments(operation.encode_arguments((name, "app", Resource(memory=3, vcore=1))))
        for name in ("a", "b")
    ]

    assert received[0][2] is received[1][2]


def test_kinds_are_enumerations() -> None:
    """The kind of a limit is a `TrackingType` where it is one."""
    violation = Violation(TrackingType.USER, "sue", "root", "sue", None, 1, 1, 1)
    limit = EffectiveLimit(TrackingType.QUEUE, "root", "root", "", "root", None, 0, Resource(), 0)
    codec = Codec(RESULTS.of(tuple[Violation, EffectiveLimit]))
    one, other = codec.decode(codec.encode((violation, limit)))

    assert type(one.kind) is type(other.kind) is TrackingType


def test_violations_of_models() -> None:
    """A violation of a class of a quota model keeps its text, and whether waiting can help, also as a copy."""
    decision = Decision(
        (
            InMaintenance.of("quota tree", "T"),
            SoftQuotaViolation("quota node", "a\ud800", "", "", "cpu", 2, 1, 5),
            Violation(TrackingType.USER, "sue", "root", "sue", "cpu", 2, 1, 5),
        )
    )
    explanation = Explanation(decision, ((), (), ()))
    for name, sent in (("allocate", decision), ("resize", decision), ("explain", explanation)):
        received = OPERATIONS[name].decode_result(OPERATIONS[name].encode_result(sent))

        assert received == sent
        for found in (received, copy.deepcopy(received), pickle.loads(pickle.dumps(received))):  # noqa: S301 - our own
            assert str(found) == str(sent)
            assert found.to_dict() == sent.to_dict()


# Wrong data


@cache
def plain_values() -> st.SearchStrategy[Any]:
    """Draw values of MessagePack."""
    scalars = (
        st.none()
        | st.booleans()
        | st.integers(-5, 2**64 - 1)
        | st.text(max_size=3)
        | st.binary(max_size=3)
        | st.floats()
    )
    return st.recursive(
        scalars, lambda items: st.lists(items, max_size=4) | st.dictionaries(st.text(max_size=3), items)
    )


@pytest.mark.parametrize("name", OPERATIONS)
@some
@given(data=st.data())
def test_wrong_arguments(name: str, data: st.DataObject) -> None:
    """Whatever is decoded has the declared types, so that it can be encoded again; everything else is an error."""
    operation = OPERATIONS[name]
    sent = data.draw(
        st.binary(max_size=20)
        | plain_values().map(msgpack.encode)
        | st.lists(plain_values(), max_size=6).map(msgpack.encode)
        | arguments_of(name).map(operation.encode_arguments).flatmap(damaged)
    )
    try:
        received = operation.decode_arguments(sent)
    except (ProtocolError, RequestError):
        return
    operation.encode_arguments(received)


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """Draw data with one other byte, or without its end."""
    places = st.integers(0, len(data) - 1)
    changed = st.builds(lambda at, byte: data[:at] + bytes([byte]) + data[at + 1 :], places, st.integers(0, 255))
    return changed | places.map(lambda at: data[:at])


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\xc1",
        b"\x93\xa1a\xa1b",
        b"\x91\xa1\xff",
        b"\x91" * 100_000,
        msgpack.encode(("a", "b", {})) + b"\xc0",
        msgpack.encode(()),
        msgpack.encode(("a", "b", {}, False, 0, True, 1, 1)),
        msgpack.encode(("a", "b", {}, False, 0, True, "1")),
        msgpack.encode(("a", "b", {"memory": 1.5})),
        msgpack.encode(("a", "b", {"memory": True})),
        msgpack.encode(("a", "b", {1: 1})),
        msgpack.encode(("a", "b", {"memory": msgpack.Ext(7, b"")})),
        msgpack.encode(("a", "b", {"memory": msgpack.Ext(2, b"a")})),
        msgpack.encode(("a", "b", {(1,): 1})),
        msgpack.encode(("a", "b", msgpack.Ext(3, b"\x93\x01\x02\x03"))),
        msgpack.encode(("a", "b", msgpack.Ext(3, b"\x92\x90\x02"))),
        msgpack.encode(("a", msgpack.Ext(2, b"\xff"), {})),
        msgpack.encode((None, "b", {})),
        msgpack.encode(("a", "b", {}, 1)),
        msgpack.encode(("a", "b", {}, False, "1")),
    ],
    ids=repr,
)
def test_malformed_allocation(sent: bytes) -> None:
    """Arguments that are no MessagePack, too few, too many or of wrong types do not reach the engine."""
    operation = OPERATIONS["allocate"]
    with pytest.raises(ProtocolError, match="the arguments of allocate are invalid: "):
        operation.decode_arguments(sent)

    partition = Partition()
    status, answer = operation.execute(partition, sent)
    assert status == ERROR
    assert isinstance(operation.decode_error(answer), ProtocolError)
    assert partition.allocation_ids() == ()


@pytest.mark.parametrize(
    ("name", "sent", "text"),
    [
        ("allocate", ("a", "b", {"": 1}), "resource '': a resource name is a text of 1 to 256 characters"),
        ("allocate", ("a", "b", {"m" * 257: 1}), "a resource name is a text of 1 to 256 characters"),
        ("submit", ("a", ("u" * 257, ())), "a name is a text of 1 to 256 characters"),
        ("submit", ("a", ("sue", ("",))), "a name is a text of 1 to 256 characters"),
        ("submit", ("a", ("*", ())), "the wildcard"),
        ("check", ((("sue", ("*",)), "root", None, None), {}), "the wildcard"),
        ("configure", (b"[",), "it is not the stored form of a configuration"),
        ("configure", (b"\xff",), "it is not the stored form of a configuration"),
        ("configure", (b"null",), "expected a configuration"),
        ("configure", (b'{"color": 1}',), "it is not the stored form of a configuration"),
        ("configure", (b'{"name": 1}',), "expected a text"),
        ("configure", (b"[" * 100_000,), "it is not the stored form of a configuration"),
        ("apply", ((b"1", "v"),), "it is not the stored form of a configuration"),
    ],
)
def test_invalid_parts(name: str, sent: tuple[Any, ...], text: str) -> None:
    """A part that has the right type and a wrong value is an error of the request."""
    with pytest.raises(UgmError) as caught:
        OPERATIONS[name].decode_arguments(msgpack.encode(sent))
    assert text in str(caught.value)


def test_oversized_names_reach_only_the_checks_of_the_engine() -> None:
    """The engine refuses ids that are too long, and the error arrives with a shortened value."""
    operation, name = OPERATIONS["release"], "x" * 100_000
    status, answer = operation.execute(Partition(), operation.encode_arguments((name,)))
    error = operation.decode_error(answer)

    assert status == ERROR
    assert len(answer) < 2000
    assert isinstance(error, RequestError)
    assert error.argument == "allocation_id"


def test_unusual_values_are_bounded() -> None:
    """Values that MessagePack cannot represent are refused in large arguments, because they need much memory."""
    operation = OPERATIONS["applications_by_id"]
    few, many = ("\ud800", *("x" * 100 for _ in range(10))), ("\ud800", *("x" * 100 for _ in range(20_000)))

    assert operation.decode_arguments(operation.encode_arguments((few,))) == (few,)
    with pytest.raises(RequestError, match="they are too large"):
        operation.encode_arguments((many,))
    assert operation.decode_arguments(operation.encode_arguments((many[1:],))) == (many[1:],)


def test_recorded_forms() -> None:
    """The form of an operation on the wire is the recorded one.

    If it has to change, raise `ugm.service.wire.VERSION` unless the operation is new, and record the forms again.
    """
    assert RECORDED.read_text(encoding="utf-8") == current_forms()


def test_unknown_operation() -> None:
    """A number without an operation is refused."""
    for number in (-1, 99, 2**40):
        with pytest.raises(ProtocolError, match=f"there is no operation {number}"):
            operations_of([OperationRequest(number, Raw(b""))])


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x92\x01", msgpack.encode([1]), msgpack.encode("text")])
def test_malformed_result(data: bytes) -> None:
    """A client does not return results of a wrong type."""
    for name in ("allocate", "queue", "release", "snapshot", "config"):
        with pytest.raises(ProtocolError):
            OPERATIONS[name].decode_result(data)


def test_derivation_refuses_what_it_does_not_know() -> None:
    """An annotation without a form on the wire is found when the table is made."""
    shapes = Shapes({}, {})
    for hint in (int | Fraction, dict[int, str], complex, UserGroup):
        with pytest.raises(TypeError, match="cannot be sent"):
            shapes.of(hint)


def test_plain_annotations_are_encoded_directly() -> None:
    """Values that are plain already are not converted."""
    assert Shapes({}, {}).of(str) == Shape(str)
    assert Codec(Shape(int)).decode(msgpack.encode(3)) == 3


def test_unexpected_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An exception that is not documented becomes a `ServiceError`, and is logged with its traceback."""

    class Broken(Partition):
        def verify(self) -> None:
            raise ZeroDivisionError("by zero")

    status, answer = OPERATIONS["verify"].execute(Broken(), OPERATIONS["verify"].encode_arguments(()))
    error = OPERATIONS["verify"].decode_error(answer)

    assert (status, type(error)) == (ERROR, ServiceError)
    assert str(error) == "the service failed: ZeroDivisionError: by zero"
    assert caplog.records[0].exc_info


def test_memory_of_caches_is_bounded() -> None:
    """Large vectors of resources are not cached."""
    operation = OPERATIONS["allocate"]
    large = Resource({f"resource-{number}": number for number in range(100)})
    received = [operation.decode_arguments(operation.encode_arguments(("a", "b", large)))[2] for _ in range(2)]

    assert received[0] == large
    assert received[0] is not received[1]
    assert memory(1) == operation.decode_arguments(operation.encode_arguments(("a", "b", memory(1))))[2]


@pytest.mark.parametrize("count", [999, 1000, 1001, 1015, 1016, 2000, 70_000])
@pytest.mark.parametrize("last", ["z", "\ud800"])
def test_long_results(count: int, last: str) -> None:
    """A long result is encoded in chunks, and its form is that of a short one."""
    names, operation = (*map(str, range(count - 1)), last), OPERATIONS["allocation_ids"]
    data = operation.encode_result(names)

    assert operation.decode_result(data) == names
    if count <= 1000:
        assert len(data) == len(msgpack.encode(names[:-1])) + (2 if last == "z" else 6)


def test_structures_of_msgspec_stay_inside() -> None:
    """Decoded arguments are values of ugm, and no structures of the library."""
    received = OPERATIONS["allocate"].decode_arguments(msgpack.encode(("a", "b", {"memory": 1}, True, 3)))

    assert received == ("a", "b", memory(1), True, 3, True)
    assert not any(isinstance(value, (msgspec.Struct, Raw)) for value in received)
