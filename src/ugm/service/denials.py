"""The form of denials on the wire. The log does not contain them, so clients that follow get them separately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ugm.partition.events import Denied
from ugm.service.codec import Codec
from ugm.service.shapes import RESULTS

__all__ = ["decode_denials", "encode_denials"]

_CODEC: Final = Codec(RESULTS.of(tuple[Denied, ...]))


def encode_denials(denials: Sequence[Denied]) -> bytes:
    """Return the encoded form of denials."""
    return _CODEC.encode(tuple(denials))


def decode_denials(data: bytes) -> tuple[Denied, ...]:
    """Return the denials of an encoded form.

    Raises:
        ProtocolError: the data are not such a form.
        RequestError: a part of a denial is invalid.
    """
    denials: tuple[Denied, ...] = _CODEC.decode(data)
    return denials
