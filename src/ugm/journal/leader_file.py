"""The record of the leader of a journal file: a small file next to the journal, which anyone can read.

The lock of the journal decides who leads, and the system releases it when the process ends. A process that is *stopped*
keeps it, however. So a leader that has an address, for which others stand by, states in its record that it may be
replaced. A candidate then kills it. The record identifies the process by its number and by the time of its start, so
that no other process with the same number is killed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from ugm.journal.leader_record import Candidate, LeaderRecord

__all__ = ["LeaderFile", "end_leader", "read_leader"]

#: The position of the start time in ``/proc/<pid>/stat``, counted after the name of the program.
_START_TIME: Final = 19
#: The time between two records of a leader that commits, in seconds.
_RENEWAL: Final = 0.1
#: The maximum time that a killed process takes to end, in seconds.
_END_TIMEOUT: Final = 5.0


class _Record(NamedTuple):
    """The content of the file."""

    term: int
    name: str
    #: Empty if the process may not be replaced, or has ended its leadership.
    address: str
    process: int
    #: When the process was started, in ticks since the start of the machine.
    started: int
    renewed_at: int


def _path(path: str) -> Path:
    return Path(f"{path}-leader")


def _read(path: str) -> _Record | None:
    """Return the record; None if there is none that can be used."""
    try:
        values: Any = json.loads(_path(path).read_bytes())
        found = _Record(**values)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    types = (int, str, str, int, int, int)
    return found if tuple(map(type, found)) == types else None


def _started(process: int) -> int:
    """Return when a process was started; 0 if it does not run or this system does not tell."""
    try:
        text = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[_START_TIME])


def read_leader(path: str) -> LeaderRecord | None:
    """Return the leader of a journal that can be replaced; None if there is none."""
    found = _read(path)
    if found is None or not found.address:
        return None
    silent_for = max(0.0, time.time() - found.renewed_at / 1000)
    return LeaderRecord(found.term, found.name, found.address, found.renewed_at, silent_for)


@final
class LeaderFile:
    """The record of this process, which leads.

    Args:
        path: the journal, whose lock this process has.
        candidate: this process, as others see it.
    """

    __slots__ = ("_candidate", "_due_at", "_path", "_started", "is_renewed", "term")

    #: The number of this leadership.
    term: int

    def __init__(self, path: str, candidate: Candidate) -> None:
        before = _read(path)
        self._path: Final = path
        self._candidate: Final = candidate
        #: Whether other processes watch this one, because it has an address.
        self.is_renewed: Final = bool(candidate.address)
        self._started: Final = _started(os.getpid())
        #: When `renew_if_due` renews the record, on the monotonic clock.
        self._due_at = 0.0
        self.term = 0
        if candidate.address or before is not None:
            self.term = (before.term if before else 0) + 1
            self._write(candidate.address)

    def renew(self) -> None:
        """Record that this process is active."""
        if self._candidate.address:
            self._write(self._candidate.address)

    def renew_if_due(self) -> None:
        """Record that this process is active unless it was recorded a moment ago; a failure is found by `renew`."""
        if self.is_renewed and time.monotonic() > self._due_at:
            with suppress(OSError):
                self._write(self._candidate.address)

    def resign(self) -> None:
        """Record that this process no longer leads."""
        if self.term:
            with suppress(OSError):
                self._write("")

    def _write(self, address: str) -> None:
        self._due_at = time.monotonic() + _RENEWAL
        now = time.time_ns() // 1_000_000
        record = _Record(self.term, self._candidate.name, address, os.getpid(), self._started, now)
        draft = Path(f"{_path(self._path)}-new")
        # Without a sync: the record must survive the process, and not the machine.
        draft.write_text(json.dumps(record._asdict()), "utf-8")
        draft.replace(_path(self._path))


def end_leader(path: str, term: int) -> bool:
    """Kill the process that leads a journal in a term, if its record allows it; return whether that process has ended.

    Args:
        path: the journal.
        term: the term of the leader. A later leader is not killed.
    """
    found = _read(path)
    if found is None or found.term != term or not found.address or not found.started or found.process == os.getpid():
        return False
    try:
        descriptor = os.pidfd_open(found.process)
    except (OSError, AttributeError):
        return _started(found.process) != found.started
    try:
        # The descriptor keeps the number from being used again, so the comparison is valid until the signal is sent.
        if _started(found.process) == found.started:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], _END_TIMEOUT)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
