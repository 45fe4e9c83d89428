"""The endpoint of live changes: server-sent events over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Final, final

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ugm.server.http.live import TOPICS, LiveFeed, LiveSubscription, Topic
from ugm.server.http.payloads import ApiError, Payload, require_found
from ugm.server.http.requests import parse_parameters
from ugm.server.http.responses import error_response
from ugm.server.interface.route import Routes
from ugm.server.interface.state import ServedPartition

__all__ = ["ROUTES", "EventStreams"]

#: The number of streams of one server.
_MOST_STREAMS: Final = 300
#: Proxies must not collect events.
_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
_EVENTS: Final = {
    "type": "string",
    "description": "Events ``state``, ``change``, ``idle`` and ``outage``, each with JSON data.",
}

ROUTES: Final = Routes()


@ROUTES.get("/partition/{partition}/stream", media_types=("text/event-stream",))
def stream(
    _served: ServedPartition,
    *,
    topic: Annotated[list[Topic], Meta(max_length=len(TOPICS))] = [],  # noqa: B006 - not changed
) -> Annotated[Payload, _EVENTS]:
    """Return the changes of a partition as server-sent events, until the client disconnects."""
    # It describes and validates the requests; `EventStreams` answers them.
    raise NotImplementedError


@final
class EventStreams:
    """The streams of one server.

    Args:
        partitions: the partitions by name.
    """

    def __init__(self, partitions: Mapping[str, ServedPartition]) -> None:
        self._feeds: Final = {name: LiveFeed(served) for name, served in partitions.items()}

    def close(self) -> None:
        """End all streams, for example because the server stops."""
        for feed in self._feeds.values():
            feed.close()

    async def endpoint(self, request: Request) -> Response:
        """Send the changes of a partition until the client disconnects, reads too slowly, or the server stops."""
        try:
            feed = require_found("partition", request.path_params["partition"], self._feeds.get)
            topics: frozenset[Topic] = frozenset(parse_parameters(request, ROUTES.found[0])["topic"] or TOPICS)
        except ApiError as error:
            return error_response(error)
        if sum(map(len, self._feeds.values())) >= _MOST_STREAMS:
            return error_response(ApiError(503, "busy", "too many streams are open"))
        if request.method == "HEAD":
            # The response to HEAD has no body, so it must end at once, without occupying a stream.
            return Response(headers=_HEADERS, media_type="text/event-stream")
        return StreamingResponse(_messages(feed, feed.subscribe(topics)), 200, _HEADERS, "text/event-stream")


async def _messages(feed: LiveFeed, subscription: LiveSubscription) -> AsyncIterator[bytes]:
    try:
        # The first bytes tell a client that it is connected.
        yield b":\n\n"
        async for message in subscription.messages():
            yield message
    finally:
        feed.unsubscribe(subscription)
