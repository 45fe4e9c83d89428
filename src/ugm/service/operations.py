"""The table of operations that a client can call: their numbers, kinds and codecs.

Everything is derived from `AbstractPartition` and `AbstractSessions`: the parameters and the result of an operation are
those of the method. A client encodes the arguments and decodes the result. The leader decodes the arguments, calls the
method and encodes its result.

The arguments are a tuple in the order of the parameters. Arguments at the end may be left out if they have the default.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NoReturn, final, get_type_hints

import msgspec

from ugm._json_values import JsonMapping
from ugm.decision import Decision
from ugm.errors import RequestError, UgmError
from ugm.partition import AbstractPartition
from ugm.partition.audit import AuditReport, Difference
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.snapshot_parts import SnapshotParts
from ugm.service.codec import Codec, Convert, Plain, Shape, encode_plain
from ugm.service.error_codec import decode_error, encode_error
from ugm.service.errors import ProtocolError
from ugm.service.fast_codecs import (
    Arguments,
    decode_allocation_request,
    decode_decision,
    decode_id,
    decode_subject_and_usage,
    decode_truth,
    encode_allocation_request,
    encode_decision,
    encode_id,
    encode_subject_and_usage,
    encode_truth,
)
from ugm.service.listing import ListingPartition
from ugm.service.session_interface import AbstractSessions
from ugm.service.shapes import ARGUMENTS, RESULTS
from ugm.service.wire import OperationRequest

__all__ = ["DIRECT_OPERATIONS", "ERROR", "OPERATIONS", "RESULT", "Arguments", "Kind", "Operation", "operations_of"]

#: The status of an answer with a result, and of one with an error.
RESULT: Final = 0
ERROR: Final = 1

#: The largest arguments with values that MessagePack cannot represent, in bytes: decoding them needs 80 times as much
#: memory.
_LARGEST_UNUSUAL: Final = 2**20

_MODULES: Final = re.compile(r"\b(?:\w+\.)+")


class Kind(Enum):
    """The way in which the leader executes an operation."""

    #: In the loop; the answer waits until the change is durable.
    CHANGE = "change"
    #: In the loop: it takes a short time.
    QUERY = "query"
    #: In another thread: its time grows with the partition.
    SCAN = "scan"


#: The operations of each kind. Their positions are their numbers, so new ones are added at the end.
_NAMES: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.CHANGE: (
        "allocate",
        "release",
        "request",
        "allocate_evicting",
        "allocate_all",
        "replace",
        "resize",
        "preempt",
        "adopt",
        "submit",
        "adopt_application",
        "complete",
        "fail",
        "remove",
        "time_out_gang",
        "terminate",
        "set_queue_quota",
        "add_node",
        "update_node",
        "remove_node",
        "apply",
        "configure",
        "reconcile",
        "fence",
        "take_over",
        "release_of",
        "forget",
        "reclaim",
        "carry_out",
        "renew",
        "expire",
        "release_overdue",
        "change_budget",
        "admit",
        "end",
        "synchronize",
        "allocate_ignoring_reservations",
    ),
    Kind.QUERY: (
        "check",
        "headroom",
        "limits",
        "place",
        "application",
        "applications_by_id",
        "allocation",
        "allocations_by_id",
        "config",
        "queue_headroom",
        "queue_maximum",
        "user_utilization",
        "group_utilization",
        "sessions",
        "owned_by",
        "overdue",
        "pending_headroom",
        "reduction_timers",
        "preemption_status",
    ),
    Kind.SCAN: (
        "plan_input",
        "audit",
        "verify",
        "explain",
        "explain_submission",
        "applications",
        "application_ids",
        "application_report",
        "allocations",
        "allocation_ids",
        "queue",
        "queue_alone",
        "queue_paths",
        "pending",
        "nodes",
        "users",
        "user",
        "user_usage",
        "user_names",
        "groups",
        "group",
        "group_names",
        "exceeded_limits",
        "snapshot",
        "model_utilization",
        "model_reports",
        "plan_reclaim",
        "order",
        "plan_preemption",
        "reservations",
        "plan_reductions",
        "budget_accounts",
    ),
}
#: The number of the first operation of each kind.
_FIRST_NUMBERS: Final = {Kind.CHANGE: 0, Kind.QUERY: 100, Kind.SCAN: 200}


@final
@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a partition, or of the sessions."""

    name: str
    number: int
    kind: Kind
    #: Whether it may change something.
    is_change: bool
    #: Whether it is an operation of `AbstractSessions`; otherwise of `AbstractPartition`.
    is_about_sessions: bool
    #: Returns the encoded form of arguments, or raises a RequestError if one has a wrong type.
    encode_arguments: Callable[[Arguments], bytes]
    #: Returns the arguments of an encoded form, or raises a ProtocolError or a RequestError.
    decode_arguments: Callable[[bytes], Arguments]
    #: Calls the operation of a partition, or of the sessions.
    run: Callable[[Any, Arguments], Any]
    #: Returns the encoded form of a result.
    encode_result: Callable[[object], bytes]
    #: Returns the result of an encoded form, or raises a ProtocolError.
    decode_result: Callable[[bytes], Any]

    def execute(
        self, target: AbstractPartition | AbstractSessions, arguments: bytes | msgspec.Raw
    ) -> tuple[int, msgspec.Raw]:
        """Call the operation for a client.

        Args:
            target: the partition or the sessions of the leader.
            arguments: the encoded arguments.

        Returns:
            The status, and the encoded result or error.
        """
        try:
            result = self.run(target, self.decode_arguments(arguments))
            return RESULT, msgspec.Raw(self.encode_result(result))
        except Exception as error:  # noqa: BLE001 - the error codec logs an unexpected one
            return ERROR, msgspec.Raw(encode_error(error))

    @staticmethod
    def decode_error(data: bytes) -> UgmError:
        """Return the error of an encoded form, or raise a ProtocolError."""
        return decode_error(data)

    def then(self, function: Convert) -> Operation:
        """Return the same operation with a function that the client applies to its result."""
        decode = self.decode_result
        return replace(self, decode_result=lambda data: function(decode(data)))


