"""Live changes of a partition, computed once and sent to any number of clients as server-sent events over HTTP.

The problem: 200 open pages that read 3,000 queues every second would leave no time for the scheduler.

The idea: while at least one client listens, a feed compares successive snapshots, about one per second. The differences
are encoded once for all clients that listen to the same topics. A client that connects gets the complete state first.
Rows are sent with their new values, so a client only stores them.

Invariant: a client that applies all messages in their order has the state of the newest one.

The cost: a snapshot per second, and for each client a reference to each message. A client that does not read for
`_MOST_UNREAD` messages is dropped; when it connects again, it gets the complete state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, final, get_args

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ugm.errors import UgmError
from ugm.server.http.payloads import ApiError, Payload, json_payload, require_found
from ugm.server.http.requests import error_response, parse_parameters
from ugm.server.interface.route import PARTITION, Routes, ServedPartition
from ugm.server.interface.schemas import Object
from ugm.server.views.model_trees import trees_of
from ugm.server.views.utilization import queue_rows

__all__ = ["ROUTES", "TOPICS", "EventStreams", "LiveFeed", "LiveSubscription", "Topic"]

Topic: TypeAlias = Literal["groups", "queues", "trees", "users"]
_LOGGER: Final = logging.getLogger(__name__)

TOPICS: Final[tuple[Topic, ...]] = get_args(Topic)

#: The shortest time between the beginnings of two snapshots, in seconds.
_PERIOD: Final = 1.0
#: The longest time without a message, in seconds: so a client notices a lost connection.
_IDLE_SECONDS: Final = 5.0
#: The number of messages that a client may leave unread.
_MOST_UNREAD: Final = 16
#: The number of changed queues in one message; beyond it, the client has to read the tree again.
_MOST_ROWS: Final = 5000
#: The number of changed names in one message.
_MOST_NAMES: Final = 200

_K = TypeVar("_K", bound=Hashable)


class _Frame(NamedTuple):
    """The state of the partition at one moment."""

    version: int
    #: In seconds since 1970.
    at: float
    queues: Mapping[str, Object]
    #: The usage and the pending allocations of users and of groups.
    owners: Mapping[Topic, tuple[Mapping[str, object], Mapping[str, object]]]
    #: The nodes of trees, by the names of tree and node; empty if nobody listens to them.
    trees: Mapping[tuple[str, str], object]

    def message(self, event: str, fields: Mapping[Topic, object]) -> bytes:
        """Encode a message about this state."""
        return _message(
            event, {"version": self.version, "at": self.at} | {str(name): field for name, field in fields.items()}
        )


@final
@dataclass(eq=False)
class LiveSubscription:
    """The unread messages of one client."""

    topics: frozenset[Topic]
    #: Whether no further messages are added.
    is_closed: bool = False
    #: The last one is None.
    _messages: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)

    def put(self, message: bytes) -> None:
        """Add a message, or drop the client if it has left too many unread."""
        if self._messages.qsize() >= _MOST_UNREAD:
            self._messages = asyncio.Queue()
            self.close()
        elif not self.is_closed:
            self._messages.put_nowait(message)

    def close(self) -> None:
        """Add no further messages."""
        self.is_closed = True
        self._messages.put_nowait(None)

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield the messages until the subscription is closed."""
        while (message := await self._messages.get()) is not None:
            yield message


