"""The direct path of a leader: messages whose operations are all new, and executed in the loop.

The problem: the steps of `Leader.execute` for any operation take about as long as a decision.

The idea: nearly all operations are new, of a session that is not fenced, and executed in the loop. They need no look-up
of an earlier answer and no choice of a target. Everything else is left to `Leader.execute`. Both have the same effects
and send the same bytes.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Final, final

from ugm.partition import AbstractPartition
from ugm.service.batch_log import BatchLog
from ugm.service.committer import Committer
from ugm.service.operations import DIRECT_OPERATIONS, Operation
from ugm.service.session import Session
from ugm.service.status import OperationTimes
from ugm.service.wire import Execute, OperationRequest, Reply

__all__ = ["DirectExecution"]


@final
class DirectExecution:
    """Executes new operations of sessions, in the thread of the loop.

    Args:
        partition: the engine.
        committer: passes the changes on to the log.
        times: the durations of operations.
    """

    __slots__ = ("_committer", "_log", "_partition", "_times")

    def __init__(self, partition: AbstractPartition, committer: Committer, times: OperationTimes) -> None:
        self._partition: Final = partition
        self._committer: Final = committer
        self._log: Final[BatchLog] = committer.log
        self._times: Final = times

    def execute(self, session: Session, message: Execute) -> bool:
        """Execute the operations of a message, and return True; return False if the general path has to do it."""
        requests, number = message.requests, message.first
        if not requests or number <= session.last or session.is_fenced:
            return False
        try:
            operations = _operations(requests)
        except KeyError:
            return False
        log, count = self._log, len(operations)
        before = log.number
        log.begin_message(session.name)
        began_at = perf_counter()
        session.last = number + count - 1
        try:
            if count == 1:
                answers = [self._answer(session, number, operations[0], requests[0])]
            else:
                answer = partial(self._answer, session)
                answers = list(map(answer, range(number, number + count), operations, requests))
        finally:
            seconds = perf_counter() - began_at
            log.end_message()
        if log.is_stored:
            session.acknowledge(message.acknowledged)
            if log.number != before:
                log.add_progress(session.progress())
            self._committer.when_durable(partial(session.finish, answers))
        else:
            # First of all, so that the client continues while the rest is noted.
            session.finish(answers)
            session.acknowledge(message.acknowledged)
            self._committer.deliver()
        self._times.add(count, seconds)
        return True

    def _answer(self, session: Session, number: int, operation: Operation, request: OperationRequest) -> Reply:
        """Return the answer to an operation, which is noted like one that `Session.begin` accepts."""
        is_change = operation.is_change
        session.undecided[number] = is_change
        answer = Reply(number, *operation.execute(self._partition, request.arguments))
        if is_change and self._log.is_stored:
            session.unlogged.append(answer)
        return answer


def _operations(requests: list[OperationRequest]) -> list[Operation]:
    if len(requests) == 1:
        return [DIRECT_OPERATIONS[requests[0].operation]]
    return [DIRECT_OPERATIONS[request.operation] for request in requests]
