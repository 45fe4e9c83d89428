"""The processes that share a partition, as one of them sees and treats the others.

The rules are in `ugm.shared.presence`.
"""

from __future__ import annotations

from datetime import timedelta

from ugm.shared import presence
from ugm.shared.allocations import Allocations
from ugm.shared.presence import Owned, Process

__all__ = ["Processes"]


class Processes(Allocations):
    """The operations on who takes part; see `ugm.shared.SharedPartition`."""

    __slots__ = ()

    @property
    def token(self) -> int:
        """What this process is registered under."""
        return self._engine.token

    def register(self) -> int:
        """Register this process anew, and return its token: after it was presumed dead, to go on as another one.

        What it had belongs to its old token, and to whoever has taken it over since.
        """
        with self._engine.lock:
            self._engine.token = presence.register(self._engine.database, self.name)
            self._lost = False
            return self._engine.token

    def renew(self) -> bool:
        """Say that this process is there, and return whether it is believed. Every change says so, too."""
        with self._engine.lock:
            is_believed = presence.renew(self._engine.database, self._engine.token)
        if not is_believed:
            self._tell_lost()
        return is_believed

    def processes(self) -> tuple[Process, ...]:
        """Return all processes that take part, and those that left something behind, the oldest first."""
        with self._engine.lock:
            return presence.processes(self._engine.database)

    def vanished(self, silent_for: timedelta) -> tuple[Process, ...]:
        """Return the processes that were not heard of for some time, or are presumed dead, and still have something."""
        seconds = silent_for.total_seconds()
        return tuple(
            one
            for one in self.processes()
            if one.token != self.token and one.allocations and (one.fenced_at or one.silent_for > seconds)
        )

    def owned_by(self, token: int) -> tuple[Owned, ...]:
        """Return the allocations of a process with their age, sorted by id."""
        with self._engine.lock:
            return presence.owned(self._engine.database, token)

    def fence(self, token: int) -> bool:
        """Presume a process dead, and return whether there is one: it gets nothing more, even if it lives.

        What it has is counted until it is released.
        """
        with self._engine.lock:
            return presence.fence(self._engine.database, token)

    def take_over(self, token: int) -> int:
        """Presume a process dead, have what it has, and return how many allocations that are."""
        self.fence(token)
        with self._engine.lock:
            return presence.take_over(self._engine.database, token, self._engine.token)

    def release_of(self, token: int) -> tuple[str, ...]:
        """Presume a process dead, release what it has, and return the ids of that."""
        self.fence(token)
        return tuple(
            one.allocation.allocation_id for one in self.owned_by(token) if self.release(one.allocation.allocation_id)
        )

    def forget(self, token: int) -> bool:
        """Forget a process that has nothing any more, and return whether it is forgotten."""
        with self._engine.lock:
            return presence.forget(self._engine.database, token)
