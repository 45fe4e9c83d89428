"""The store of a partition, open for writing by its leader, and its group commit.

The problem: a commit takes much longer than a change in memory, and may fail after the change was made.

The idea: a change is *appended*, which gives it its number. It is *durable* when the commit that contains it has
reached the disk. Changes that are appended during a commit share the next one. Only the thread commits, so no exception
from outside interrupts a commit.

Invariant: the appended changes that are not durable yet are kept in their order. If a commit fails, they stay there and
are *in doubt*. They are committed before any further change is accepted, so no change builds on one in doubt.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from threading import Condition, Lock, Thread
from time import monotonic, sleep
from typing import Final, Self, TypeAlias, final

from ugm.engine_lock import OwnedLock
from ugm.partition.rows import Change
from ugm.store.database import (
    ChangeRow,
    Database,
    LeaderRecord,
    StoreDamagedError,
    StoreDeposedError,
    StoreError,
    change_row,
)
from ugm.store.fold import CapturedModels, CaptureModels, Folder
from ugm.store.reader import Loaded, StoreLocation, StoreReader, Transaction, database_at
from ugm.store.row_tables import encode_changes

_LOGGER: Final = logging.getLogger(__name__)

#: The time after which changes are folded, in seconds, and the number of changes for which a fold does not wait.
_FOLD_INTERVAL: Final = 1.0
_FOLD_SIZE: Final = 4096
#: The pause until models are captured again, if this was not possible, in seconds.
_CAPTURE_PAUSE: Final = 0.02
#: The pause between two attempts of a commit, and after an unexpected error, in seconds.
_PAUSE: Final = 0.05
#: The maximum number of changes in one commit, so that the values of its statement are not too many.
_LARGEST_BATCH: Final = 4000

#: A function that is called with None when a change is durable, or with the error when it is in doubt. All commits wait
#: for it, so it must return at once, and may not call the store.
DurabilityCallback: TypeAlias = Callable[[StoreError | None], None]
#: A transaction, and its row in the table of changes.
Appended: TypeAlias = tuple[ChangeRow, Transaction]
#: The time for which changes are kept for followers after they were folded, in milliseconds: a week.
_KEEP: Final = 7 * 86_400_000


def open_store(
    location: StoreLocation,
    *,
    holder: str = "",
    address: str = "",
    replacing: LeaderRecord | None = None,
    capture: CaptureModels | None = None,
) -> Store:
    """Become the leader of a store, which is created if it does not exist.

    Args:
        location: the path of a file, a URL that begins with ``postgresql://``, or a `PostgresLocation`.
        holder: the name of this process, for people.
        address: where clients reach it; empty if they cannot. A leader with an address calls `Store.renew` regularly.
        replacing: a silent leader that `StoreReader.find_leader` has returned, to be replaced. The leader of a file is
            killed.
        capture: returns the state of the quota models that depend on the past; None if there are none.

    Raises:
        RequestError: the location is invalid.
        StoreHeldError: another process leads.
        StoreDamagedError: the store is damaged.
        StoreError: it cannot be used.
    """
    database = database_at(location)
    with ExitStack() as undo:
        undo.callback(database.close)
        leader = database.lead(holder or f"{socket.gethostname()} {os.getpid()}", address, replacing)
        store = Store(location, database, leader, capture)
        undo.pop_all()
    return store


@final
class Store:
    """The changes and the rows of a partition; `open_store` creates it. It is a context manager that closes it.

    A transaction is appended first, and durable when `wait` returns. If `wait` raises a `StoreError`, it is in doubt:
    it may be stored now, by the next `append` or `flush`, or never. All methods can be called by any thread of the
    process.
    """

    def __init__(
        self, location: StoreLocation, database: Database, leader: LeaderRecord, capture: CaptureModels | None
    ) -> None:
        self._location: Final = location
        self._database: Final = database
        self._path: Final = database.location
        #: The number of this leadership. Later leaderships have higher numbers.
        self.term: Final = leader.term
        known = "SELECT max(at) FROM (SELECT at FROM change UNION ALL SELECT at FROM fold) AS known"
        [self._at] = database.only_row(known, "number of the last fold")
        #: The number of the last durable transaction.
        self.durable: int = leader.number
        #: The changes that are not durable yet.
        self._appended: list[Appended] = []
        #: The error of the last commit; None if it succeeded, or is tried again.
        self._failure: StoreError | None = None
        self._callbacks: list[tuple[int, DurabilityCallback]] = []
        self._guard: Final = OwnedLock()
        self._work: Final = Condition(self._guard)
        #: Whether it was closed.
        self.is_closed: bool = False
        self._owner: Final = os.getpid()
        self._capture: Final = capture
        #: The state of the models that the next fold is going to write, and whether the next append captures it.
        self._captured: CapturedModels | None = None
        self._wants_capture = False
        #: Whether changes were made in memory that are not appended yet.
        self.has_collected: bool = False
        #: When the next fold is due, on the monotonic clock.
        self._fold_due_at = 0.0
        #: The user of the connection.
        self._using: Final = Lock()
        #: Durable transactions that are not folded yet; those of earlier leaders are only in the database.
        self._unfolded: Final = deque[Transaction]()
        self._folder: Final = Folder(database, leader.term, _KEEP)
        self._thread: Final = Thread(target=self._run, name="ugm-store", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise StoreError(self._path, str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def number(self) -> int:
        """The number of the last appended transaction; 0 for none."""
        # Without the lock: a commit notes that changes are durable before it takes them from the list.
        try:
            return self._appended[-1][0].number
        except IndexError:
            return self.durable

    def require_owner(self) -> None:
        """Check that the store was opened by this process, and is open.

        Raises:
            StoreError: this is a forked child, which has no thread that commits; or the store was closed.
        """
        if os.getpid() != self._owner:
            raise StoreError(self._path, "it was opened before this process was forked; open it in the child")
        if self.is_closed:
            raise StoreError(self._path, "it has been closed")

    def append(self, changes: Sequence[Change], at: int, data: bytes | None = None) -> int:
        """Append a list of changes as one transaction and return its number, without waiting until it is durable.

        If changes before are in doubt, the method commits them first.

        Args:
            changes: the changes, in their order.
            at: the time in milliseconds since 1970. A time before that of the last transaction is replaced by it.
            data: the encoded form of the changes, if the caller has it.

        Raises:
            RequestError: a value cannot be stored. Nothing was appended.
            StoreError: changes before are still in doubt. Nothing was appended.
        """
        self.require_owner()
        encoded = encode_changes(changes) if data is None else data
        if self._failure is not None:
            self.flush()
        with self._guard:
            number, instant = self.number + 1, max(at, self._at)
            # After this line the change is going to be written, whatever interrupts the call.
            transaction = Transaction(number, self.term, instant, tuple(changes))
            self._appended.append((change_row(number, self.term, instant, encoded), transaction))
            self._at, has_collected, self.has_collected = instant, self.has_collected, False
            self._work.notify()
        if has_collected and self._wants_capture:
            self._capture_models()
        return number

    def when_durable(self, number: int, callback: DurabilityCallback) -> None:
        """Call a function with None when a transaction is durable, or with the error when it is in doubt.

        A thread of the store calls it, or the calling thread if the result is known. All commits wait for it, so it
        must return at once.
        """
        self.require_owner()
        with self._guard:
            failure = self._failure
            if failure is None and self.durable < number:
                self._callbacks.append((number, callback))
                return
        callback(failure if self.durable < number else None)

    def release_locks(self) -> None:
        """Release the lock that this thread may hold after an exception, and let everything appended be committed."""
        try:
            with self._guard:
                self._work.notify()
        finally:
            # Last: an interruption may skip the release at the end of the block.
            self._guard.release_to(0)

    def wait(self, number: int) -> None:
        """Wait until a transaction is durable.

        Raises:
            StoreError: it is in doubt.
        """
        self.require_owner()
        if self.durable >= number:
            return
        answer = SimpleQueue[StoreError | None]()
        self.when_durable(number, answer.put)
        failure = answer.get()
        if failure is not None:
            # Each caller raises its own error, with its own traceback.
            raise type(failure)(*failure.args)

    def flush(self) -> None:
        """Commit everything that was appended, also the changes in doubt.

        Raises:
            StoreError: it cannot be written now.
        """
        self.require_owner()
        with self._guard:
            number = self.number
            if not isinstance(self._failure, (StoreDamagedError, StoreDeposedError)):
                self._failure = None
            self._work.notify()
        self.wait(number)

    @property
    def folded(self) -> int:
        """The number of the last transaction of which the tables of rows know."""
        return self._folder.number

    def load(self) -> Loaded:
        """Return the whole content, as it is after the last durable change.

        Raises:
            StoreDamagedError: the store is damaged.
            StoreError: it cannot be read.
        """
        with StoreReader(self._location) as reader:
            return reader.load()

    def renew(self) -> None:
        """Record that the leader is active. A commit does so, too.

        Raises:
            StoreDeposedError: another process leads.
            StoreError: the database is not available.
        """
        self.require_owner()
        with self._using:
            self._database.renew(self.term)

    def close(self) -> None:
        """Commit and fold all changes, and end the leadership; a second call does nothing.

        Raises:
            StoreError: changes are in doubt, and cannot be written now either. The leadership has ended.
        """
        if self.is_closed:
            return
        self.require_owner()
        try:
            self.flush()
        finally:
            with self._guard:
                self.is_closed = True
                self._work.notify()
            self._thread.join()
            if self._failure is None:
                self._fold_due_at = 0.0
                self._fold_if_due()
            with suppress(StoreError):
                self._database.run("UPDATE leader SET address = '' WHERE term = ?", [self.term])
            self._database.close()

    # The thread

    def _run(self) -> None:
        while not self.is_closed:
            try:
                self._work_until_closed()
            except BaseException:
                with suppress(BaseException):
                    _LOGGER.exception("the thread of a store failed; it goes on")
                    # An error that comes again at once may not keep the processor busy.
                    sleep(_PAUSE)

    def _work_until_closed(self) -> None:
        pause: float | None = 0.0
        while True:
            with self._guard:
                while not self.is_closed and (self._failure is not None or not self._appended):
                    if not self._work.wait(pause):
                        break
                if self.is_closed:
                    return
                batch = self._appended[:_LARGEST_BATCH] if self._failure is None else []
            if batch:
                self._commit_batch(batch)
            pause = self._fold_if_due()

    def _commit_batch(self, batch: list[Appended]) -> None:
        durable, failure = self.durable, None
        try:
            self._commit(batch)
            durable = batch[-1][0].number
        except StoreError as error:
            failure = error
        except BaseException as error:  # noqa: BLE001 - without this thread, every change would wait for ever
            failure = StoreError(self._path, f"it cannot be written: {error!r}")
        with self._guard:
            done = durable - self.durable
            self.durable, self._failure = durable, failure
            del self._appended[:done]
            waiting = self._callbacks
            due = [callback for number, callback in waiting if failure or number <= durable]
            self._callbacks = [] if failure else [one for one in waiting if one[0] > durable]
        for callback in due:
            try:
                callback(failure)
            except Exception:
                _LOGGER.exception("a callback for a durable change failed")

    # Commits and folds, in the thread

    def _commit(self, batch: Sequence[Appended]) -> None:
        """Commit changes durably. While the database is not available, the commit is repeated for some time."""
        rows, end = [row for row, _ in batch], monotonic() + self._database.patience
        with self._using:
            while True:
                try:
                    self._append(rows)
                    break
                except (StoreDamagedError, StoreDeposedError):
                    raise
                except StoreError as error:
                    self._database.reset()
                    if monotonic() >= end:
                        reason = f"{error.reason}; it is uncertain whether the change was stored; repeat the call later"
                        raise StoreError(error.path, reason) from error
                sleep(_PAUSE)
        if not self._unfolded:
            self._fold_due_at = monotonic() + _FOLD_INTERVAL
        self._unfolded.extend(transaction for _, transaction in batch)

    def _append(self, rows: Sequence[ChangeRow]) -> None:
        """Append rows; those that were stored already by a commit in doubt are recognised by their checksums."""
        database = self._database
        if database.append(self.term, rows):
            return
        leader = database.read_leader()
        if leader.term != self.term:
            raise StoreDeposedError(database.location, leader.term)
        if leader.number < rows[0].number - 1:
            reason = f"it ends with change {leader.number}, but {rows[0].number - 1} were acknowledged"
            raise StoreDamagedError(database.location, reason)
        stored = database.run("SELECT sum FROM change WHERE number >= ? ORDER BY number", [rows[0].number])
        if stored != [(row.sum,) for row in rows[: len(stored)]]:
            reason = f"the changes from {rows[0].number} on differ from what this process wrote"
            raise StoreDamagedError(database.location, reason)
        rest = rows[len(stored) :]
        if rest and not database.append(self.term, rest):
            raise StoreError(database.location, "another process has written at the same time")

    def _fold_if_due(self) -> float | None:
        """Fold if it is time, and return the seconds until it is."""
        remaining = self._fold_due_at - monotonic()
        if self.durable == self.folded:
            return None
        if remaining > 0 and (len(self._unfolded) < _FOLD_SIZE or self._captured is not None):
            return remaining
        try:
            with self._using:
                is_folded = self._fold()
        except Exception as error:
            # The next attempt may succeed. The changes are safe without it. An outage and another leader are ordinary.
            unexpected = None if isinstance(error, StoreError) else error
            _LOGGER.warning("the changes of a store could not be folded: %s", error, exc_info=unexpected)
            is_folded = True
        self._fold_due_at = monotonic() + (_FOLD_INTERVAL if is_folded else _CAPTURE_PAUSE)
        return self._fold_due_at - monotonic()

    def _capture_models(self) -> None:
        try:
            self._captured = self._capture and self._capture()
        except Exception:
            _LOGGER.warning("the changes of a store could not be folded", exc_info=True)
        # A process that collects changes all the time is only right after an append in a state that the store knows.
        self._wants_capture = self._captured is None

    def _fold(self) -> bool:
        """Fold up to the last durable change, or up to the one at which models were captured.

        Return False if the models cannot be captured now.
        """
        last = self.durable
        if self._capture is not None:
            if self._captured is None:
                self._capture_models()
            if self._captured is None or self._captured.number > last:
                return False
            last = self._captured.number
        if last > self.folded:
            self._folder.fold(self._unfolded, last, self._captured)
        self._captured = None
        while self._unfolded and self._unfolded[0].number <= self.folded:
            self._unfolded.popleft()
        return True
