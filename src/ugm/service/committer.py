"""The committer: passes the changes of a leader to the log in batches, one at a time.

An answer to an operation that has changed nothing needs no commit. It is sent at once if the log has confirmed a moment
ago that this process leads. Otherwise the log is asked first: a process that was stopped for some time does not know
that another one leads now.

If the log does not accept a batch, the batch stays in flight and is tried again. Until then changes are refused and
queries are answered from memory.

If another process leads, or an unexpected error prevents that a batch is passed on, this process *resigns*: it answers
nothing more. No client has received an answer to the changes that the log does not have. The clients repeat their calls
at the next leader, which may be this process after it has read the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from threading import get_ident
from time import monotonic
from typing import Final, final

from ugm.journal.change_queue import ChangeQueue, copy_of, milliseconds
from ugm.journal.client_sessions import SessionTable
from ugm.journal.errors import DeposedError, JournalError
from ugm.service.answer_watch import AnswerWatch
from ugm.service.batch_log import Batch, BatchLog
from ugm.service.change_feed import ChangeFeed
from ugm.service.heartbeat import Heartbeat
from ugm.service.status import CommitTimes

__all__ = ["LEASE", "Committer"]

_LOGGER: Final = logging.getLogger(__name__)

#: The time between attempts to write a batch that the log did not accept, in seconds.
_RETRY: Final = 0.1
#: The time between two records of the leader in an idle log, in seconds.
_RENEWAL: Final = 0.1
#: The time for which an answer from the log shows that no other process leads, in seconds. No other process can lead
#: earlier: it is half of the shortest `ServiceSettings.takeover`, and half of `PostgresLog.reconnect_time`.
LEASE: Final = 0.25


@final
class Committer:
    """Passes batches to the log, one at a time.

    Args:
        loop: the event loop.
        change_queue: the changes in front of the log; None in memory, where every change is final at once.
        sessions: the table of sessions to which changes are applied.
        deliver_events: called in the loop when the events up to a number are durable.
        feed: gets every change that is durable.
        on_resigned: called in the loop when this process ceases to lead by itself.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        change_queue: ChangeQueue | None,
        sessions: SessionTable,
        deliver_events: Callable[[int], None],
        feed: ChangeFeed,
        on_resigned: Callable[[], None],
    ) -> None:
        self._loop: Final = loop
        self._thread: Final = get_ident()
        self._change_queue: Final = change_queue
        self._deliver_events: Final = deliver_events
        self._feed: Final = feed
        self._on_resigned: Final = on_resigned
        self._has_resigned = self._is_retrying = False
        self._is_scheduled = False
        clock, is_stored = milliseconds if change_queue is None else change_queue.now, change_queue is not None
        self.log: Final = BatchLog(sessions, self._require_writable, self.request, clock, is_stored=is_stored)
        self.log.enter_loop()
        #: The durations of commits.
        self.times: Final = CommitTimes()
        #: The number of the last durable change in the log.
        self.durable: int = 0 if change_queue is None else change_queue.number
        #: Why the log does not accept the batch in flight; None if it does.
        self.outage: JournalError | None = None
        self._answers: Final = AnswerWatch(loop, self._receive)
        #: When the last request began that the log has confirmed, on the monotonic clock.
        self._confirmed_at = monotonic()
        self._began_at = 0.0
        self._renewal = None if change_queue is None else loop.call_later(_RENEWAL, self._renew)
        self._heartbeat: Final = None if change_queue is None else Heartbeat(change_queue.renew)

    def request(self) -> None:
        """Commit the batch that gathers after this iteration, or after the commit in progress; from any thread."""
        if self._change_queue is None and not self.log.is_followed:
            return
        if get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.request)
        else:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run, self._commit)

    def _run(self, step: Callable[..., None], *arguments: object) -> None:
        """Execute a step of a commit. After an error a batch may be lost, so this process resigns."""
        try:
            step(*arguments)
        except BaseException as error:
            self.log.release_locks()
            if self._change_queue is not None:
                self._resign(JournalError(self._change_queue.path, f"a commit failed in an unexpected way: {error!r}"))
            raise

    def _resign(self, failure: JournalError) -> None:
        if not self._has_resigned:
            self.outage, self._has_resigned = failure, True
            self._on_resigned()

    def _require_writable(self, needs_space: bool) -> None:  # noqa: FBT001 - a callback
        if self.outage is not None:
            raise copy_of(self.outage)
        if self._change_queue is not None:
            self._change_queue.require_ready(needs_space=needs_space)

    def _commit(self) -> None:
        self._is_scheduled = False
        log = self.log
        if log.in_flight is not None:
            return
        batch = log.take()
        self._began_at = monotonic()
        if self._change_queue is None:
            log.end(batch)
            if batch.rows:
                self._feed.publish(self._feed.last + 1, batch.encoded())
            self._feed.publish_denials(batch.denials)
        elif not batch.rows and self._began_at - self._confirmed_at < LEASE:
            # Everything that the answers depend on is durable.
            log.end(batch)
            self._finish(batch)
        else:
            self._write(batch, self._change_queue)

    def _write(self, batch: Batch, change_queue: ChangeQueue) -> None:
        """Commit a batch. If it has no changes, ask the log whether this process still leads."""
        if batch.rows:
            batch.data = batch.encoded()
            change_queue.stamp(batch.at)
            batch.number = change_queue.number + 1
            change_queue.send(batch.data, partial(self._note_end, batch), self._answers.watch)
        else:
            self._loop.run_in_executor(None, self._confirm, batch, change_queue)

    def _receive(self) -> None:
        """Take the answer to the commit that was sent."""
        if self._change_queue is not None and not self._change_queue.receive():
            # The log has closed the connection, or says something else.
            self._answers.close()

    def _confirm(self, batch: Batch, change_queue: ChangeQueue) -> None:
        """Ask the log whether this process still leads; in another thread."""
        self._try(batch, change_queue, change_queue.renew)

    def _try(self, batch: Batch, change_queue: ChangeQueue, work: Callable[[], None]) -> None:
        """Use the log in another thread, and pass the result on."""
        failure: JournalError | None = None
        try:
            work()
        except JournalError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - it is passed on
            failure = JournalError(change_queue.path, f"it cannot be written: {error!r}")
        self._note_end(batch, failure)

    def _renew(self) -> None:
        """Record that this process is active, unless a commit has just done so."""
        self._renewal = self._loop.call_later(_RENEWAL, self._renew)
        if self._heartbeat is not None:
            self._heartbeat.beat()
        # If the log does not answer in time, the next attempt begins.
        self._receive()
        if self.log.in_flight is None and monotonic() - self._confirmed_at > _RENEWAL / 2:
            self._run(self._renew_now)

    def _renew_now(self) -> None:
        if self._change_queue is not None:
            self._began_at = monotonic()
            # Changes may gather already, and must not be lost.
            self._write(self.log.take(), self._change_queue)

    def _note_end(self, batch: Batch, failure: JournalError | None) -> None:
        """Pass the result of a commit on to the loop; from any thread."""
        if get_ident() == self._thread:
            self._run(self._end, batch, failure)
        else:
            self._loop.call_soon_threadsafe(self._run, self._end, batch, failure)

    def _end(self, batch: Batch, failure: JournalError | None) -> None:
        if batch is not self.log.in_flight or self._has_resigned:
            return
        if failure is None:
            self.outage, self._confirmed_at = None, self._began_at
            self.log.end(batch)
            try:
                if self.log.gathering.rows:
                    # The log writes the next batch while the answers of this one are sent.
                    self._commit()
            finally:
                self._finish(batch)
            if self.log.gathering.callbacks:
                self._commit()
            return
        batch.fail(failure)
        if isinstance(failure, DeposedError):
            self._resign(failure)
        elif not self._is_retrying:
            self.outage, self._is_retrying = failure, True
            _LOGGER.warning("the log does not answer: %s", failure)
            self._loop.call_later(_RETRY, self._retry, batch)

    def _finish(self, batch: Batch) -> None:
        """Pass on a batch that is durable: to the clients that follow, to its callers and to the subscribers."""
        if batch.data:
            self.durable = batch.number
            self.times.add(monotonic() - batch.began_at)
            self._feed.publish(batch.number, batch.data)
        if batch.denials:
            self._feed.publish_denials(batch.denials)
        for callback in batch.callbacks:
            callback()
        self._deliver_events(batch.last_event)

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call a function when all changes up to now are durable; during an outage, or without a log, at once."""
        if self._change_queue is None:
            callback()
            self.deliver()
        elif self.outage is not None:
            # A leader that has resigned answers nothing.
            if not self._has_resigned:
                callback()
        else:
            self.log.gathering.callbacks.append(callback)
            self._schedule()

    def deliver(self) -> None:
        """Deliver the events up to now to the subscribers. Without a log, they are final at once."""
        self._deliver_events(self.log.gathering.last_event)

    def _retry(self, batch: Batch) -> None:
        self._is_retrying = False
        if batch is self.log.in_flight and self._change_queue is not None:
            self._began_at = monotonic()
            self._loop.run_in_executor(None, self._commit_again, batch, self._change_queue)

    def _commit_again(self, batch: Batch, change_queue: ChangeQueue) -> None:
        """Commit the batch in doubt, and ask the log whether this process still leads; in another thread."""

        def work() -> None:
            change_queue.flush()
            change_queue.renew()

        self._try(batch, change_queue, work)

    @property
    def complete_at(self) -> float:
        """All changes that any process had acknowledged before this time of the monotonic clock are known here."""
        return monotonic() if self.outage is None else self._confirmed_at

    @property
    def silence(self) -> float:
        """The seconds since the log has last confirmed that this process leads."""
        return 0.0 if self._change_queue is None else monotonic() - self._confirmed_at

    @property
    def term(self) -> int:
        """The term of this leader."""
        return 1 if self._change_queue is None else self._change_queue.term

    def stop_renewing(self) -> None:
        """Let the record of the leader become old."""
        if self._renewal is not None:
            self._renewal.cancel()
        if self._heartbeat is not None:
            self._heartbeat.close()

    async def finish(self) -> None:
        """Wait until everything that was decided is durable, unless the log does not accept it; then end."""
        self.stop_renewing()
        place = "in memory" if self._change_queue is None else self._change_queue.path
        try:
            while self.outage is None and (self.log.in_flight is not None or self.log.gathering.rows):
                self.request()
                await asyncio.sleep(_RETRY / 10)
                self._receive()
        finally:
            self._answers.close()
            self.outage = self.outage or JournalError(place, "this process does not lead any more")
            self.log.fail(self.outage)
