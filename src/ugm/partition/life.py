"""The life of applications: submitted, asking, running, and ended in one way or another.

Nothing here waits. Whatever takes a while, such as the time that a gang has to come together, is ended by a call of the
embedding program.

Source: Apache YuniKorn, user based resource usage tracking, "Application tracking".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from ugm.errors import RequestError
from ugm.partition.admission import Admission
from ugm.partition.application import Application, ApplicationInfo, ApplicationState, GangStyle
from ugm.partition.books import Books
from ugm.partition.entry import AllocationState, Ask, Entry
from ugm.partition.events import Closed, Failing
from ugm.partition.others import OtherModels
from ugm.queues import Placement, Queue, Submission
from ugm.resources import Resource

__all__ = ["LifeCycle"]


@final
class LifeCycle:
    """What a partition does to its applications. The partition holds the lock."""

    __slots__ = ("_admission", "_books", "_others")

    def __init__(self, books: Books, others: OtherModels, admission: Admission) -> None:
        self._books: Final = books
        self._others: Final = others
        self._admission: Final = admission

    # Beginning

    def submit(self, submission: Submission, gang_style: GangStyle, quota: Resource | None) -> Placement:
        """Place an application, and list it if that succeeds."""
        books = self._books
        known = books.applications.get(submission.application_id)
        if known is not None:
            self._require_same(known, submission, gang_style)
            return Placement(known.queue.queue_path, (), creates=False)
        self._require_open()
        placement = books.compiled.rules.place(submission, books.tree)
        if placement.queue_path is None:
            return placement
        self._enter(submission, gang_style, books.tree.create(placement.queue_path), quota)
        return placement

    def adopt(self, submission: Submission, gang_style: GangStyle, quota: Resource | None, group: str | None) -> None:
        """List an application where it was placed before, whatever the rules, the queues and their lists say now."""
        books = self._books
        known = books.applications.get(submission.application_id)
        if known is not None:
            self._require_same(known, submission, gang_style)
            return
        self._require_open()
        queue = books.tree.create(submission.queue)
        books.count(tuple(queue.quota.names))
        self._enter(submission, gang_style, queue, quota, group)

    def _enter(
        self,
        submission: Submission,
        gang_style: GangStyle,
        queue: Queue,
        quota: Resource | None,
        group: str | None = "",
    ) -> None:
        books = self._books
        if quota is not None and not queue.managed and queue.annotated != quota:
            books.annotate(queue, quota)
        application = Application(submission, queue, gang_style, is_plain=not self._others and books.tell is None)
        application.group = group
        books.enter(application)

    def _require_same(self, known: Application, submission: Submission, gang_style: GangStyle) -> None:
        if known.submission != submission or known.gang_style is not gang_style:
            raise RequestError(
                "application_id", submission.application_id, "the id stands for an application submitted otherwise"
            )

    def _require_open(self) -> None:
        if self._books.closed:
            raise RequestError("submission", "refused", "the partition is being removed")

    # Asking

    def ask(self, ask: Ask) -> None:
        """Count an allocation as pending."""
        entry = self._admission.entry(ask, AllocationState.PENDING)
        known = self._books.entries.get(ask.allocation_id)
        if known is not None:
            self._admission.require_same(ask.allocation_id, known, entry)
            return
        self._admission.require_welcome(entry.application)
        if self._others:
            self._others.expect(entry.claim(ask.allocation_id))
        self._books.note_pending(ask.allocation_id, entry)

    def preempt(self, allocation_id: str) -> bool:
        """Tell an allocation to go, and say whether there is one that could be told."""
        entry = self._books.entries.get(allocation_id)
        if entry is None or entry.traits.state is AllocationState.PENDING:
            return False
        self._tell_to_go([(allocation_id, entry)])
        return True

    def _tell_to_go(self, allocations: Iterable[tuple[str, Entry]]) -> tuple[str, ...]:
        told = tuple(allocations)
        for allocation_id, entry in told:
            self._books.note_going(allocation_id, entry)
        return tuple(allocation_id for allocation_id, _ in told)

    # Ending

    def time_out_gang(self, application: Application) -> tuple[str, ...]:
        """End the wait for a gang, and return the placeholders that have to be released."""
        pending = [name for name, entry in application.pending.items() if entry.traits.placeholder]
        placeholders = tuple(application.placeholders())
        if not pending and not placeholders:
            return ()
        is_unused = len(placeholders) == len(application.entries) and not application.has_replaced
        if application.gang_style is GangStyle.HARD and is_unused:
            return self.fail(application)
        for allocation_id in pending:
            self._admission.withdraw(allocation_id)
        return self._tell_to_go(placeholders)

    def fail(self, application: Application) -> tuple[str, ...]:
        """Let an application fail, and return the allocations that have to be released."""
        for allocation_id in tuple(application.pending):
            self._admission.withdraw(allocation_id)
        if not application.failing and self._books.tell:
            self._books.tell(Failing(application.application_id))
        application.failing, application.is_plain = True, False
        told = self._tell_to_go(application.entries.items())
        self._books.settle(application)
        return told

    def complete(self, application: Application) -> ApplicationInfo:
        """Forget an application that holds nothing and for which nothing is pending."""
        if application.entries or application.pending:
            kept = f"{len(application.entries)} allocations and {len(application.pending)} pending"
            raise RequestError("application_id", application.application_id, f"the application has {kept}")
        told = application.shown(ApplicationState.COMPLETED)
        self._books.forget(application, ApplicationState.COMPLETED)
        return told

    def remove(self, application: Application) -> tuple[str, ...]:
        """Give back all that an application holds, forget it, and return what it held."""
        state = application.state
        for allocation_id in tuple(application.pending):
            self._admission.withdraw(allocation_id)
        released = self._admission.release_all(application.entries)
        if application.application_id in self._books.applications:
            self._books.forget(application, state)
        return released

    def close(self) -> tuple[str, ...]:
        """Take nothing more, let all applications fail, and return the allocations that have to be released."""
        if not self._books.closed and self._books.tell:
            self._books.tell(Closed())
        self._books.closed = True
        return tuple(
            allocation_id
            for application in tuple(self._books.applications.values())
            for allocation_id in self.fail(application)
        )
