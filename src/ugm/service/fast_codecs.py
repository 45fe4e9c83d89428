"""The codecs of the operations that are called most: `allocate`, `allocate_evicting`, `check`, `release` and others.

The problem: a scheduler makes 100,000 decisions per second, and the derived codecs would take longer than the engine.

The idea: nearly all arguments of these operations are texts and one vector of resources, and many results are grants.
Such a call is one tuple of plain values, the vector is found by its bytes, and a grant is one shared byte. Everything
else is left to the derived codecs, and so is everything that is not valid. Both forms are the same on the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import NoneType
from typing import Any, Final, TypeAlias

import msgspec

from ugm.decision import ALLOWED, Decision
from ugm.resources import Resource
from ugm.service.codec import Codec
from ugm.service.shapes import RESULTS, VIOLATION_FIELDS, shared_resource, violation_of

__all__ = [
    "Arguments",
    "decode_allocation_request",
    "decode_decision",
    "decode_id",
    "decode_subject_and_usage",
    "decode_truth",
    "encode_allocation_request",
    "encode_decision",
    "encode_id",
    "encode_subject_and_usage",
    "encode_truth",
]

#: The arguments of a call, in the order of the parameters.
Arguments: TypeAlias = tuple[Any, ...]

_Encode: TypeAlias = Callable[[Arguments], bytes]
_Decode: TypeAlias = Callable[[bytes], Arguments]

#: The number of bytes of the largest vector of resources that is cached.
_LARGEST: Final = 256
#: The types of the arguments that may be left out.
_TRAITS: Final = ((bool,), (int,), (bool,), (int, NoneType), (str,))


class _AllocationRequest(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """The arguments of `allocate`."""

    allocation_id: str
    application_id: str
    usage: msgspec.Raw
    placeholder: bool = False
    priority: int = 0
    preemptible: bool = True
    duration: int | None = None
    node: str | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_request: Final = msgspec.msgpack.Decoder(_AllocationRequest).decode
_decode_subject_and_usage: Final = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw]).decode
_decode_id: Final = msgspec.msgpack.Decoder(tuple[str]).decode
_decode_amounts: Final = msgspec.msgpack.Decoder(dict[str, int]).decode


@lru_cache(maxsize=4096)
def _cached_usage(data: bytes) -> Resource:
    return shared_resource(_decode_amounts(data))


def _usage(raw: msgspec.Raw) -> Resource:
    data = bytes(raw)
    return _cached_usage(data) if len(data) <= _LARGEST else shared_resource(_decode_amounts(data))


# Arguments


def encode_allocation_request(derived: _Encode) -> _Encode:
    """Return an encoder of the arguments of `allocate`, which leaves unusual ones to the derived encoder."""

    def encode(arguments: Arguments) -> bytes:
        allocation_id, application_id, usage = arguments[:3]
        traits = arguments[3:]
        if (
            type(usage) is Resource
            and type(allocation_id) is str
            and type(application_id) is str
            and all(type(trait) in types for trait, types in zip(traits, _TRAITS, strict=False))
        ):
            try:
                return _encode((allocation_id, application_id, usage.amounts, *traits))
            except (OverflowError, UnicodeEncodeError):
                pass
        return derived(arguments)

    return encode


def decode_allocation_request(derived: _Decode) -> _Decode:
    """Return a decoder of the arguments of `allocate`, which leaves unusual ones to the derived decoder."""

    def decode(data: bytes) -> Arguments:
        try:
            request = _decode_request(data)
            ids_and_usage = request.allocation_id, request.application_id, _usage(request.usage)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return derived(data)
        traits = request.placeholder, request.priority, request.preemptible, request.duration
        if request.node is not None:
            return *ids_and_usage, *traits, request.node
        if request.duration is not None:
            return *ids_and_usage, *traits
        if request.preemptible and not request.priority and not request.placeholder:
            return ids_and_usage
        return *ids_and_usage, request.placeholder, request.priority, request.preemptible

    return decode


def encode_subject_and_usage(derived: _Encode) -> _Encode:
    """Return an encoder of the arguments of `check`, which leaves unusual ones to the derived encoder."""

    def encode(arguments: Arguments) -> bytes:
        if len(arguments) == 2:  # noqa: PLR2004 - the required ones
            subject, usage = arguments
            if type(usage) is Resource and type(subject) is str:
                try:
                    return _encode((subject, usage.amounts))
                except (OverflowError, UnicodeEncodeError):
                    pass
        return derived(arguments)

    return encode


def decode_subject_and_usage(derived: _Decode) -> _Decode:
    """Return a decoder of the arguments of `check`, which leaves unusual ones to the derived decoder."""

    def decode(data: bytes) -> Arguments:
        try:
            subject, raw = _decode_subject_and_usage(data)
            return subject, _usage(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return derived(data)

    return decode


def encode_id(derived: _Encode) -> _Encode:
    """Return an encoder of the only argument of `release` and others, which leaves other types to the derived one."""

    def encode(arguments: Arguments) -> bytes:
        if type(arguments[0]) is str:
            try:
                return _encode(arguments)
            except UnicodeEncodeError:
                pass
        return derived(arguments)

    return encode


def decode_id(derived: _Decode) -> _Decode:
    """Return a decoder of the only argument of `release` and others, which leaves other types to the derived one."""

    def decode(data: bytes) -> Arguments:
        try:
            return _decode_id(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return derived(data)

    return decode


# Truth values

_DERIVED_TRUTH: Final = Codec(RESULTS.of(bool))
_TRUTHS: Final = {value: _DERIVED_TRUTH.encode(value) for value in (False, True)}
_VALUES: Final = {data: value for value, data in _TRUTHS.items()}


def encode_truth(value: bool) -> bytes:  # noqa: FBT001 - a result
    """Return the encoded form of a truth value."""
    return _TRUTHS[value]


def decode_truth(data: bytes) -> bool:
    """Return the truth value of an encoded form."""
    value = _VALUES.get(bytes(data))
    if value is None:
        value = _DERIVED_TRUTH.decode(data)
    return value


# Decisions

_DERIVED: Final = Codec(RESULTS.of(Decision))
_decode_denial: Final = msgspec.msgpack.Decoder(tuple[tuple[VIOLATION_FIELDS, ...], tuple[str, ...]]).decode
#: The encoded form of `ALLOWED`.
_GRANTED: Final = _DERIVED.encode(ALLOWED)


def encode_decision(decision: Decision) -> bytes:
    """Return the encoded form of a decision."""
    return _GRANTED if decision is ALLOWED else _DERIVED.encode(decision)


def decode_decision(data: bytes) -> Decision:
    """Return the decision of an encoded form."""
    if bytes(data) == _GRANTED:
        return ALLOWED
    try:
        violations, evictions = _decode_denial(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        decision: Decision = _DERIVED.decode(data)
        return decision
    return Decision(tuple(map(violation_of, violations)), evictions)
