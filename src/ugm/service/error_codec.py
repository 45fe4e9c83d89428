"""The codec of errors: an error that the leader raises is raised again at the client, with the same class and data.

The documented errors have their data as arguments, and the codec of the data is derived from the constructor. Any other
exception becomes a `ServiceError`, because its class may not exist at the client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Any, Final, get_type_hints

import msgspec

from ugm.configuration import PartitionConfig
from ugm.errors import UgmError, value_text
from ugm.identity import UserGroup
from ugm.journal.errors import JournalError
from ugm.partition import AllocationRequest, AuditReport, Difference, RunningAllocation, UserInQueue
from ugm.resources import Resource
from ugm.service.codec import Codec, Plain, Shape, Shapes, encode_plain
from ugm.service.errors import ProtocolError, ServiceError
from ugm.service.shapes import RESULTS

__all__ = ["decode_error", "encode_error"]

_LOGGER: Final = logging.getLogger(__name__)

#: The maximum size of a value in an error, in bytes. A larger value is sent as a text.
_LARGEST: Final = 4096
#: The maximum length of the text of an unexpected exception.
_LONGEST: Final = 1000

# Values in errors: the argument of a call may be any object


_CLASSES: Final[Mapping[str, type]] = {
    kind.__name__: kind
    for kind in (
        AllocationRequest,
        AuditReport,
        Difference,
        PartitionConfig,
        Resource,
        RunningAllocation,
        UserGroup,
        UserInQueue,
    )
}
_SHAPES: Final = {name: RESULTS.of(kind) for name, kind in _CLASSES.items()}
_SCALARS: Final = (NoneType, bool, int, float, str, bytes)
_SEQUENCES: Final[Mapping[str, Callable[[Any], object]]] = {"list": list, "tuple": tuple, "set": set}


def _to_plain(value: object) -> Plain:
    try:
        plain = _tagged(value)
        if len(encode_plain(plain)) <= _LARGEST:
            return plain
    except (TypeError, ValueError, RecursionError):
        # It is an object of another class, or contains one.
        pass
    return value_text(value)


def _tagged(value: Any) -> Plain:  # noqa: ANN401 - any value
    """Return a scalar as it is, and any other value as a list of its class and its plain value."""
    kind: type = type(value)
    name = kind.__name__
    if kind in _SCALARS:
        return value
    if kind is dict:
        return ["dict", [[_tagged(key), _tagged(item)] for key, item in value.items()]]
    if _SEQUENCES.get(name) is kind:
        return [name, [_tagged(item) for item in value]]
    if _CLASSES.get(name) is not kind:
        raise TypeError(name)
    encode = _SHAPES[name].to_plain
    return [name, value if encode is None else encode(value)]


def _from_plain(plain: Plain) -> object:
    if not isinstance(plain, list):
        return plain
    name, given = plain
    if name == "dict":
        return {_from_plain(key): _from_plain(item) for key, item in given}
    if name in _SEQUENCES:
        return _SEQUENCES[name](map(_from_plain, given))
    shape = _SHAPES[name]
    given = msgspec.convert(given, shape.plain)
    return given if shape.from_plain is None else shape.from_plain(given)


# Errors


_DATA: Final = Shapes({object: Shape(Any, _to_plain, _from_plain)}, {})


def _codec_of(kind: type[UgmError]) -> Codec:
    """Return the codec of the arguments of a class of errors."""
    hints = get_type_hints(kind.__init__)
    hints.pop("return", None)
    return Codec(_DATA.of(tuple[tuple(hints.values())]))  # type: ignore[misc]  # made at run time


def _subclasses(kind: type[UgmError]) -> Iterator[type[UgmError]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


_MODULES: Final = {kind.__module__ for kind in (UgmError, JournalError, ServiceError)}
#: The documented errors of operations by name: those of the modules of errors.
_ERRORS: Final = {kind.__name__: kind for kind in _subclasses(UgmError) if kind.__module__ in _MODULES}
_CODECS: Final = {name: _codec_of(kind) for name, kind in _ERRORS.items()}
_decode_named: Final = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw]).decode


def encode_error(error: Exception) -> bytes:
    """Return the encoded form of an error; an undocumented one is logged, and becomes a `ServiceError`."""
    name = type(error).__name__
    if _ERRORS.get(name) is not type(error):
        _LOGGER.error("an operation failed with an unexpected error", exc_info=error)
        error, name = ServiceError(f"{name}: {error}"[:_LONGEST]), ServiceError.__name__
    return encode_plain((name, msgspec.Raw(_CODECS[name].encode(error.args))))


def decode_error(data: bytes) -> UgmError:
    """Return the error of an encoded form.

    Raises:
        ProtocolError: the data are not such a form.
    """
    try:
        name, arguments = _decode_named(data)
        if name in _CODECS:
            return _ERRORS[name](*_CODECS[name].decode(arguments))
    except (msgspec.MsgspecError, TypeError, ValueError, LookupError) as error:
        raise ProtocolError("malformed", f"an error cannot be decoded: {error}") from error
    return ServiceError(f"the leader raised an error of an unknown class, {name}")
