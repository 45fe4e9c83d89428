"""Calls a function in a loop when a log may have answered a commit.

The socket of the log belongs to a connection that another thread may close, and the operating system may then give its
descriptor to a client. So the loop watches a duplicate of the descriptor, which only the loop closes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final, final

from ugm.journal.log import SentCommit

__all__ = ["AnswerWatch"]


@final
class AnswerWatch:
    """Watches the connection of the last commit that was sent.

    Args:
        loop: the loop, in whose thread all methods are called.
        on_readable: called when the connection is readable.
    """

    __slots__ = ("_connection", "_descriptor", "_loop", "_on_readable")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_readable: Callable[[], None]) -> None:
        self._loop: Final = loop
        self._on_readable: Final = on_readable
        self._descriptor = -1
        #: The connection whose socket is watched; None if none is.
        self._connection: object = None

    def watch(self, commit: SentCommit) -> bool:
        """Watch the connection of a commit, unless it is watched already, and return whether it is."""
        if commit.connection is self._connection:
            return True
        self.close()
        try:
            descriptor = os.dup(commit.fileno())
        except OSError:
            # There are too many open files.
            return False
        try:
            self._loop.add_reader(descriptor, self._on_readable)
        except (OSError, NotImplementedError):
            # The system watches too many descriptors, or the loop cannot watch any.
            os.close(descriptor)
            return False
        self._descriptor, self._connection = descriptor, commit.connection
        return True

    def close(self) -> None:
        """Watch nothing any more."""
        if self._connection is not None:
            self._connection = None
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
