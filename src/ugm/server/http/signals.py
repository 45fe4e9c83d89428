"""The signals of a process that runs a server.

The handlers only note a signal, and the server looks at the notes several times a second. A handler interrupts the main
thread anywhere, so it may take no lock, and a second signal may interrupt it.

While a command starts its server, nothing looks at the notes. Therefore SIGTERM also raises `SystemExit` then, so that
the contexts which are already open end. That includes the first process of a container, for which the system ignores
SIGTERM by default.
"""

from __future__ import annotations

import atexit
import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self, final

__all__ = ["ServerSignals"]


@final
class ServerSignals:
    """Handles SIGTERM and SIGHUP during a `with` block, in the main thread; then the former handlers are restored.

    Args:
        is_command: whether the block is all that the process does. Then SIGTERM raises `SystemExit` with the status 0,
            once and only until `end_start` is called, and both signals are ignored while the interpreter ends.
    """

    #: Whether SIGTERM has arrived.
    is_terminated: bool
    #: Whether SIGHUP has arrived. The server clears it before each reload, so another one during the reload counts.
    is_hung_up: bool

    def __init__(self, *, is_command: bool = False) -> None:
        self._is_command: Final = is_command
        self._is_starting = is_command
        self._before: Final[dict[signal.Signals, Any]] = {}
        self.is_terminated = self.is_hung_up = False

    def __enter__(self) -> Self:
        # Not every system has SIGHUP. SIGTERM is last, because it may raise an exception.
        if hasattr(signal, "SIGHUP"):
            self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._terminate)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end_start()
        for number, handler in self._before.items():
            signal.signal(number, handler)
            if self._is_command:
                # The interpreter takes up to a second to end, and a signal must not change the status any more.
                atexit.register(signal.signal, number, signal.SIG_IGN)

    def end_start(self) -> None:
        """Only note SIGTERM from now on: the server runs and looks at the notes, or everything ends already."""
        self._is_starting = False

    def _hang_up(self, _number: int, _frame: FrameType | None) -> None:
        self.is_hung_up = True

    def _terminate(self, _number: int, _frame: FrameType | None) -> None:
        self.is_terminated = True
        if self._is_starting:
            # Another one must not interrupt the end. If the exception is lost, for example in the destructor of an
            # object, the server stops as soon as it runs.
            self._is_starting = False
            raise SystemExit(0)