@final
class _Parameters:
    """The parameters of an operation, and the codec of its arguments."""

    __slots__ = (
        "_converters",
        "_decode",
        "_has_defaults",
        "_name",
        "_names",
        "_shapes",
        "_texts",
        "declaration",
        "positional",
    )

    def __init__(self, name: str, declaration: Callable[..., object]) -> None:
        # The function that is given to `snapshot` is applied at the client.
        parameters = [] if name == "snapshot" else list(inspect.signature(declaration).parameters.values())[1:]
        hints = get_type_hints(declaration)
        self.declaration: Final = declaration
        self._name: Final = name
        self._names: Final = [one.name for one in parameters]
        #: The number of arguments that are passed by position.
        self.positional: Final = sum(1 for one in parameters if one.kind is not inspect.Parameter.KEYWORD_ONLY)
        self._has_defaults: Final = any(one.default is not one.empty for one in parameters)
        self._shapes: Final = [ARGUMENTS.of(hints[name]) for name in self._names]
        self._converters: Final = [
            (position, shape.from_plain) for position, shape in enumerate(self._shapes) if shape.from_plain
        ]
        self._texts: Final = [_MODULES.sub("", inspect.formatannotation(hints[name])) for name in self._names]
        plain = [_plain_field(one, shape) for one, shape in zip(parameters, self._shapes, strict=True)]
        # A structure that is an array may be shorter than its fields, and is then filled with the defaults.
        structure = msgspec.defstruct("Arguments", plain, array_like=True, forbid_unknown_fields=True)
        self._decode: Final = Codec(Shape(structure), _LARGEST_UNUSUAL).decode

    @property
    def has_only_id(self) -> bool:
        """True if the only parameter is a text without a default."""
        return self._texts == ["str"] and self.positional == 1 and not self._has_defaults

    def encode(self, arguments: Arguments) -> bytes:
        """Return the encoded form of arguments.

        Raises:
            RequestError: an argument has another type.
        """
        try:
            data = encode_plain([_to_plain(*one) for one in zip(self._shapes, arguments, strict=False)])
            self._decode(data)
        except (TypeError, ValueError, AttributeError, RecursionError, ProtocolError) as error:
            self._refuse(arguments, error)
        return data

    def _refuse(self, arguments: Arguments, error: Exception) -> NoReturn:
        """Raise an error for the first argument that cannot be sent."""
        for name, text, shape, value in zip(self._names, self._texts, self._shapes, arguments, strict=False):
            codec = Codec(Shape(shape.plain))
            try:
                codec.decode(encode_plain(_to_plain(shape, value)))
            except (TypeError, ValueError, AttributeError, RecursionError, ProtocolError):
                raise RequestError(name, value, f"expected a value of type {text}") from error
        reason = "they are too large for integers beyond 64 bits and unpaired surrogates"
        raise RequestError("arguments", self._name, reason) from error

    def decode(self, data: bytes) -> Arguments:
        """Return the arguments of an encoded form; those that were left out have the default.

        Raises:
            ProtocolError: the data are not arguments of this operation.
            RequestError: a part of an argument is invalid.
        """
        try:
            plain = msgspec.structs.astuple(self._decode(data))
        except ProtocolError as error:
            raise ProtocolError(error.problem, f"the arguments of {self._name} are invalid: {error.reason}") from error
        if not self._converters:
            return plain
        values = list(plain)
        for position, convert in self._converters:
            values[position] = convert(values[position])
        return tuple(values)

    def caller(self) -> Callable[[Any, Arguments], Any]:
        """Return a function that calls the operation of a partition, or of the sessions."""
        name, positional, keywords = self._name, self.positional, self._names[self.positional :]

        if not keywords:
            return lambda target, arguments: getattr(target, name)(*arguments)

        def run(target: object, arguments: Arguments) -> object:
            if len(arguments) <= positional:
                return getattr(target, name)(*arguments)
            options = dict(zip(keywords, arguments[positional:], strict=False))
            return getattr(target, name)(*arguments[:positional], **options)

        return run


