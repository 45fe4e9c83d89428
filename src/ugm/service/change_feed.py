"""The feed of durable changes: the leader sends each to the clients that follow.

A change has its number in the log. A client that reconnects, also to another leader, names the last number that it has,
and gets all changes after it. The leader keeps recent changes in memory, and reads older ones from the log. If they
were compacted, the client is refused and has to begin with a query of the whole state. The first message has no data:
it states the number after which the changes begin.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, final

from ugm.journal.errors import JournalError
from ugm.journal.store_reader import StoredChange
from ugm.partition.events import Denied
from ugm.service.denials import encode_denials
from ugm.service.wire import TOO_FAR_BEHIND, ChangeMessage, DenialMessage, Refused, frame

__all__ = ["ChangeFeed", "FeedTarget", "ReadLog"]

#: Returns some changes after a number; None if they were compacted.
ReadLog: TypeAlias = Callable[[int], Sequence[StoredChange] | None]

#: The number of changes that are kept in memory.
_RECENT: Final = 10_000
_GONE: Final = "the changes after this number are not available any more"


class FeedTarget(Protocol):
    """The connection of a client that follows."""

    def send(self, data: bytes) -> None:
        """Send a frame."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@final
class ChangeFeed:
    """The changes of a leader, and the connections that follow them. It is used in the thread of the loop.

    Args:
        last: the number of the last change.
        read_log: reads older changes, in another thread; None without a log.
    """

    __slots__ = ("_catching_up", "_denial_targets", "_loop", "_read_log", "_recent", "_targets", "last")

    def __init__(self, last: int, read_log: ReadLog | None) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._read_log: Final = read_log
        #: The number of the last change.
        self.last: int = last
        #: The frames of recent changes, without gaps up to the last.
        self._recent: Final[deque[bytes]] = deque(maxlen=_RECENT)
        #: The connections that have everything up to the last change.
        self._targets: Final[set[FeedTarget]] = set()
        #: The connections that get denials, whether they have everything or not.
        self._denial_targets: Final[set[FeedTarget]] = set()
        #: The connections for which older changes are being read.
        self._catching_up: Final[set[FeedTarget]] = set()

    def __bool__(self) -> bool:
        return bool(self._targets)

    def publish(self, number: int, data: bytes) -> None:
        """Send a change that is durable now."""
        self.last = number
        message = frame(ChangeMessage(number, data))
        self._recent.append(message)
        for target in self._targets:
            target.send(message)

    def publish_denials(self, denials: Sequence[Denied]) -> None:
        """Send denials whose reasons are durable now."""
        targets = self._targets & self._denial_targets
        if denials and targets:
            message = frame(DenialMessage(encode_denials(denials)))
            for target in targets:
                target.send(message)

    def follow(self, target: FeedTarget, after: int, *, denials: bool = False) -> None:
        """Send all changes after a number to a connection, now and from now on; from now on only if it is negative.

        Args:
            target: the connection.
            after: the number.
            denials: whether the connection gets denials, too, from now on.
        """
        if denials:
            self._denial_targets.add(target)
        begin = self.last if after < 0 else after
        if begin > self.last:
            _refuse(target, f"there is no change {begin} yet")
        else:
            self._send_from(target, begin, frame(ChangeMessage(begin, b"")))

    def _send_from(self, target: FeedTarget, after: int, beginning: bytes) -> None:
        """Send a message and all changes after a number."""
        missing = self.last - after
        if missing <= len(self._recent):
            target.send(beginning)
            for index in range(len(self._recent) - missing, len(self._recent)):
                target.send(self._recent[index])
            self._catching_up.discard(target)
            self._targets.add(target)
        elif self._read_log is None:
            _refuse(target, _GONE)
        else:
            self._catching_up.add(target)
            self._loop.run_in_executor(None, self._read, self._read_log, target, after, beginning)

    def _read(self, read_log: ReadLog, target: FeedTarget, after: int, beginning: bytes) -> None:
        """Read older changes; in another thread."""
        try:
            changes = read_log(after)
        except JournalError:
            # The client connects again, and perhaps the log can be read then.
            self._loop.call_soon_threadsafe(target.close)
        else:
            self._loop.call_soon_threadsafe(partial(self._send_older, target, after, beginning, changes))

    def _send_older(
        self, target: FeedTarget, after: int, beginning: bytes, changes: Sequence[StoredChange] | None
    ) -> None:
        if target not in self._catching_up:
            # The connection was lost meanwhile.
            return
        if not changes:
            _refuse(target, _GONE)
            return
        target.send(beginning)
        # The log may have changes that this leader has not published yet.
        older = [change for change in changes if change.number <= self.last]
        for change in older:
            target.send(frame(ChangeMessage(change.number, change.data)))
        self._send_from(target, older[-1].number if older else after, b"")

    def leave(self, target: FeedTarget) -> None:
        """Forget a connection."""
        self._targets.discard(target)
        self._catching_up.discard(target)
        self._denial_targets.discard(target)


def _refuse(target: FeedTarget, reason: str) -> None:
    target.send(frame(Refused(TOO_FAR_BEHIND, reason)))
    target.close()
