"""The endpoint of live changes: server-sent events over HTTP, compressed if the client accepts it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, cast, final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ugm.server.live import TOPICS, LiveFeed, LiveSubscription, Topic
from ugm.server.payloads import ApiError, require_found
from ugm.server.representation import accepts_gzip
from ugm.server.requests import parse_path, parse_query
from ugm.server.responses import error_response
from ugm.server.route import PREFIX, STREAM_PATH, Route
from ugm.server.schemas import listing
from ugm.server.state import RequestContext, ServedPartition

__all__ = ["STREAM", "EventStreams"]

#: The number of streams of one server.
_MOST_STREAMS: Final = 300
#: The header of a gzip stream, and the last block of its compressed data.
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_LAST_BLOCK: Final = b"\x03\x00"
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"vary", b"accept-encoding"),
    # Proxies must not collect events.
    (b"x-accel-buffering", b"no"),
]


def stream(_served: ServedPartition, _context: RequestContext) -> None:
    """Return the changes of a partition as server-sent events, until the client disconnects."""


#: Describes and validates the requests; `EventStreams` answers them.
STREAM: Final[Route[ServedPartition]] = Route(
    "GET",
    STREAM_PATH.removeprefix(PREFIX),
    stream,
    {"type": "string", "description": "Events ``state``, ``change``, ``idle`` and ``outage``, each with JSON data."},
    {"topic": listing({"type": "string", "enum": list(TOPICS)}, maxItems=len(TOPICS))},
    is_stream=True,
)


@final
class EventStreams:
    """The streams of one server, as an ASGI application.

    Args:
        partitions: the partitions by name.
        clock: returns the time, in seconds since 1970.
    """

    __slots__ = ("_feeds",)

    def __init__(self, partitions: Mapping[str, ServedPartition], clock: Callable[[], float]) -> None:
        self._feeds: Final = {name: LiveFeed(served, clock) for name, served in partitions.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the changes of a partition until the client disconnects, reads too slowly, or the server stops."""
        request = Request(scope)
        try:
            feed, topics = self._find(request)
        except ApiError as error:
            await error_response(error)(scope, receive, send)
            return
        is_compressed = accepts_gzip(request.headers)
        if request.method == "HEAD":
            # The response to HEAD has no body, so it must end at once, without occupying a stream.
            await _send_start(send, is_compressed=is_compressed)
            await _send_part(send, b"", is_last=True)
            return
        subscription = feed.subscribe(topics)
        # `ugm.server.connections` calls it when the server stops, or the client closes its side of the connection.
        scope["ugm.stop"] = subscription.close
        if "ugm.half-closed" in scope:
            subscription.close()
        watch = asyncio.create_task(_close_on_disconnect(receive, subscription))
        try:
            await _send_messages(send, subscription, is_compressed=is_compressed)
        finally:
            feed.unsubscribe(subscription)
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    def _find(self, request: Request) -> tuple[LiveFeed, frozenset[Topic]]:
        feed = require_found("partition", parse_path(request)["partition"], self._feeds.get)
        topics = parse_query(request, STREAM).get("topic", TOPICS)
        if sum(map(len, self._feeds.values())) >= _MOST_STREAMS:
            raise ApiError(503, "busy", "too many streams are open")
        return feed, frozenset(cast("tuple[Topic, ...]", topics))


async def _close_on_disconnect(receive: Receive, subscription: LiveSubscription) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    subscription.close()


async def _send_messages(send: Send, subscription: LiveSubscription, *, is_compressed: bool) -> None:
    await _send_start(send, is_compressed=is_compressed)
    # The first bytes tell a client that it is connected.
    await _send_part(send, _GZIP_HEADER if is_compressed else b":\n\n")
    checksum = size = 0
    while (message := await subscription.next()) is not None:
        checksum, size = zlib.crc32(message.plain, checksum), size + len(message.plain)
        await _send_part(send, message.compressed if is_compressed else message.plain)
    end = _LAST_BLOCK + checksum.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
    await _send_part(send, end if is_compressed else b"", is_last=True)


async def _send_start(send: Send, *, is_compressed: bool) -> None:
    coding = [(b"content-encoding", b"gzip")] if is_compressed else []
    await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *coding]})


async def _send_part(send: Send, body: bytes, *, is_last: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": not is_last})
