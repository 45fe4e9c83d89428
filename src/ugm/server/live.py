"""Live changes of a partition, computed once and sent to any number of clients.

The problem: 200 open pages that read 3,000 queues every second would leave no time for the scheduler.

The idea: while at least one client listens, a feed compares successive snapshots, about one in a second. The
differences are encoded and compressed once for all clients that listen to the same topics. A client that connects gets
the complete state first. Rows are sent with their new values, so a client only stores them.

The invariant: a client that applies all messages in their order has the state of the newest one.

The cost: a snapshot in a second, and for each client a reference to each message. A client that does not read for
`_MOST_UNREAD` messages is dropped; when it connects again, it gets the complete state.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final, get_args

from ugm.errors import UgmError
from ugm.queues import QueueState
from ugm.server.cooperative import cooperatively
from ugm.server.payloads import json_payload
from ugm.server.samples import OwnerUsage
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

#: A value that changes with the values of each row, by the key of the row.
_Rows: TypeAlias = Mapping[Any, object]


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
    rows: Mapping[Topic, _Rows]


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
            # At most half of the time is used, also if a snapshot takes long.
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
        at = self._clock()
        snapshot, models = self._served.snapshot(perf_counter()), self._served.models(perf_counter())
        owners, root = OwnerUsage(snapshot), snapshot.queue()
        queues: _Rows = {} if root is None else dict(_queue_rows(root, snapshot.pending_in_queues))
        pending = {"group": snapshot.pending_of_groups, "user": snapshot.pending_of_users}
        users, groups = (
            {name: (one.used, one.running, pending[kind].get(name)) for name, one in owners.by_kind[kind].items()}
            for kind in ("user", "group")
        )
        trees = {(tree.name, node.name): node for tree in models.trees for node in tree.nodes.values()}
        return _Frame(version, at, {"queues": queues, "users": users, "groups": groups, "trees": trees})

    def _publish(self, frame: _Frame, changes: Mapping[Topic, object]) -> None:
        self._sent_at = perf_counter()
        encoded: dict[frozenset[Topic], LiveMessage] = {}
        for subscription in list(self._subscriptions):
            topics = subscription.topics.intersection(changes)
            if not topics:
                continue
            if topics not in encoded:
                data: dict[str, object] = {"version": frame.version, "at": frame.at}
                data.update((topic, changes[topic]) for topic in sorted(topics))
                encoded[topics] = _message("change", data)
            self._put(subscription, encoded[topics])

    def _send(self, event: str, data: object) -> None:
        self._sent_at = perf_counter()
        message = _message(event, data)
        for subscription in list(self._subscriptions):
            self._put(subscription, message)

    def _put(self, subscription: LiveSubscription, message: LiveMessage) -> None:
        subscription.put(message)
        if subscription.is_closed:
            self.unsubscribe(subscription)

    def _state_message(self, frame: _Frame, topics: frozenset[Topic]) -> LiveMessage:
        if topics not in self._states:
            # Only queues have rows in messages; clients read pages of all others.
            state: dict[str, object] = {"version": frame.version, "at": frame.at}
            if "queues" in topics:
                state["queues"] = dict(_rows_for_json(frame.rows["queues"]))
            self._states[topics] = _message("state", state)
        return self._states[topics]


class _QueueRow(NamedTuple):
    """The values of a queue that messages contain."""

    state: QueueState
    applications: int
    pending: object

    def to_dict(self) -> dict[str, object]:
        fields = {name: value for name, value in self.state.to_dict().items() if name != "children"}
        amounts: Any = self.pending
        return {
            **fields,
            "applications": self.applications,
            "pending": dict(sorted(amounts.amounts.items())) if amounts else {},
            "pending_allocations": amounts.allocations if amounts else 0,
        }


def _queue_rows(root: QueueState, pending: Mapping[str, object]) -> Iterator[tuple[str, _QueueRow]]:
    """Yield the rows of a queue and those below it, the children first."""
    counts: dict[str, int] = {}
    for state in cooperatively(reversed(list(_walk(root)))):
        count = counts[state.queue_path] = len(state.applications) + sum(
            counts[child.queue_path] for child in state.children
        )
        yield state.queue_path, _QueueRow(replace(state, children=()), count, pending.get(state.queue_path))


def _walk(root: QueueState) -> Iterator[QueueState]:
    stack = [root]
    while stack:
        state = stack.pop()
        yield state
        stack.extend(state.children)


def _rows_for_json(rows: _Rows) -> Iterator[tuple[str, object]]:
    for key in sorted(rows, key=str):
        row = rows[key]
        assert isinstance(row, _QueueRow)  # noqa: S101 - `_queue_rows` made it
        yield str(key), row.to_dict()


def _changes(before: _Frame, after: _Frame) -> dict[Topic, object]:
    """Return the changed topics for JSON."""
    found: dict[Topic, object] = {}
    for topic in TOPICS:
        old, new = before.rows[topic], after.rows[topic]
        changed = {key: row for key, row in cooperatively(new.items()) if old.get(key) != row}
        gone = old.keys() - new.keys()
        if changed or gone:
            found[topic] = _queue_changes(changed, gone) if topic == "queues" else _names(topic, {*changed, *gone})
    return found


def _queue_changes(changed: _Rows, gone: set[Any]) -> dict[str, object] | None:
    """Return the rows of changed queues, and null for those that are gone; null alone if there are too many."""
    if len(changed) + len(gone) > _MOST_ROWS:
        return None
    return {**dict(_rows_for_json(changed)), **dict.fromkeys(map(str, sorted(gone, key=str)))}


def _names(topic: Topic, keys: set[Any]) -> dict[str, object]:
    """Return the number of changed users, groups or nodes, and their names if there are not too many."""
    names: list[Any] = sorted(keys, key=str) if len(keys) <= _MOST_NAMES else []
    listed = [{"tree": tree, "node": node} for tree, node in names] if topic == "trees" else names
    return {"changed": len(keys), "names": listed}


def _message(event: str, data: object) -> LiveMessage:
    """Encode a message as a server-sent event."""
    plain = b"event: " + event.encode() + b"\ndata: " + json_payload(data).content + b"\n\n"
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    # A full flush ends at a byte, and nothing after it refers to anything before it.
    return LiveMessage(plain, compressor.compress(plain) + compressor.flush(zlib.Z_FULL_FLUSH))
