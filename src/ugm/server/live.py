"""Live changes of a partition, computed once and sent to any number of clients.

The problem: 200 open pages that read 3,000 queues every second would leave no time for the scheduler.

The idea: while at least one client listens, a feed compares successive snapshots, about one per second. Queues that
have not changed are the same objects in both, and those that have are encoded once for streams and responses. The
differences are compressed once for all clients that listen to the same topics. A client that connects gets the complete
state first. Rows are sent with their new values, so a client only stores them.

Invariant: a client that applies all messages in their order has the state of the newest one.

The cost: a snapshot per second, and for each client a reference to each message. A client that does not read for
`_MOST_UNREAD` messages is dropped; when it connects again, it gets the complete state.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from time import perf_counter
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, final, get_args

from ugm.errors import UgmError
from ugm.partition.line_index import changed_keys
from ugm.server.cooperative import cooperatively
from ugm.server.payloads import json_payload
from ugm.server.queue_rows import QueueRow
from ugm.server.state import ServedPartition

__all__ = ["TOPICS", "LiveFeed", "LiveMessage", "LiveSubscription", "Topic"]

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
_T = TypeVar("_T")
#: The nodes of trees, by the names of tree and node.
_Rows: TypeAlias = Mapping[tuple[str, str], object]


class LiveMessage(NamedTuple):
    """One encoded message, plain and compressed.

    The compressed form is a part of a stream: parts of different messages can be joined in any order.
    """

    plain: bytes
    compressed: bytes


class _Frame(NamedTuple):
    """The state of the partition at one moment."""

    version: int
    #: In seconds since 1970.
    at: float
    queues: Mapping[str, QueueRow]
    #: The usage and the pending allocations of users and of groups.
    owners: Mapping[Topic, tuple[Mapping[str, object], Mapping[str, object]]]
    #: Empty if nobody listens to them.
    trees: _Rows

    def data(self, fields: Mapping[Topic, bytes]) -> bytes:
        """Return the data of a message about this state, with more fields as JSON."""
        parts = [_json(name) + b":" + field for name, field in fields.items()]
        return b"{" + b",".join([_json({"version": self.version, "at": self.at})[1:-1], *parts]) + b"}"


@final
class LiveSubscription:
    """The unread messages of one client."""

    __slots__ = ("_arrived", "_is_closed", "_messages", "topics")

    def __init__(self, topics: frozenset[Topic]) -> None:
        self.topics: Final = topics
        self._messages: Final[deque[LiveMessage]] = deque()
        self._arrived: Final = asyncio.Event()
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """True if no further messages are added."""
        return self._is_closed

    def put(self, message: LiveMessage) -> None:
        """Add a message, or drop the client if it has left too many unread."""
        if len(self._messages) >= _MOST_UNREAD:
            self._messages.clear()
            self.close()
        elif not self._is_closed:
            self._messages.append(message)
            self._arrived.set()

    def close(self) -> None:
        """Add no further messages."""
        self._is_closed = True
        self._arrived.set()

    async def next(self) -> LiveMessage | None:
        """Wait for the next message, and return it; None if the subscription is closed."""
        while not self._messages:
            if self._is_closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._messages.popleft()


@final
class LiveFeed:
    """The changes of one partition; all methods are called in the event loop.

    Args:
        served: the partition.
        clock: returns the time, in seconds since 1970.
    """

    __slots__ = ("_clock", "_frame", "_sent_at", "_served", "_states", "_subscriptions", "_task")

    #: The newest frame; None while nobody listens.
    _frame: _Frame | None
    #: The encoded states of the newest frame, by topics.
    _states: dict[frozenset[Topic], LiveMessage]
    _task: asyncio.Task[None] | None

    def __init__(self, served: ServedPartition, clock: Callable[[], float]) -> None:
        self._served: Final = served
        self._clock: Final = clock
        self._subscriptions: Final[set[LiveSubscription]] = set()
        self._frame = None
        self._states = {}
        self._sent_at = 0.0
        self._task = None

    def __len__(self) -> int:
        return len(self._subscriptions)

    def subscribe(self, topics: frozenset[Topic]) -> LiveSubscription:
        """Add a client; its first message is the complete state."""
        subscription = LiveSubscription(topics)
        self._subscriptions.add(subscription)
        if self._frame is not None:
            subscription.put(self._state_message(self._frame, topics))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return subscription

    def unsubscribe(self, subscription: LiveSubscription) -> None:
        """Remove a client."""
        self._subscriptions.discard(subscription)

    async def _run(self) -> None:
        while self._subscriptions:
            began = perf_counter()
            try:
                await self._step()
            except UgmError as error:
                self._send("outage", {"at": self._clock(), "reason": str(error)})
            except Exception:
                _LOGGER.exception("the live changes of partition %r failed", self._served.name)
                self._send("outage", {"at": self._clock(), "reason": "the server failed; its log has the details"})
            took = perf_counter() - began
            # At most half of the time is used, even if a snapshot takes long.
            await asyncio.sleep(max(_PERIOD - took, took))
        self._frame, self._states = None, {}

    async def _step(self) -> None:
        before = self._frame
        frame = await asyncio.to_thread(self._read, 1 if before is None else before.version + 1)
        if before is None:
            self._frame = frame
            for subscription in self._subscriptions:
                subscription.put(self._state_message(frame, subscription.topics))
        elif changes := await asyncio.to_thread(_changes, before, frame):
            self._frame, self._states = frame, {}
            self._publish(frame, changes)
        elif perf_counter() - self._sent_at > _IDLE_SECONDS:
            self._send("idle", {"version": before.version, "at": frame.at})

    def _read(self, version: int) -> _Frame:
        at, since = self._clock(), perf_counter()
        snapshot, queues = self._served.queue_rows(since)
        users = snapshot.usage_of_users, snapshot.pending_of_users
        groups = snapshot.usage_of_groups, snapshot.pending_of_groups
        trees: _Rows = {}
        if any("trees" in one.topics for one in list(self._subscriptions)):
            models = self._served.models(since)
            trees = {(tree.name, node.name): node for tree in models.trees for node in tree.nodes.values()}
        return _Frame(version, at, queues, {"groups": groups, "users": users}, trees)

    def _publish(self, frame: _Frame, changes: Mapping[Topic, bytes]) -> None:
        self._sent_at = perf_counter()
        encoded: dict[frozenset[Topic], LiveMessage] = {}
        for subscription in list(self._subscriptions):
            topics = subscription.topics.intersection(changes)
            if not topics:
                continue
            if topics not in encoded:
                encoded[topics] = _message("change", frame.data({topic: changes[topic] for topic in sorted(topics)}))
            self._put(subscription, encoded[topics])

    def _send(self, event: str, data: object) -> None:
        self._sent_at = perf_counter()
        message = _message(event, _json(data))
        for subscription in list(self._subscriptions):
            self._put(subscription, message)

    def _put(self, subscription: LiveSubscription, message: LiveMessage) -> None:
        subscription.put(message)
        if subscription.is_closed:
            self.unsubscribe(subscription)

    def _state_message(self, frame: _Frame, topics: frozenset[Topic]) -> LiveMessage:
        if topics not in self._states:
            # Only queues have rows in messages; clients read pages of all others.
            fields: dict[Topic, bytes] = {"queues": _rows_for_json(frame.queues)} if "queues" in topics else {}
            self._states[topics] = _message("state", frame.data(fields))
        return self._states[topics]


def _rows_for_json(rows: Mapping[str, QueueRow], gone: Iterable[str] = ()) -> bytes:
    """Return rows by path, and null for those that are gone."""
    parts = [_json(path) + b":" + rows[path].alone for path in cooperatively(sorted(rows))]
    return b"{" + b",".join([*parts, *(_json(path) + b":null" for path in sorted(gone))]) + b"}"


def _changes(before: _Frame, after: _Frame) -> dict[Topic, bytes]:
    """Return the changed topics as JSON."""
    found: dict[Topic, bytes] = {}
    if queues := _different(before.queues, after.queues, _encoded):
        found["queues"] = _queue_changes(after, queues)
    for topic, maps in after.owners.items():
        pairs = zip(before.owners[topic], maps, strict=True)
        if names := {name for pair in pairs for name in _different(*pair)}:
            found[topic] = _json(_names(topic, names))
    if nodes := _different(before.trees, after.trees):
        found["trees"] = _json(_names("trees", nodes))
    return found


def _different(
    before: Mapping[_K, _T], after: Mapping[_K, _T], value: Callable[[_T | None], object] = lambda one: one
) -> set[_K]:
    """Return the keys whose values differ; most of the equal ones are the same object."""
    changed = changed_keys(before, after)
    return {key for key in cooperatively(changed) if value(before.get(key)) != value(after.get(key))}


def _encoded(row: QueueRow | None) -> bytes | None:
    return None if row is None else row.alone


def _queue_changes(frame: _Frame, changed: set[str]) -> bytes:
    """Return the rows of changed queues, and null for those that are gone; null alone if there are too many."""
    if len(changed) > _MOST_ROWS:
        return b"null"
    rows = {path: frame.queues[path] for path in changed if path in frame.queues}
    return _rows_for_json(rows, changed - rows.keys())


def _names(topic: Topic, keys: set[Any]) -> dict[str, object]:
    """Return the number of changed users, groups or nodes, and their names if there are not too many."""
    names: list[Any] = sorted(keys, key=str) if len(keys) <= _MOST_NAMES else []
    listed = [{"tree": tree, "node": node} for tree, node in names] if topic == "trees" else names
    return {"changed": len(keys), "names": listed}


def _json(value: object) -> bytes:
    return json_payload(value).content


def _message(event: str, data: bytes) -> LiveMessage:
    """Encode a message as a server-sent event."""
    plain = b"event: " + event.encode() + b"\ndata: " + data + b"\n\n"
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    # A full flush ends at a byte, and nothing after it refers to anything before it.
    return LiveMessage(plain, compressor.compress(plain) + compressor.flush(zlib.Z_FULL_FLUSH))
