"""Read-only connections: queries that a standby answers from the state that it follows, or a leader from its engine.

The problem: the followed state changes in another thread, and a query may take long. Its answer must not show half of a
change, and the client must know how old the answer is.

The idea: every query runs in another thread under the lock of the partition. The follower holds the same lock while it
applies a change, and releases it between two changes. The age of the state is read before a query begins and after it
has ended, and the higher one is stated. So the stated age is never lower than the age of the answer.

Invariant: an answer has all changes that were acknowledged more than `Staleness.seconds` before it was sent.

The cost: two thread switches for each query. These connections are not in the log, so nothing remains of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Final, NamedTuple, final

from msgspec import Raw

from ugm.errors import RequestError
from ugm.journal.follower import Follower
from ugm.partition import AbstractPartition
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.service.calls import require_query
from ugm.service.error_codec import encode_error
from ugm.service.errors import ProtocolError
from ugm.service.listing import ListingPartition
from ugm.service.operations import ERROR, Operation, operations_of
from ugm.service.query_turns import QueryTurns
from ugm.service.server_connection import ServerConnection
from ugm.service.session import Session
from ugm.service.status import ServiceStatus, StandbyStatus
from ugm.service.wire import (
    Execute,
    Follow,
    Hello,
    LeaderMessage,
    Moved,
    Replies,
    Reply,
    Staleness,
    StandbyReport,
    StatusMessage,
    Welcome,
    frame,
)

__all__ = ["FollowedPartition", "ReadView", "Readers"]

#: The maximum size of a text in the report of a standby, in characters.
_LONGEST_TEXT: Final = 512
#: The queries whose answer depends on quota models.
_OF_MODELS: Final = frozenset(
    {
        "application_report",
        "budget_accounts",
        "check",
        "exceeded_limits",
        "explain",
        "explain_submission",
        "headroom",
        "limits",
        "model_reports",
        "model_utilization",
        "order",
        "reservations",
        "plan_input",
        "plan_reclaim",
    }
)


@final
class FollowedPartition(ListingPartition):
    """The state of a follower as a partition, for queries only."""

    __slots__ = ()

    def __init__(self, state: PartitionState) -> None:
        self._assemble(state, ModelSet((), state.active_limits.lock))

    def is_of(self, state: PartitionState) -> bool:
        """Return whether this is the partition of a state."""
        return self._state is state


class ReadView(NamedTuple):
    """A partition that can be queried, as far as it is complete."""

    partition: AbstractPartition
    #: The partition has all changes up to this number, and all that were acknowledged before this time of the monotonic
    #: clock.
    number: int
    complete_at: float
    #: Whether quota models limit the partition, and this process does not keep them.
    lacks_models: bool = False

    @classmethod
    def of_follower(cls, follower: Follower, before: ReadView | None, *, lacks_models: bool) -> ReadView:
        """Return the view of a follower, in the thread that polls it.

        Args:
            follower: the follower.
            before: the view before, whose partition is used again.
            lacks_models: whether quota models limit the partition.
        """
        partition = before.partition if before is not None else None
        if not isinstance(partition, FollowedPartition) or not partition.is_of(follower.state):
            partition = FollowedPartition(follower.state)
        return cls(partition, follower.number, follower.complete_at, lacks_models)


@final
class Readers:
    """Answers the queries of read-only connections; a `ugm.service.server_connection.Clients`.

    It is used in the thread of the loop.

    Args:
        view: returns the partition that can be queried now; None if there is none.
        when_durable: calls a function in the loop when everything that the partition has is durable.
        status: returns the status of the service, for standbys.
    """

    __slots__ = ("_queries", "_reports", "_status", "_view", "_when_durable", "last_standby")

    #: The address of the standby that has reported last; empty if there was none.
    last_standby: str

    def __init__(
        self,
        view: Callable[[], ReadView | None],
        when_durable: Callable[[Callable[[], None]], None],
        status: Callable[[], ServiceStatus],
    ) -> None:
        self.last_standby = ""
        self._status: Final = status
        #: The last reports of standbys, by connection, with the time of the monotonic clock.
        self._reports: Final[dict[ServerConnection, tuple[StandbyReport, float]]] = {}
        self._view: Final = view
        self._when_durable: Final = when_durable
        self._queries: Final = QueryTurns("ugm reader")

    def welcome(self, connection: ServerConnection, hello: Hello) -> tuple[Session | None, LeaderMessage | None]:
        """Accept a client; its session is not in the log, and ends with the connection."""
        if self._view() is None:
            return None, Moved("")
        session = Session("", hello.client)
        session.peer = connection
        connection.send(frame(Welcome("", 0, 0)))
        return session, None

    def execute(self, session: Session, message: Execute) -> None:
        """Execute queries in other threads.

        Raises:
            ProtocolError: there is no such operation; none of the message was executed.
        """
        operations = operations_of(message.requests)
        session.acknowledge(message.acknowledged)
        view = self._view()
        for number, (operation, request) in enumerate(zip(operations, message.requests, strict=True), message.first):
            if view is not None and session.begin(number, is_change=False):
                arguments = bytes(request.arguments)
                work = partial(self._execute, session, view, number, operation, arguments)
                self._queries.submit(session, number, len(arguments), work)

    def _execute(
        self, session: Session, view: ReadView, number: int, operation: Operation, arguments: bytes
    ) -> Callable[[], None]:
        """Execute a query, and return the function that sends the answer."""
        data = frame(Replies([_answer(view, number, operation, arguments)]))
        return partial(self._when_durable, partial(self._send, session, view, number, data))

    def _send(self, session: Session, view: ReadView, number: int, answer: bytes) -> None:
        """Send an answer with its age."""
        now = self._view()
        # An outage during the query means that another process may have led since the log was last reached.
        complete_at = view.complete_at if now is None else min(view.complete_at, now.complete_at)
        if session.peer is not None:
            session.peer.send(frame(Staleness(monotonic() - complete_at, view.number)))
        session.finish_query(number, answer)

    def follow(self, connection: ServerConnection, message: Follow) -> None:  # noqa: ARG002 - as declared
        """Refuse to send changes.

        Raises:
            ProtocolError: always.
        """
        raise ProtocolError("unexpected", "a read-only connection cannot follow the changes")

    def follow_on(self, connection: ServerConnection) -> None:
        """Do nothing: no read-only connection follows the changes."""

    def leave(self, session: Session) -> None:
        """Do nothing: the session ends with the connection."""

    def disconnected(self, connection: ServerConnection) -> None:
        """Forget the reports of a connection."""
        self._reports.pop(connection, None)

    # Standbys

    def report(self, connection: ServerConnection, report: StandbyReport) -> None:
        """Note the position of a standby, and answer with the status of the service.

        Raises:
            ProtocolError: a text of the report is too long.
        """
        if max(len(report.name), len(report.address)) > _LONGEST_TEXT:
            raise ProtocolError("name", f"the texts of a report have at most {_LONGEST_TEXT} characters")
        self._reports[connection] = report, monotonic()
        self.last_standby = report.address
        connection.send(frame(StatusMessage(self._status())))

    def standbys(self, last: int) -> tuple[StandbyStatus, ...]:
        """Return the standbys, sorted by name; from any thread.

        Args:
            last: the number of the last durable change.
        """
        now = monotonic()
        # A standby that has just connected again replaces its report over the lost connection.
        found = {
            (one.name, one.address): StandbyStatus(
                one.name, one.address, one.change, max(0, last - one.change), one.seconds + now - at
            )
            for one, at in tuple(self._reports.values())
        }
        return tuple(found[key] for key in sorted(found))

    def close(self) -> None:
        """Stop the threads."""
        self._queries.close()


def _answer(view: ReadView, number: int, operation: Operation, arguments: bytes) -> Reply:
    """Execute a query, in any thread."""
    try:
        _require_answerable(view, operation)
    except RequestError as error:
        return Reply(number, ERROR, Raw(encode_error(error)))
    return Reply(number, *operation.execute(view.partition, arguments))


def _require_answerable(view: ReadView, operation: Operation) -> None:
    require_query(operation)
    if view.lacks_models and operation.name in _OF_MODELS:
        raise RequestError(
            "operation",
            operation.name,
            "a process that stands by does not keep the quota models",
            "operation-unavailable",
        )
