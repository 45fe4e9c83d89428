"""The process of a compaction in the background: it replays the log and encodes the state that results.

The problem: a compaction of a million allocations computes for a minute. In a thread it would stop the leader
repeatedly, because threads of one interpreter take turns.

The idea: a second process computes. It reads its task from the standard input, and writes messages to the standard
output: for a file the rows of the new tables, which the leader stores, and at the end the result. For PostgreSQL the
process stores the tables itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import IO, Any, Final, NamedTuple, final

from ugm.journal.compaction import Compaction, checkpoint_rows
from ugm.journal.contents import JournalContents, open_contents
from ugm.journal.errors import JournalDamagedError, JournalError
from ugm.journal.store_reader import StoredChange

__all__ = ["CompactionProcess", "CompactionTask", "Message", "execute_task"]

#: The kinds of messages, by their number.
_KINDS: Final = ("snapshot", "history", "result", "failure")
#: The number of the kind, and the length of the data.
_HEADER: Final = Struct(">BI")
#: Lowers the priority of the process.
_NICE: Final = 10


class CompactionTask(NamedTuple):
    """The work of the process."""

    #: The journal file, or the connection to the database.
    location: str
    #: The schema in the database; empty for a file.
    schema: str
    usage_since: int | None


class Message(NamedTuple):
    """A message of the process."""

    #: ``snapshot`` and ``history`` for a row, ``result`` at the end.
    kind: str
    data: bytes


@final
class CompactionProcess:
    """A process that executes one task; a context manager, which ends it.

    Args:
        task: the task.
        shown_location: the location for errors.
    """

    __slots__ = ("_process", "_shown_location")

    def __init__(self, task: CompactionTask, shown_location: str) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", f"from {__name__} import execute_task; execute_task()"]
        self._shown_location: Final = shown_location
        self._process: Final = subprocess.Popen(  # noqa: S603 - a function of this module
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        # On the input, because other users can see the arguments of a process.
        with suppress(BrokenPipeError), self._pipe(self._process.stdin) as target:
            target.write(json.dumps(task).encode())

    def __enter__(self) -> CompactionProcess:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process, and close the pipes."""
        self.kill()
        with self._process:
            pass

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None  # noqa: S101 - it was requested
        return pipe

    def kill(self) -> None:
        """End the process, from any thread."""
        self._process.kill()

    def messages(self) -> Iterator[Message]:
        """Yield the messages up to the result.

        Raises:
            JournalError: the process has failed or was ended.
        """
        source = self._pipe(self._process.stdout)
        while len(header := source.read(_HEADER.size)) == _HEADER.size:
            kind, length = _HEADER.unpack(header)
            message = Message(_KINDS[kind], source.read(length))
            if message.kind == "failure":
                raise self._failure(*json.loads(message.data))
            yield message
            if message.kind == "result":
                return
        raise JournalError(self._shown_location, "it cannot be compacted: the process has ended")

    def _failure(self, reason: str, readable: int | None) -> JournalError:
        if readable is None:
            return JournalError(self._shown_location, reason)
        return JournalDamagedError(self._shown_location, reason, readable)


# In the process


@final
class _RowsInMemory:
    """The rows of a log; see `ugm.journal.contents.LogReader`.

    They are read at once. As long as a file is being read, the WAL of its writer grows.
    """

    __slots__ = ("_changes", "_contents", "_tables")

    def __init__(self, contents: JournalContents) -> None:
        self._contents: Final = contents
        self._tables: Final = {table: list(contents.stored_rows(table)) for table in ("snapshot", "history")}
        self._changes: Final = [StoredChange(*row[:3]) for row in contents.stored_changes()]

    def rows(self, table: str) -> Iterator[bytes]:
        """Yield the rows of the snapshot or of the history."""
        return iter(self._tables[table])

    def changes(self, after: int) -> Iterator[StoredChange]:  # noqa: ARG002 - all of them follow the snapshot
        """Yield the changes."""
        return iter(self._changes)

    def damaged(self, reason: str) -> JournalDamagedError:
        """Return the error for damage."""
        return self._contents.damaged(reason)


def _send(kind: str, data: bytes) -> None:
    sys.stdout.buffer.write(_HEADER.pack(_KINDS.index(kind), len(data)))
    sys.stdout.buffer.write(data)


def _compact_file(task: CompactionTask) -> Compaction:
    """Send the rows of the new tables."""
    with open_contents(task.location) as contents:
        rows = _RowsInMemory(contents)
    in_memory = JournalContents(rows, 0)
    start = in_memory.start.number
    number, snapshot, history = checkpoint_rows(in_memory, task.usage_since)
    for kind, table in (("snapshot", snapshot), ("history", history)):
        for row in table:
            _send(kind, row)
    return Compaction(number - start, len(snapshot), len(history))


def _compact_postgres(task: CompactionTask) -> Compaction:
    from ugm.journal.postgres.compaction import compact  # noqa: PLC0415 - psycopg is an extra

    return compact(task.location, task.schema, usage_since=task.usage_since)


def execute_task() -> None:
    """Execute the task on the standard input, and write messages to the standard output."""
    data = sys.stdin.buffer.read()
    if not data:
        # The start of this process was interrupted.
        return
    # If the leader ends, this process ends when it writes, and reports no error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.nice(_NICE)
    task = CompactionTask(*json.loads(data))
    try:
        result: Any = (_compact_postgres if task.schema else _compact_file)(task)
        _send("result", json.dumps(result).encode())
    except JournalError as error:
        readable = error.readable if isinstance(error, JournalDamagedError) else None
        _send("failure", json.dumps([error.reason, readable]).encode())
    sys.stdout.buffer.flush()
