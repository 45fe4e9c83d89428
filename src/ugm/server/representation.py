"""Responses that clients can revalidate: with an ETag, compressed, and with the time of their data.

The representation is prepared in the thread that creates the response, and coalesced requests share it. A client that
sends the ETag of its copy gets the status 304 without a body, if nothing has changed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from starlette.responses import Response

from ugm.server.payloads import Payload

__all__ = ["Representation", "accepts_gzip", "prepare"]

#: Shorter bodies are not compressed, because they fit into one packet.
_LEAST_COMPRESSED: Final = 1024
#: Fast, because a scheduler may share the processor; JSON becomes about a tenth as large.
_LEVEL: Final = 1
#: zlib writes the format of gzip.
_GZIP_BITS: Final = 31
#: A coding in `Accept-Encoding`, and its weight.
_CODING: Final = re.compile(r"([^\s;]+)(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?", re.IGNORECASE)


class Representation(NamedTuple):
    """A response body as it is sent."""

    payload: Payload
    #: Empty if the client does not accept it, or the body is short.
    compressed: bytes
    etag: str
    #: A time before the data were read, in seconds since 1970.
    as_of: float

    def response(self, headers: Mapping[str, str]) -> Response:
        """Return the response to a request with these headers."""
        sent = {
            # The client must ask before it uses a copy, because every response shows one moment.
            "cache-control": "private, no-cache",
            "etag": self.etag,
            "ugm-as-of": f"{self.as_of:.3f}",
            "vary": "accept-encoding",
        }
        if self.etag in (tag.strip() for tag in headers.get("if-none-match", "").split(",")):
            return Response(status_code=304, headers=sent)
        sent["content-type"] = self.payload.media_type
        if not self.compressed:
            return Response(self.payload.content, self.payload.status, sent)
        return Response(self.compressed, self.payload.status, {**sent, "content-encoding": "gzip"})


def prepare(payload: Payload, as_of: float, *, compress: bool) -> Representation:
    """Return the representation of a body.

    Args:
        payload: the body.
        as_of: a time before its data were read, in seconds since 1970.
        compress: whether the client accepts gzip.
    """
    etag = f'W/"{blake2b(payload.content, digest_size=12).hexdigest()}"'
    compressed = b""
    if compress and len(payload.content) >= _LEAST_COMPRESSED:
        compressed = zlib.compress(payload.content, _LEVEL, wbits=_GZIP_BITS)
    return Representation(payload, compressed, etag, as_of)


def accepts_gzip(headers: Mapping[str, str]) -> bool:
    """Return whether a client accepts bodies that are compressed with gzip (RFC 9110, section 12.5.3).

    >>> accepts_gzip({"accept-encoding": "br, GZIP; q=0.5"})
    True
    >>> accepts_gzip({"accept-encoding": "gzip;q=0.0, *"})
    False
    """
    weights = dict(_weights(headers.get("accept-encoding", "")))
    # The weight of all others does not apply to a coding that has its own.
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _weights(header: str) -> Iterator[tuple[str, float]]:
    """Yield the codings of a header with their weights, without malformed ones."""
    for coding in header.split(","):
        found = _CODING.fullmatch(coding.strip())
        if found is not None:
            yield found[1].lower(), float(found[2] or 1)
