"""The operations that a client can call, derived from the methods of a partition and of the sessions.

The arguments are a JSON object with the names of the parameters. Those that have the default may be left out. The
result is the JSON of the annotated type; see `ugm.service.protocol.values`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, final, get_origin, get_type_hints

import msgspec
from msgspec.structs import astuple

from ugm.errors import RequestError, cut
from ugm.partition import AbstractPartition
from ugm.partition.interface.operation_kinds import OPERATION_KINDS, Kind, OperationKind, Role
from ugm.service.errors import ProtocolError
from ugm.service.protocol.values import ANNOTATIONS, ValueCodec, encode, encode_error
from ugm.service.protocol.wire import Call
from ugm.service.sessions import LeaderSessions
from ugm.store.row_tables import has_nul

#: The argument in an error of msgspec.
_PLACE: Final = re.compile(r"at `\$\.(\w+)")
#: The operations of `LeaderSessions`. A session of another client can only be changed by an operator.
_SESSION_KINDS: Final[Mapping[str, OperationKind]] = {
    **dict.fromkeys(("sessions", "owned_by"), OperationKind(Kind.QUERY, Role.VIEWER)),
    **dict.fromkeys(("fence", "take_over", "release_of", "forget"), OperationKind(Kind.CHANGE, Role.SCHEDULER)),
}


@final
class Operation:
    """An operation of a partition, or of the sessions.

    Args:
        name: its name.
        kind: its kind and role.
    """

    def __init__(self, name: str, kind: OperationKind) -> None:
        self.name: Final = name
        #: The part of a call between the numbers and the arguments.
        self.prefix: Final = b',"%b",' % name.encode()
        self.role: Final = kind.role
        self.is_change: Final = kind.kind is Kind.CHANGE
        self.is_scan: Final = kind.kind is Kind.SCAN
        self.is_about_sessions: Final = name in _SESSION_KINDS
        member = getattr(LeaderSessions if self.is_about_sessions else AbstractPartition, name)
        #: The method.
        self.declaration: Final[Callable[..., object]] = getattr(member, "fget", member)
        hints = get_type_hints(self.declaration, localns=ANNOTATIONS)
        parameters = list(inspect.signature(self.declaration).parameters.values())[1:]
        codecs = {one.name: ValueCodec(hints[one.name]) for one in parameters}
        self._forms: Final = {name: codec for name, codec in codecs.items() if codec.is_converted}
        self._iterables: Final = [one.name for one in parameters if get_origin(hints[one.name]) is Iterable]
        self._positional: Final = tuple(one.name for one in parameters if one.kind is not one.KEYWORD_ONLY)
        self._keywords: Final = tuple(one.name for one in parameters if one.kind is one.KEYWORD_ONLY)
        #: The class of the arguments, for msgspec.
        self.arguments: Final[Any] = msgspec.defstruct(
            name, [_field(one, codecs[one.name].hint) for one in parameters], omit_defaults=True
        )
        self._decode: Final = ValueCodec(self.arguments).decode_strictly
        self._defaults: Final = tuple(one.default for one in parameters[len(self._positional) :])
        #: The codec of the result.
        self.result: Final = ValueCodec(hints["return"])

    def encode_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """Return the JSON of the arguments of a call.

        Raises:
            RequestError: an argument cannot be sent.
            TypeError: the call does not suit the signature.
        """
        try:
            given = self.arguments(*args, **kwargs)
        except TypeError:
            # This has a better text.
            inspect.signature(self.declaration).bind(None, *args, **kwargs)
            raise
        if len(args) > len(self._positional):
            inspect.signature(self.declaration).bind(None, *args, **kwargs)
        if bytes in map(type, args):
            # JSON would have them as a text.
            raise RequestError("arguments", self.name, "bytes cannot be sent")
        for name in self._iterables:
            setattr(given, name, _listed(name, getattr(given, name)))
        for name, codec in self._forms.items():
            setattr(given, name, codec.to_wire(getattr(given, name)))
        try:
            data = encode(given)
        except (TypeError, ValueError, RecursionError) as error:
            raise RequestError("arguments", self.name, f"an argument cannot be sent: {error}") from error
        if has_nul(data):
            raise RequestError("arguments", self.name, "a text with the character NUL cannot be sent")
        return data

    def decode_arguments(self, data: msgspec.Raw | bytes) -> Any:  # noqa: ANN401 - of a derived class
        """Return the arguments of their JSON.

        Raises:
            RequestError: they are not arguments of this operation.
        """
        try:
            given = self._decode(data)
            for name, codec in self._forms.items():
                setattr(given, name, codec.from_wire(getattr(given, name)))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            self._refuse(error)
        return given

    def _refuse(self, error: Exception) -> NoReturn:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, RequestError):
                raise cause
            cause = cause.__cause__
        found = _PLACE.search(str(error))
        raise RequestError(found[1] if found else "arguments", self.name, cut(str(error), 1000)) from error

    def run(self, target: AbstractPartition | LeaderSessions, given: Any) -> Any:  # noqa: ANN401 - as above
        """Call the operation of a partition, or of the sessions."""
        if self.name == "config":
            return target.config  # type: ignore[union-attr]  # of a partition
        count, values = len(self._positional), astuple(given)
        # Most calls pass no keywords.
        if values[count:] == self._defaults:
            return getattr(target, self.name)(*values[:count])
        return getattr(target, self.name)(*values[:count], **dict(zip(self._keywords, values[count:], strict=True)))


def _listed(name: str, items: object) -> object:
    """Return the items of an iterable; msgspec would encode a dictionary as an object."""
    if items is None or isinstance(items, (str, tuple)):
        return items
    if not isinstance(items, Iterable):
        raise RequestError(name, items, "expected an iterable")
    return list(items)


def _field(parameter: inspect.Parameter, hint: Any) -> Any:  # noqa: ANN401 - for msgspec
    return (parameter.name, hint) if parameter.default is parameter.empty else (parameter.name, hint, parameter.default)


def answer_line(call: Call, role: Role, target: Callable[[Operation], Any]) -> bytes:
    """Execute an operation for a client with a role, and return the line with its result or error.

    Args:
        call: the call.
        role: the role.
        target: returns the partition or the sessions for the operation, or raises an error.
    """
    try:
        operation = OPERATIONS.get(call.operation)
        if operation is None:
            raise ProtocolError("unknown-operation", f"there is no operation {cut(call.operation)}")  # noqa: TRY301 - answered below
        if role < operation.role:
            needed = f"it needs the role {operation.role.name.lower()}, not {role.name.lower()}"
            raise RequestError("operation", operation.name, needed, "forbidden")  # noqa: TRY301 - as above
        given = operation.decode_arguments(call.arguments)
        value = operation.run(target(operation), given)
        return b'["result",%d,%b]\n' % (call.number, operation.result.encode(value))
    except Exception as error:  # noqa: BLE001 - an unexpected one is logged
        return b'["error",%d,%b]\n' % (call.number, encode_error(error))


#: Every operation that a leader executes, by name.
OPERATIONS: Final[Mapping[str, Operation]] = {
    name: Operation(name, kind)
    for name, kind in (OPERATION_KINDS | _SESSION_KINDS).items()  # type: ignore[operator]
}