def _plain_field(parameter: inspect.Parameter, shape: Shape) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is parameter.empty:
        return parameter.name, shape.plain
    return parameter.name, shape.plain, parameter.default


def _to_plain(shape: Shape, value: object) -> Plain:
    return value if shape.to_plain is None else shape.to_plain(value)


# The table


def _operation(name: str, kind: Kind, number: int) -> Operation:
    """Return an operation with derived codecs."""
    interface = AbstractSessions if hasattr(AbstractSessions, name) else AbstractPartition
    member: Any = getattr(interface, name)
    parameters = _Parameters(name, getattr(member, "fget", member))
    hint = get_type_hints(parameters.declaration)["return"]
    result = Codec(RESULTS.of(hint))
    operation = Operation(
        name,
        number,
        kind,
        kind is Kind.CHANGE,
        interface is AbstractSessions,
        parameters.encode,
        parameters.decode,
        parameters.caller(),
        result.encode,
        _decoder_of_results(result),
    )
    fast = {**_FAST_RESULTS.get(hint, {}), **_fast_arguments(operation, has_only_id=parameters.has_only_id)}
    return replace(operation, **_SPECIAL.get(name, {}), **fast)


def _decoder_of_results(codec: Codec) -> Callable[[bytes], Any]:
    def decode(data: bytes) -> Any:  # noqa: ANN401 - the result of the operation
        try:
            return codec.decode(data)
        except RequestError as error:
            raise ProtocolError("malformed", str(error)) from error

    return decode


def _read_config(partition: AbstractPartition, _: Arguments) -> object:
    return partition.config


def _copy_partition(partition: AbstractPartition, _: Arguments) -> object:
    snapshot = partition.snapshot()
    return snapshot.compiled, snapshot.parts()


def _list_allocations(partition: AbstractPartition, arguments: Arguments) -> object:
    return (partition.list_allocations if isinstance(partition, ListingPartition) else partition.allocations)(
        *arguments
    )


def _list_differences(partition: AbstractPartition, arguments: Arguments) -> object:
    return (partition.list_differences if isinstance(partition, ListingPartition) else partition.audit)(*arguments)


_DIFFERENCES: Final = Codec(RESULTS.of(tuple[Difference, ...]))
#: The header of an array of one item: a report has one field, the differences.
_ONE_FIELD: Final = b"\x91"


def _encode_report(report: AuditReport) -> bytes:
    return _ONE_FIELD + _DIFFERENCES.encode(report.differences)


#: The result of `snapshot` on the wire. `RemotePartition` makes the snapshot from it.
_SNAPSHOT: Final = Codec(RESULTS.of(tuple[CompiledConfig, SnapshotParts]))

_SPECIAL: Final[Mapping[str, JsonMapping]] = {
    "allocations": {"run": _list_allocations},
    "audit": {"run": _list_differences, "encode_result": _encode_report},
    "config": {"run": _read_config},
    "snapshot": {
        "run": _copy_partition,
        "encode_result": _SNAPSHOT.encode,
        "decode_result": _decoder_of_results(_SNAPSHOT),
    },
}
_FAST_RESULTS: Final[Mapping[Any, JsonMapping]] = {
    Decision: {"encode_result": encode_decision, "decode_result": decode_decision},
    bool: {"encode_result": encode_truth, "decode_result": decode_truth},
}


def _fast_arguments(operation: Operation, *, has_only_id: bool) -> JsonMapping:
    encode, decode = operation.encode_arguments, operation.decode_arguments
    if operation.name in ("allocate", "allocate_evicting"):
        fast = encode_allocation_request(encode), decode_allocation_request(decode)
    elif operation.name == "check":
        fast = encode_subject_and_usage(encode), decode_subject_and_usage(decode)
    elif has_only_id:
        fast = encode_id(encode), decode_id(decode)
    else:
        return {}
    return dict(zip(("encode_arguments", "decode_arguments"), fast, strict=True))


#: Every operation of a partition that the leader executes, by name. `plan` is made by the client from `plan_input`.
OPERATIONS: Final[Mapping[str, Operation]] = {
    name: _operation(name, kind, number)
    for kind, names in _NAMES.items()
    for number, name in enumerate(names, _FIRST_NUMBERS[kind])
}
_BY_NUMBER: Final = {operation.number: operation for operation in OPERATIONS.values()}
#: The operations of a partition that the leader executes in the loop, by number.
DIRECT_OPERATIONS: Final[Mapping[int, Operation]] = {
    number: operation
    for number, operation in _BY_NUMBER.items()
    if operation.kind is not Kind.SCAN and not operation.is_about_sessions
}


def operations_of(requests: Iterable[OperationRequest]) -> list[Operation]:
    """Return the operations of requests.

    Raises:
        ProtocolError: there is no such operation.
    """
    try:
        return [_BY_NUMBER[request.operation] for request in requests]
    except KeyError as error:
        raise ProtocolError("unknown-operation", f"there is no operation {error}") from error
