"""A change is sent to the log without waiting. The next thread that uses the log receives its answer, once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread, get_ident
from typing import Final

import pytest

from support.injection import Injector
from support.service_fixtures import eventually
from ugm.journal.change_queue import ChangeQueue
from ugm.journal.errors import JournalError
from ugm.journal.file_writer import ChangeRow
from ugm.journal.log import SentCommit

FAILURE: Final = JournalError("log", "the network is cut")


class Sent:
    """A commit whose answer the test determines; a `ugm.journal.log.SentCommit`."""

    def __init__(self, *, is_sent: bool = True) -> None:
        self.is_sent = is_sent
        self.answer: bool | None = None
        self.asked: list[float] = []

    @property
    def connection(self) -> object:
        """Always the same one."""
        return Sent

    def fileno(self) -> int:
        """There is no socket."""
        raise AssertionError

    def result(self, timeout: float = 0) -> bool | None:
        """Return the answer. The second question with a time-out gets one in any case."""
        self.asked.append(timeout)
        return True if self.answer is None and sum(map(bool, self.asked)) == 2 else self.answer


class Writer:
    """A log that keeps what it gets; a `ugm.journal.log.LogWriter`."""

    term = 1
    has_reserve = True

    def __init__(self) -> None:
        self.next: Sent | None = Sent()
        self.sent: list[int] = []
        self.committed: list[list[int]] = []
        self.failure: JournalError | None = None
        self.renewals = 0

    def restore_reserve(self) -> None:
        """Do nothing."""

    def commit(self, rows: Sequence[ChangeRow]) -> JournalError | None:
        """Keep the numbers."""
        self.committed.append([row[0] for row in rows])
        return self.failure

    def send(self, row: ChangeRow) -> Sent | None:
        """Keep the number, unless nothing can be sent."""
        if self.next is not None:
            self.sent.append(row[0])
        return self.next

    def renew(self) -> None:
        """Count the renewals, unless there is a failure."""
        if self.failure is not None:
            raise self.failure
        self.renewals += 1

    def close(self) -> None:
        """Do nothing."""


class Scene:
    """A queue, its log, and what the callbacks got."""

    def __init__(self) -> None:
        self.log = Writer()
        self.queue = ChangeQueue("log", self.log, (0, 0), lambda: 1, group_commit=True)
        self.results: list[tuple[int, JournalError | None, bool]] = []
        self._thread = get_ident()
        #: Whether the loop can watch a connection.
        self.can_watch = True

    def append(self) -> Sent | None:
        """Append a change and send it; return what the loop watches."""
        number, watched = self.queue.number + 1, list[Sent]()

        def watch(sent: SentCommit) -> bool:
            assert isinstance(sent, Sent)
            if self.can_watch:
                watched.append(sent)
            return self.can_watch

        self.queue.send(b"[]", lambda failure: self._note(number, failure), watch)
        return watched[0] if watched else None

    def _note(self, number: int, failure: JournalError | None) -> None:
        self.results.append((number, failure, get_ident() == self._thread))

    def finish(self) -> None:
        """End the thread."""
        self.queue.stop()
        self.queue.close()


@contextmanager
def scene() -> Iterator[Scene]:
    """Return a queue, and close it."""
    made = Scene()
    try:
        yield made
    finally:
        made.log.failure = None
        made.finish()


def sent_in(made: Scene) -> Sent:
    """Return the change that was sent."""
    sent = made.append()
    assert sent is not None
    return sent


def test_answer() -> None:
    """The caller of `receive` gets the answer, in its own thread; the thread of the queue commits nothing."""
    with scene() as made:
        for number in (1, 2):
            made.log.next = Sent()
            sent = sent_in(made)
            assert made.queue.receive()
            assert len(made.results) == number - 1
            sent.answer = True
            assert made.queue.receive()
            assert not made.queue.receive()
            assert sent.asked == [0, 0]
        assert made.results == [(1, None, True), (2, None, True)]
    assert (made.log.sent, made.log.committed) == ([1, 2], [])


def test_uncertain_answer() -> None:
    """The thread commits the change again, and its result counts."""
    with scene() as made:
        sent_in(made).answer = False
        assert made.queue.receive()
        eventually(lambda: made.results == [(1, None, False)])
        assert made.log.committed == [[1]]


def test_failure_and_recovery() -> None:
    """While a change is in doubt, none is sent; after its commit, the next one is."""
    with scene() as made:
        made.log.failure = FAILURE
        sent_in(made).answer = False
        made.queue.receive()
        eventually(lambda: made.results == [(1, FAILURE, False)])
        assert made.append() is None
        assert made.results[1:] == [(2, FAILURE, True)]
        made.log.failure = None
        made.queue.flush()
        made.log.next = Sent()
        sent_in(made).answer = True
        made.queue.receive()
        assert made.results[2:] == [(3, None, True)]
    assert (made.log.sent, made.log.committed) == ([1, 3], [[1], [1, 2]])


def test_log_that_cannot_send() -> None:
    """The thread commits."""
    with scene() as made:
        made.log.next = None
        assert made.append() is None
        eventually(lambda: made.results == [(1, None, False)])
    assert made.log.committed == [[1]]


@pytest.mark.parametrize("is_sent", [True, False])
def test_thread_takes_the_answer(*, is_sent: bool) -> None:
    """The thread takes the answer if it has to send the rest of the message, or if the loop cannot watch the socket."""
    with scene() as made:
        made.log.next = Sent(is_sent=is_sent)
        made.can_watch = not is_sent
        assert made.append() is None
        eventually(lambda: made.results == [(1, None, False)])
    assert (made.log.sent, made.log.committed) == ([1], [])


def test_log_in_use() -> None:
    """While another thread uses the log, the loop does not wait for it."""
    with scene() as made:

        def work() -> None:
            assert made.append() is None

        def use() -> None:
            thread = Thread(target=work)
            thread.start()
            thread.join()

        made.queue.run_exclusively(use)
        eventually(lambda: made.results == [(1, None, False)])
    assert made.log.committed == [[1]]


@pytest.mark.parametrize("use", ["flush", "renew", "run_exclusively", "close"])
@pytest.mark.parametrize("answer", [True, False, None])
def test_other_use_of_the_log(use: str, answer: bool | None) -> None:  # noqa: FBT001 - a parameter
    """It waits for the answer; the change is durable afterwards, and committed again only if that is uncertain."""
    with scene() as made:
        sent_in(made).answer = answer
        if use == "run_exclusively":
            made.queue.run_exclusively(lambda: None)
        elif use == "close":
            made.queue.stop()
        else:
            getattr(made.queue, use)()
        assert made.log.renewals == (use == "renew")
    assert [result[:2] for result in made.results] == [(1, None)]
    assert made.log.committed == ([[1]] if answer is False else [])
    assert made.queue.receive() is False


@pytest.mark.parametrize("answer", [True, False])
def test_renewal_that_fails(*, answer: bool) -> None:
    """The answer that it has taken reaches the caller. Without a success, the change is in doubt until a commit."""
    with scene() as made:
        sent_in(made).answer = answer
        made.log.failure = FAILURE
        with pytest.raises(JournalError):
            made.queue.renew()
        if answer:
            assert made.results == [(1, None, True)]
            continue_after(made)
        else:
            eventually(lambda: made.results == [(1, FAILURE, False)])
            continue_after(made)
            assert made.log.committed[-1] == [1]


def continue_after(made: Scene) -> None:
    """Let the log work again."""
    made.log.failure = None
    made.queue.flush()


def test_unexpected_error() -> None:
    """The thread survives an error that no log should raise, and tries again."""
    with scene() as made:
        made.log.next = None
        errors = [MemoryError(), MemoryError()]

        def fail(rows: Sequence[ChangeRow]) -> JournalError | None:
            if errors:
                raise errors.pop()
            made.log.committed.append([row[0] for row in rows])
            return None

        made.log.commit = fail  # type: ignore[method-assign] # for this test
        made.append()
        eventually(lambda: made.results == [(1, None, False)])
        assert (made.log.committed, errors) == ([[1]], [])


@pytest.mark.parametrize("opcodes", [False, True])
@pytest.mark.parametrize("call", ["send", "receive"])
def test_interruptions(call: str, *, opcodes: bool) -> None:
    """A change is durable, and its caller learns it, wherever the call of the loop is interrupted; no lock is held."""
    at, is_interrupted = 0, True
    while is_interrupted:
        at += 1
        with scene() as made:
            sent = Sent()
            made.log.next, sent.answer = sent, True
            if call == "send":
                is_interrupted = Injector(at, opcodes=opcodes).run(made.append)
            else:
                made.append()
                is_interrupted = Injector(at, opcodes=opcodes).run(made.queue.receive)
            # The committing thread may hold them now.
            assert not made.queue._writing.is_owned()
            assert not made.queue._guard.is_owned()
            if made.queue._appended or made.queue.number:
                eventually(lambda made=made: made.queue.receive() or made.queue._durable == 1)  # type: ignore[misc]
                made.queue.receive()
                eventually(lambda made=made: [result[:2] for result in made.results][:1] == [(1, None)])  # type: ignore[misc]
            assert made.queue._appended == []
    assert at > (100 if opcodes else 20)
