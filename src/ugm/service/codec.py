"""The codec of values on the wire: encodes arguments, results and errors as MessagePack, and decodes them.

The problem: a partition has about 80 operations, whose arguments and results consist of about 40 classes. Everything
that arrives must have the right types before the engine sees it. Codecs written by hand would diverge from the
interface.

The idea: the codec of a value is derived from its annotation. A `Shape` consists of the *plain type* of the annotation
and of two functions. The plain type is made of tuples, lists, dictionaries and scalars only: an object becomes a tuple
of its fields. `msgspec` encodes plain values, and checks their types while it decodes them. The functions convert
between values and plain values; most annotations need none.

Invariant: a decoded value equals the encoded one. Its class is the same, except that a violation of a class of a quota
model keeps only its text and whether waiting can help. A value that does not have the plain type is refused while it is
decoded, so nothing of it reaches the engine.

The cost: about a microsecond for a value of three fields. Integers beyond 64 bits and texts with unpaired surrogates,
which MessagePack cannot represent, take several times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import islice
from struct import Struct
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, Union, final, get_args, get_origin, get_type_hints

import msgspec

from ugm.service.errors import ProtocolError

__all__ = ["Codec", "Convert", "Hint", "Plain", "Shape", "Shapes", "UnsuitableValue", "mapped"]

#: A value of MessagePack: None, a bool, a number, a text, bytes, or a list, tuple or dictionary of such values.
Plain: TypeAlias = Any
#: An annotation as `typing.get_type_hints` returns it.
Hint: TypeAlias = Any
#: Converts a value of one type, or raises TypeError.
Convert: TypeAlias = Callable[[Any], Any]

#: The codes of extension values.
_BIG_INTEGER: Final = 1
_SURROGATES: Final = 2
#: A dictionary, as a list of keys and values in turn: extension values cannot be keys.
_DICTIONARY: Final = 3
#: The range of integers in MessagePack.
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
#: Arrays of at least this many items have a header of three bytes, up to 65,535 items; shorter ones of one byte.
_LONG: Final = 16
_LONG_HEADER: Final = 3
#: The header of an array of any length.
_LONG_ARRAY: Final = Struct(">BI")
#: The number of items of a long tuple that are encoded at once.
_CHUNK: Final = 1000


class Shape(NamedTuple):
    """The form of the values of one annotation on the wire."""

    #: The type of the plain values, for `msgspec`.
    plain: Hint
    #: Returns the plain value of a value, or raises TypeError; None if the value is plain itself.
    to_plain: Convert | None = None
    #: Converts a decoded plain value to the object; None if no conversion is needed.
    from_plain: Convert | None = None
    #: The shape of the items of a tuple of any length; None for other values.
    items: Shape | None = None


class UnsuitableValue(TypeError):  # noqa: N818 - not an error of the interface
    """A value does not have the annotated type."""


def mapped(shape: Shape, to_value: Convert, from_value: Convert) -> Shape:
    """Return the shape of objects that are converted to values of another shape.

    Args:
        shape: the shape of the values.
        to_value: returns the value of an object.
        from_value: returns the object of a value.
    """
    encode, decode = shape.to_plain, shape.from_plain
    return Shape(
        shape.plain,
        to_value if encode is None else lambda given: encode(to_value(given)),
        from_value if decode is None else lambda plain: from_value(decode(plain)),
    )


@final
class Shapes:
    """Derives shapes from annotations.

    Args:
        known: the shapes of classes that are not derived from their fields.
        known_fields: the shapes of single fields, by class and name.
    """

    __slots__ = ("_known", "_known_fields", "_open")

    def __init__(self, known: Mapping[Hint, Shape], known_fields: Mapping[tuple[type, str], Shape]) -> None:
        self._known: Final[dict[Hint, Shape]] = dict(known)
        self._known_fields: Final = known_fields
        #: The classes whose shapes are being derived now.
        self._open: Final[set[Hint]] = set()

    def of(self, hint: Hint) -> Shape:
        """Return the shape of an annotation.

        Raises:
            TypeError: values of the annotation cannot be sent.
        """
        known = self._known.get(hint)
        if known is not None:
            return known
        origin: Hint = get_origin(hint)
        parts: tuple[Hint, ...] = get_args(hint)
        if origin in (Union, UnionType):
            return self._union([part for part in parts if part is not NoneType], is_optional=NoneType in parts)
        if origin is tuple and parts[1:] != (...,):
            return _record(tuple, [self.of(part) for part in parts], list, tuple)
        if origin in (dict, Mapping) and parts[0] is str:
            return _dictionary(self.of(parts[1]))
        if origin in (tuple, list, Iterable):
            return _sequence(self.of(parts[0]), list if origin is list else tuple)
        if not isinstance(hint, type):
            raise TypeError(f"values of {hint} cannot be sent")
        return self._of_class(hint)

    def _of_class(self, kind: type) -> Shape:
        if issubclass(kind, (bool, int, float, str, bytes, NoneType, Enum)):
            return Shape(kind)
        if kind in self._open:
            # A class that contains itself: its plain type is not known yet, and neither are the functions.
            return Shape(Any, lambda value: _to_plain(self._known[kind], value), lambda plain: self._made(kind, plain))
        names = _field_names(kind)
        self._open.add(kind)
        hints = get_type_hints(kind)
        shapes = [self._known_fields.get((kind, name)) or self.of(hints[name]) for name in names]
        self._open.remove(kind)
        shape = _record(kind, shapes, _reader(kind, names), _maker(kind))
        return self._known.setdefault(kind, shape)

    def _made(self, kind: type, plain: Plain) -> object:
        shape = self._known[kind]
        return _from_plain(shape, msgspec.convert(plain, shape.plain))

    def _union(self, parts: list[Hint], *, is_optional: bool) -> Shape:
        shape = self._alternatives(parts)
        return _optional(shape) if is_optional else shape

    def _alternatives(self, parts: list[Hint]) -> Shape:
        if len(parts) == 1:
            return self.of(parts[0])
        one, other = parts
        if one is str:
            return _text_or(self.of(other))
        origin: Hint = get_origin(other)
        if origin is tuple and issubclass(one, tuple):
            # A named tuple, or a tuple of its first fields.
            return mapped(self.of(one), lambda value: one(*value), _same)
        raise TypeError(f"values of {one} | {other} cannot be sent")


def _same(value: Plain) -> Plain:
    return value


def _to_plain(shape: Shape, value: object) -> Plain:
    return value if shape.to_plain is None else shape.to_plain(value)


def _from_plain(shape: Shape, plain: Plain) -> Any:  # noqa: ANN401 - any value
    return plain if shape.from_plain is None else shape.from_plain(plain)


def _field_names(kind: type) -> tuple[str, ...]:
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return tuple(kind._fields)
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    raise TypeError(f"values of {kind} cannot be sent")


def _reader(kind: type, names: tuple[str, ...]) -> Convert:
    """Return a function that returns the fields of an object."""
    if issubclass(kind, tuple):
        return list
    return lambda value: [getattr(value, name) for name in names]


def _maker(kind: Hint) -> Convert:
    """Return a function that makes an object of its fields."""
    # `_make` is the constructor of named tuples that takes the fields as one iterable.
    return getattr(kind, "_make", None) or (lambda values: kind(*values))


def _record(kind: type, shapes: list[Shape], read: Convert, make: Convert) -> Shape:
    """Return the shape of objects with a fixed number of fields."""
    plain = tuple[tuple(shape.plain for shape in shapes)]  # type: ignore[misc,valid-type]  # made at run time
    count = len(shapes)
    encoders = [(position, shape.to_plain) for position, shape in enumerate(shapes) if shape.to_plain]
    decoders = [(position, shape.from_plain) for position, shape in enumerate(shapes) if shape.from_plain]

    def to_plain(value: object) -> Plain:
        values = read(_require(kind, value))
        if len(values) != count:
            raise UnsuitableValue
        for position, encode in encoders:
            values[position] = encode(values[position])
        return values

    def from_plain(given: Plain) -> object:
        values = list(given)
        for position, decode in decoders:
            values[position] = decode(values[position])
        return make(values)

    if decoders:
        return Shape(plain, to_plain, from_plain)
    return Shape(plain, to_plain, None if kind is tuple else make)


def _require(kind: type, value: object) -> object:
    if not isinstance(value, kind):
        raise UnsuitableValue
    return value


def _sequence(shape: Shape, kind: Convert) -> Shape:
    """Return the shape of tuples and lists of any length."""
    encode, decode = shape.to_plain, shape.from_plain
    return Shape(
        tuple[shape.plain, ...] if kind is tuple else list[shape.plain],  # type: ignore[name-defined]  # made at run time
        list if encode is None else lambda values: [encode(value) for value in values],
        None if decode is None else lambda plain: kind(map(decode, plain)),
        shape if kind is tuple else None,
    )


def _dictionary(shape: Shape) -> Shape:
    """Return the shape of mappings from texts."""
    encode, decode = shape.to_plain or _same, shape.from_plain

    def to_plain(value: object) -> Plain:
        if not isinstance(value, Mapping):
            raise UnsuitableValue
        return {key: encode(item) for key, item in value.items()}

    return Shape(
        dict[str, shape.plain],  # type: ignore[name-defined]  # made at run time
        to_plain,
        None if decode is None else lambda plain: {key: decode(item) for key, item in plain.items()},
    )


def _optional(shape: Shape) -> Shape:
    """Return the shape of values that may be None."""
    encode, decode = shape.to_plain, shape.from_plain
    return Shape(
        Any if shape.plain is Any else shape.plain | None,
        None if encode is None else lambda value: None if value is None else encode(value),
        None if decode is None else lambda plain: None if plain is None else decode(plain),
    )


def _text_or(shape: Shape) -> Shape:
    """Return the shape of values that may be texts."""
    return Shape(
        str | shape.plain,
        lambda value: value if isinstance(value, str) else _to_plain(shape, value),
        lambda plain: plain if isinstance(plain, str) else _from_plain(shape, plain),
    )


@final
class Codec:
    """The codec of the values of one shape.

    Args:
        shape: the shape.
        limit: the number of bytes above which values that MessagePack cannot represent are refused; None for no limit.
    """

    __slots__ = ("_decode", "_limit", "_shape")

    def __init__(self, shape: Shape, limit: int | None = None) -> None:
        self._shape: Final = shape
        self._limit: Final = limit
        self._decode: Final = msgspec.msgpack.Decoder(shape.plain, ext_hook=_read_extension).decode

    def encode(self, value: object) -> bytes:
        """Return the encoded form of a value of the annotated type. Any collection is encoded like a tuple.

        Raises:
            TypeError, ValueError: the value has another type.
        """
        items = self._shape.items
        if items is not None and isinstance(value, Collection) and len(value) > _CHUNK:
            return _encode_long(value, items)
        return encode_plain(_to_plain(self._shape, value))

    def decode(self, data: bytes) -> Any:  # noqa: ANN401 - the type of the annotation
        """Return the value of an encoded form.

        Raises:
            ProtocolError: the data are not such a form.
            RequestError: a part of the value is invalid, for example the name of a resource.
        """
        try:
            plain = self._plain(data)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            raise ProtocolError("malformed", str(error)) from error
        return _from_plain(self._shape, plain)

    def _plain(self, data: bytes) -> Plain:
        try:
            return self._decode(data)
        except msgspec.ValidationError:
            if self._limit is not None and memoryview(data).nbytes > self._limit:
                raise
            # Without a type, a decoded value may need 80 times as much memory as its encoded form.
            return msgspec.convert(_decode_anything(data), self._shape.plain)


_encode: Final = msgspec.msgpack.Encoder().encode


def encode_plain(plain: Plain) -> bytes:
    """Return the encoded form of a plain value."""
    try:
        return _encode(plain)
    except (OverflowError, UnicodeEncodeError):
        return _encode(_representable(plain))


def _encode_long(values: Collection[object], shape: Shape) -> bytes:
    """Return the encoded form of many values of a shape.

    It is encoded in chunks, because the interpreter runs no other thread while `msgspec` encodes.
    """
    parts, remaining = [_LONG_ARRAY.pack(0xDD, len(values))], iter(values)
    while chunk := [_to_plain(shape, value) for value in islice(remaining, _CHUNK)]:
        parts.append(encode_plain(chunk)[_LONG_HEADER if len(chunk) >= _LONG else 1 :])
    return b"".join(parts)


def _representable(plain: Plain) -> Plain:
    """Return a plain value with extension values in place of what MessagePack cannot represent."""
    if isinstance(plain, str):
        return plain if _is_valid(plain) else msgspec.msgpack.Ext(_SURROGATES, plain.encode("utf-8", "surrogatepass"))
    if isinstance(plain, int):
        return plain if _LEAST <= plain <= _MOST else msgspec.msgpack.Ext(_BIG_INTEGER, _integer_to_bytes(plain))
    if isinstance(plain, Mapping):
        items = [_representable(item) for pair in plain.items() for item in pair]
        return msgspec.msgpack.Ext(_DICTIONARY, _encode(items))
    return [_representable(item) for item in plain] if isinstance(plain, (list, tuple)) else plain


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer_to_bytes(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _read_extension(code: int, data: memoryview) -> object:
    if code == _BIG_INTEGER:
        return int.from_bytes(data, "big", signed=True)
    if code == _SURROGATES:
        return str(data, "utf-8", "surrogatepass")
    if code == _DICTIONARY:
        items = iter(_decode_anything(data))
        return dict(zip(items, items, strict=True))
    raise msgspec.ValidationError(f"unknown extension {code}")


_decode_anything: Final = msgspec.msgpack.Decoder(ext_hook=_read_extension).decode
