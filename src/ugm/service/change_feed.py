"""The feed of durable changes: the leader sends each to the clients that follow.

A change has its number in the log. A client that reconnects, also to another leader, names the last number that it has,
and gets all changes after it. If they were compacted, the client is refused and has to begin with a query of the whole
state. The first message has no data: it states the number after which the changes begin.

The problem: a client may begin far behind, or read slowly, and changes may be large. What waits for it must not fill
the memory of the leader, and the client must not lose its connection only because it is slow.

The idea: changes wait in the log. A client that has not read much of what it was sent gets nothing more until it has.
Then it continues after the last change that it was sent, with the recent changes, which the leader keeps in memory for
all of them, or with older ones from the log. These are read in small parts. A leader without a log keeps more recent
changes, and refuses a client that needs older ones.

The cost: a client that is behind gets no denials, because they are not in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeAlias, final

from ugm.journal.errors import JournalDamagedError, JournalError
from ugm.journal.store_reader import StoredChange
from ugm.partition.events import Denied
from ugm.service.denials import encode_denials
from ugm.service.wire import DAMAGED, TOO_FAR_BEHIND, ChangeMessage, DenialMessage, Refused, frame

__all__ = ["READ_SIZE", "ChangeFeed", "FeedTarget", "ReadLog"]

#: Returns some changes after a number; None if they were compacted.
ReadLog: TypeAlias = Callable[[int], Sequence[StoredChange] | None]

_LOGGER: Final = logging.getLogger(__name__)

#: The size of the changes that are read from the log at once, in bytes; only the last one may exceed it.
READ_SIZE: Final = 2**20
#: The size of the recent changes that are kept in memory, in bytes, with and without a log.
_RECENT: Final = 8 * 2**20
_RECENT_WITHOUT_LOG: Final = 64 * 2**20
_GONE: Final = "the changes after this number are not available any more"


class FeedTarget(Protocol):
    """The connection of a client that follows."""

    @property
    def is_behind(self) -> bool:
        """True if further changes should wait until `ChangeFeed.follow_on` is called."""
        ...

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

    __slots__ = (
        *("_catching_up", "_denial_targets", "_loop", "_read_log", "_recent", "_recent_size", "_targets", "_waiting"),
        "last",
    )

    def __init__(self, last: int, read_log: ReadLog | None) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._read_log: Final = read_log
        #: The number of the last change.
        self.last: int = last
        #: The frames of recent changes, without gaps up to the last, and their size.
        self._recent: Final[deque[bytes]] = deque()
        self._recent_size = 0
        #: The connections that were sent everything up to the last change.
        self._targets: Final[set[FeedTarget]] = set()
        #: The connections that get denials, whether they have everything or not.
        self._denial_targets: Final[set[FeedTarget]] = set()
        #: The connections that are behind, with the number of the last change that they were sent.
        self._waiting: Final[dict[FeedTarget, int]] = {}
        #: The connections for which older changes are being read.
        self._catching_up: Final[set[FeedTarget]] = set()

    def publish(self, number: int, data: bytes) -> None:
        """Send a change that is durable now."""
        before, self.last = self.last, number
        message = frame(ChangeMessage(number, data))
        self._keep(message)
        for target in tuple(self._targets):
            if target.is_behind:
                self._targets.discard(target)
                self._waiting[target] = before
            else:
                target.send(message)

    def _keep(self, message: bytes) -> None:
        """Keep a recent change, at least until the next one; with a log, only if there are connections."""
        recent, has_log = self._recent, self._read_log is not None
        if has_log and not (self._targets or self._waiting or self._catching_up):
            recent.clear()
            self._recent_size = 0
            return
        recent.append(message)
        self._recent_size += len(message)
        while self._recent_size > (_RECENT if has_log else _RECENT_WITHOUT_LOG) and len(recent) > 1:
            self._recent_size -= len(recent.popleft())

    def publish_denials(self, denials: Sequence[Denied]) -> None:
        """Send denials whose reasons are durable now."""
        targets = self._targets & self._denial_targets
        if denials and targets:
            message = frame(DenialMessage(encode_denials(denials)))
            for target in targets:
                if not target.is_behind:
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

    def follow_on(self, target: FeedTarget) -> None:
        """Send further changes to a connection that has read the ones before."""
        after = self._waiting.pop(target, None)
        if after is not None:
            self._send_from(target, after, b"")

    def _send_from(self, target: FeedTarget, after: int, beginning: bytes) -> None:
        """Send a message and all changes after a number, until the connection is behind."""
        missing = self.last - after
        if missing <= len(self._recent):
            target.send(beginning)
            self._send_recent(target, after)
        elif self._read_log is None:
            _refuse(target, _GONE)
        else:
            self._catching_up.add(target)
            self._loop.run_in_executor(None, self._read, self._read_log, target, after, beginning)

    def _send_recent(self, target: FeedTarget, after: int) -> None:
        first = len(self._recent) - (self.last - after)
        for sent, message in enumerate(islice(self._recent, first, None), after):
            if target.is_behind:
                self._waiting[target] = sent
                return
            target.send(message)
        self._targets.add(target)

    def _read(self, read_log: ReadLog, target: FeedTarget, after: int, beginning: bytes) -> None:
        """Read older changes; in another thread."""
        try:
            changes = read_log(after)
        except JournalDamagedError as error:
            _LOGGER.error("a subscription cannot continue after change %d: %s", after, error)  # noqa: TRY400 - expected
            self._loop.call_soon_threadsafe(_refuse, target, str(error), DAMAGED)
        except Exception as error:
            # The client connects again, and perhaps the log can be read then.
            if not isinstance(error, JournalError):
                _LOGGER.exception("changes of the log cannot be read")
            self._loop.call_soon_threadsafe(target.close)
        else:
            self._loop.call_soon_threadsafe(partial(self._send_older, target, after, beginning, changes))

    def _send_older(
        self, target: FeedTarget, after: int, beginning: bytes, changes: Sequence[StoredChange] | None
    ) -> None:
        if target not in self._catching_up:
            # The connection was lost meanwhile.
            return
        self._catching_up.discard(target)
        if not changes:
            _refuse(target, _GONE)
            return
        target.send(beginning)
        sent = after
        for change in changes:
            # The log may have changes that this leader has not published yet.
            if change.number > self.last or target.is_behind:
                break
            target.send(frame(ChangeMessage(change.number, change.data)))
            sent = change.number
        if target.is_behind:
            self._waiting[target] = sent
        else:
            self._send_from(target, sent, b"")

    def leave(self, target: FeedTarget) -> None:
        """Forget a connection."""
        self._targets.discard(target)
        self._waiting.pop(target, None)
        self._catching_up.discard(target)
        self._denial_targets.discard(target)


def _refuse(target: FeedTarget, reason: str, code: str = TOO_FAR_BEHIND) -> None:
    target.send(frame(Refused(code, reason)))
    target.close()
