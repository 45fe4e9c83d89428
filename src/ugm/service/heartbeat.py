"""The heartbeat of a leader: renews its record while its loop is busy.

The problem: the loop renews the record of the leader ten times a second. An operation that takes longer than the
takeover time, such as a configuration with very many queues, delays this, and a standby would replace a leader that
works. Its clients would then repeat the operation at the next leader, with the same result.

The idea: a thread renews the record while the loop is silent. A process that is stopped or has ended has no such
thread, so it is replaced after the takeover time. A leader whose loop hangs is replaced, too, but only after 10
seconds, the default deadline of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Final, final

from ugm.journal.errors import JournalError

__all__ = ["Heartbeat"]

#: The time between two checks of the loop, in seconds.
_PAUSE: Final = 0.1
#: The silence of the loop after which the thread renews the record, in seconds.
_SHORT: Final = 0.2
#: The silence of the loop after which it counts as hanging, in seconds: the default deadline of a client.
_LONG: Final = 10.0


@final
class Heartbeat:
    """A thread that renews the record of the leader while the loop is busy.

    Args:
        renew: renews the record, or raises a `JournalError`.
        longest: the silence of the loop after which the record is not renewed any more, in seconds.
    """

    __slots__ = ("_beat_at", "_has_ended", "_longest", "_renew")

    def __init__(self, renew: Callable[[], None], *, longest: float = _LONG) -> None:
        self._renew: Final = renew
        self._longest: Final = longest
        self._beat_at = monotonic()
        self._has_ended: Final = Event()
        Thread(target=self._work, name="ugm heartbeat", daemon=True).start()

    def beat(self) -> None:
        """Note that the loop is not busy."""
        self._beat_at = monotonic()

    def close(self) -> None:
        """End the thread soon."""
        self._has_ended.set()

    def _work(self) -> None:
        while not self._has_ended.wait(_PAUSE):
            if _SHORT < monotonic() - self._beat_at < self._longest:
                # The loop finds out by itself what is wrong with the log.
                with suppress(JournalError):
                    self._renew()