@final
@dataclass(eq=False)
class LiveFeed:
    """The changes of one partition; all methods but `close` are called in the event loop."""

    served: ServedPartition
    _subscriptions: set[LiveSubscription] = field(default_factory=set)
    #: The newest frame; None while nobody listens.
    _frame: _Frame | None = None
    #: The event loop of the subscriptions; None before the first one.
    _loop: asyncio.AbstractEventLoop | None = None
    _sent_at: float = 0.0
    _task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._subscriptions)

    def subscribe(self, topics: frozenset[Topic]) -> LiveSubscription:
        """Add a client; its first message is the complete state."""
        subscription = LiveSubscription(topics)
        self._subscriptions.add(subscription)
        self._loop = asyncio.get_running_loop()
        if self._frame is not None:
            subscription.put(_state_message(self._frame, topics))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return subscription

    def unsubscribe(self, subscription: LiveSubscription) -> None:
        """Remove a client."""
        self._subscriptions.discard(subscription)

    def close(self) -> None:
        """End all streams; it may be called in any thread."""
        if self._loop is not None:
            for subscription in list(self._subscriptions):
                self._loop.call_soon_threadsafe(subscription.close)

    async def _run(self) -> None:
        while self._subscriptions:
            began = perf_counter()
            try:
                await self._step()
            except UgmError as error:
                self._send("outage", {"at": self.served.now(), "reason": str(error)})
            except Exception:
                _LOGGER.exception("the live changes of partition %r failed", self.served.name)
                self._send("outage", {"at": self.served.now(), "reason": "the server failed; its log has the details"})
            took = perf_counter() - began
            # At most half of the time is used, even if a snapshot takes long.
            await asyncio.sleep(max(_PERIOD - took, took))
        self._frame = None

    async def _step(self) -> None:
        before = self._frame
        frame = await asyncio.to_thread(self._read, 1 if before is None else before.version + 1)
        if before is None:
            self._frame = frame
            for subscription in self._subscriptions:
                subscription.put(_state_message(frame, subscription.topics))
        elif changes := await asyncio.to_thread(_changes, before, frame):
            self._frame = frame
            self._publish(frame, changes)
        elif perf_counter() - self._sent_at > _IDLE_SECONDS:
            self._send("idle", {"version": before.version, "at": frame.at})

    def _read(self, version: int) -> _Frame:
        at = self.served.now()
        snapshot = self.served.partition.snapshot()
        users = snapshot.running.users, snapshot.pending.users
        groups = snapshot.running.groups, snapshot.pending.groups
        wants_trees = any("trees" in one.topics for one in list(self._subscriptions))
        trees = trees_of(self.served.partition.model_reports()) if wants_trees else ()
        nodes = {(tree.name, node.name): node for tree in trees for node in tree.nodes.values()}
        return _Frame(version, at, queue_rows(snapshot), {"groups": groups, "users": users}, nodes)

    def _publish(self, frame: _Frame, changes: Mapping[Topic, object]) -> None:
        self._sent_at = perf_counter()
        encoded: dict[frozenset[Topic], bytes] = {}
        for subscription in list(self._subscriptions):
            topics = subscription.topics.intersection(changes)
            if not topics:
                continue
            if topics not in encoded:
                encoded[topics] = frame.message("change", {topic: changes[topic] for topic in sorted(topics)})
            self._put(subscription, encoded[topics])

    def _send(self, event: str, data: object) -> None:
        self._sent_at = perf_counter()
        message = _message(event, data)
        for subscription in list(self._subscriptions):
            self._put(subscription, message)

    def _put(self, subscription: LiveSubscription, message: bytes) -> None:
        subscription.put(message)
        if subscription.is_closed:
            self.unsubscribe(subscription)


def _state_message(frame: _Frame, topics: frozenset[Topic]) -> bytes:
    # Only queues have rows in messages; clients read pages of all others.
    return frame.message("state", {"queues": frame.queues} if "queues" in topics else {})


def _changes(before: _Frame, after: _Frame) -> dict[Topic, object]:
    """Return the changed topics for JSON."""
    found: dict[Topic, object] = {}
    if queues := _different(before.queues, after.queues):
        # Those that are gone are null, and null alone if there are too many.
        found["queues"] = {path: after.queues.get(path) for path in queues} if len(queues) <= _MOST_ROWS else None
    for topic, maps in after.owners.items():
        pairs = zip(before.owners[topic], maps, strict=True)
        if names := {name for pair in pairs for name in _different(*pair)}:
            found[topic] = _names(topic, names)
    if nodes := _different(before.trees, after.trees):
        found["trees"] = _names("trees", nodes)
    return found


def _different(before: Mapping[_K, object], after: Mapping[_K, object]) -> set[_K]:
    """Return the keys whose values differ."""
    return {key for key in {**before, **after} if before.get(key) != after.get(key)}


def _names(topic: Topic, keys: set[Any]) -> Object:
    """Return the number of changed users, groups or nodes, and their names if there are not too many."""
    names: list[Any] = sorted(keys, key=str) if len(keys) <= _MOST_NAMES else []
    listed = [{"tree": tree, "node": node} for tree, node in names] if topic == "trees" else names
    return {"changed": len(keys), "names": listed}


def _message(event: str, data: object) -> bytes:
    """Encode a message as a server-sent event."""
    return b"event: " + event.encode() + b"\ndata: " + json_payload(data).content + b"\n\n"


#: The number of streams of one server.
_MOST_STREAMS: Final = 300
#: Proxies must not collect events.
_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
_EVENTS: Final = {
    "type": "string",
    "description": "Events ``state``, ``change``, ``idle`` and ``outage``, each with JSON data.",
}

ROUTES: Final = Routes()


@ROUTES.get(f"{PARTITION}/stream", media_types=("text/event-stream",))
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
