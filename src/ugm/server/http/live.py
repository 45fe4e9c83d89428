"""Live changes of a partition, sent to any number of clients as server-sent events over HTTP.

The problem: 200 open pages that read 3,000 queues every second would leave no time for the scheduler.

The idea: while at least one client listens, the partition is read about once per second. Each client gets the complete
state first, and then the differences between the last reading that it has and the newest one. Rows are sent with their
new values, so a client only stores them. Clients with the same last reading and the same topics share one message.

Invariant: a client that applies all messages in their order has the state of the newest one. A client that receives
slowly gets fewer and larger changes, and costs no memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from time import monotonic
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, final, get_args

from msgspec import Meta

from ugm.errors import UgmError
from ugm.partition import AbstractPartition, PartitionSnapshot
from ugm.server.http.payloads import ApiError, json_payload
from ugm.server.interface.route import PARTITION, Routes, ServedPartition
from ugm.server.views.model_trees import trees_of
from ugm.server.views.utilization import queue_rows

Topic: TypeAlias = Literal["groups", "queues", "trees", "users"]
_LOGGER: Final = logging.getLogger(__name__)

TOPICS: Final[tuple[Topic, ...]] = get_args(Topic)

#: The shortest time between the beginnings of two readings, in seconds.
_PERIOD: Final = 1.0
#: The longest time without a message, in seconds: so a client notices a lost connection.
_IDLE_SECONDS: Final = 5.0
#: The number of changed queues in one message; beyond it, the client has to read the tree again.
_MOST_ROWS: Final = 5000
#: The number of streams of one partition.
_MOST_STREAMS: Final = 300


class _Frame(NamedTuple):
    """The state of the partition at one moment."""

    #: The same for successive frames without a difference.
    version: int
    #: In seconds since 1970.
    at: float
    #: The rows of queues; the amounts of users and groups; and the nodes of trees, empty if nobody listens to them.
    rows: Mapping[Topic, Mapping[Any, object]]
    #: The reason why the partition could not be read; empty if it was.
    outage: str = ""


@final
class LiveFeed:
    """The changes of one partition.

    Args:
        partition: the partition.
        now: returns the time in seconds since 1970.
    """

    def __init__(self, partition: AbstractPartition, now: Callable[[], float]) -> None:
        self._partition: Final = partition
        self._now: Final = now
        self._is_closed = False
        #: The number of streams with each topic.
        self._listeners = Counter[Topic]()
        #: Held while the partition is read, and while frames are compared.
        self._reading: Final = asyncio.Lock()
        #: The newest frame; None while nobody listens.
        self._frame: _Frame | None = None
        #: When the partition may be read again, on the monotonic clock.
        self._next_at = 0.0
        #: The messages that lead to the newest frame, by the versions of the two frames, and topics.
        self._messages: dict[tuple[int | None, int, frozenset[Topic]], bytes] = {}

    def close(self) -> None:
        """End all streams within about a second, for example because the server stops."""
        self._is_closed = True

    def stream(self, topics: frozenset[Topic]) -> AsyncIterator[bytes]:
        """Return the messages for a client: the complete state, and then the changes.

        Raises:
            ApiError: too many streams are open.
        """
        if max(self._listeners.values(), default=0) >= _MOST_STREAMS:
            raise ApiError(503, "busy", "too many streams are open")
        return self._stream(topics)

    async def _stream(self, topics: frozenset[Topic]) -> AsyncIterator[bytes]:
        self._listeners.update(topics)
        try:
            # The first bytes tell a client that it is connected.
            yield b":\n\n"
            newest = known = None
            sent_at = monotonic()
            while not self._is_closed:
                newest = await self._next(newest)
                message = await self._message(known, newest, topics)
                known = known if newest.outage else newest
                if not message and monotonic() - sent_at > _IDLE_SECONDS:
                    message = _encode("idle", newest, {})
                if message:
                    sent_at = monotonic()
                    yield message
        finally:
            self._listeners.subtract(topics)
            if not +self._listeners:
                self._frame = None

    async def _next(self, seen: _Frame | None) -> _Frame:
        """Return a frame that is newer than one that a client has seen."""
        async with self._reading:
            if self._frame is None or self._frame is seen:
                await asyncio.sleep(self._next_at - monotonic())
                began = monotonic()
                self._frame = await asyncio.to_thread(self._read, self._frame)
                self._messages.clear()
                # At most half of the time is used, even if reading takes long.
                ended = monotonic()
                self._next_at = ended + max(_PERIOD - (ended - began), ended - began)
            return self._frame

    def _read(self, before: _Frame | None) -> _Frame:
        last = before or _Frame(0, 0.0, {topic: {} for topic in TOPICS})
        at = self._now()
        try:
            rows = _rows(self._partition.snapshot())
            trees = trees_of(self._partition.model_reports()) if self._listeners["trees"] else ()
            rows["trees"] = {(tree.name, node.name): node for tree in trees for node in tree.nodes.values()}
        except UgmError as error:
            return last._replace(at=at, outage=str(error))
        except Exception:
            _LOGGER.exception("the live changes of a partition failed")
            return last._replace(at=at, outage="the server failed; its log has the details")
        return _Frame(last.version + (rows != last.rows), at, rows)

    async def _message(self, known: _Frame | None, newest: _Frame, topics: frozenset[Topic]) -> bytes:
        """Return the message after which a client has the newest frame; empty if nothing has changed."""
        if newest.outage:
            return _encode("outage", None, {"at": newest.at, "reason": newest.outage})
        if known is not None and known.version == newest.version:
            return b""
        key = None if known is None else known.version, newest.version, topics
        async with self._reading:
            if key not in self._messages:
                self._messages[key] = await asyncio.to_thread(_state_or_changes, known, newest, topics)
            return self._messages[key]


def _state_or_changes(known: _Frame | None, newest: _Frame, topics: frozenset[Topic]) -> bytes:
    if known is None:
        # Only queues have rows in messages; clients read pages of all others.
        return _encode("state", newest, {"queues": newest.rows["queues"]} if "queues" in topics else {})
    changes = _changes(known, newest, topics)
    return _encode("change", newest, changes) if changes else b""


def _rows(snapshot: PartitionSnapshot) -> dict[Topic, Mapping[Any, object]]:
    def amounts(used: Mapping[str, object], waiting: Mapping[str, object]) -> Mapping[Any, object]:
        return {name: (used.get(name), waiting.get(name)) for name in {**used, **waiting}}

    running, pending = snapshot.running, snapshot.pending
    groups, users = amounts(running.groups, pending.groups), amounts(running.users, pending.users)
    return {"queues": queue_rows(snapshot), "groups": groups, "users": users}


def _changes(before: _Frame, after: _Frame, topics: frozenset[Topic]) -> dict[str, object]:
    """Return the changed topics for JSON."""
    found: dict[str, object] = {}
    for topic in sorted(topics):
        old, new = before.rows[topic], after.rows[topic]
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        if names and topic == "queues":
            # Those that are gone are null, and null alone if there are too many.
            found[topic] = {name: new.get(name) for name in names} if len(names) <= _MOST_ROWS else None
        elif names:
            found[topic] = {"changed": len(names)}
    return found


def _encode(event: str, frame: _Frame | None, fields: Mapping[str, object]) -> bytes:
    """Encode a message about a frame as a server-sent event."""
    place = {} if frame is None else {"version": frame.version, "at": frame.at}
    return b"event: " + event.encode() + b"\ndata: " + json_payload({**place, **fields}).content + b"\n\n"


_EVENTS: Final = {
    "type": "string",
    "description": "Events ``state``, ``change``, ``idle`` and ``outage``, each with JSON data.",
}

ROUTES: Final = Routes()


@ROUTES.get(f"{PARTITION}/stream", media_types=("text/event-stream",))
def stream(
    served: ServedPartition,
    *,
    topic: Annotated[list[Topic], Meta(max_length=len(TOPICS))] = [],  # noqa: B006 - not changed
) -> Annotated[AsyncIterator[bytes], _EVENTS]:
    """Return the changes of a partition as server-sent events, until the client disconnects."""
    return served.stream(frozenset(topic or TOPICS))
