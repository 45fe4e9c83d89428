"""The arguments of changes, compared with the state of a partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ugm.arguments import require_exact_name, require_request
from ugm.counters import RequestVector
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import canonical_path, require_name
from ugm.partition.engine.application import Application
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import Allocation, AllocationRequest, AllocationState, allocation_of
from ugm.queues.tree import Queue
from ugm.resources import Resource

if TYPE_CHECKING:
    from ugm.partition.admission.variant_assignment import VariantAssignment

_PENDING: Final = AllocationState.PENDING


class CheckedArguments:
    """Finds the objects that a call names, and checks that they have the state that it needs."""

    def __init__(self, state: PartitionState, models: ModelSet) -> None:
        self._state: Final = state
        self._models: Final = models
        self._variants: VariantAssignment | None = None

    def require_application(self, application_id: str) -> Application:
        """Return an application.

        Raises:
            RequestError: it does not exist.
        """
        found = self._state.applications.get(require_name("application_id", application_id))
        if found is None:
            raise RequestError("application_id", application_id, "there is no such application", "application-unknown")
        return found

    def require_queue(self, queue_path: str) -> Queue:
        """Return a queue.

        Raises:
            RequestError: it does not exist.
        """
        found = self._state.tree.queues.get(canonical_path(queue_path))
        if found is None:
            raise RequestError("queue_path", queue_path, "there is no such queue", "queue-unknown")
        return found

    def row(
        self,
        request: AllocationRequest,
        state: AllocationState,
        now: int | None = None,
        *,
        replaces: Allocation | None = None,
    ) -> Allocation:
        """Return the row of a request, which is not in the ledger yet.

        If it is held, amounts of any variant are assigned.

        Args:
            request: the request.
            state: the state of the allocation.
            now: the time of the call if it is known; otherwise the clock is read if a duration is promised.
            replaces: the allocation that it replaces; None for none.

        Raises:
            RequestError: an argument is invalid, or the application does not exist.
        """
        require_exact_name("allocation_id", request.allocation_id)
        application = self.require_application(request.application_id)
        named = request._replace(application_id=application.row.application_id)
        made = allocation_of(named, state, self.now([request], now))
        row = self.assigned(application, made, replaces)
        self.request_vector(row.usage)
        return row

    # Variants

    @property
    def variants(self) -> VariantAssignment | None:
        """The assignment of amounts to variants; None if the partition has no families."""
        if self._state.active_limits.epoch.layout.families is None:
            return None
        if self._variants is None:
            from ugm.partition.admission.variant_assignment import VariantAssignment  # noqa: PLC0415 - few partitions need it

            self._variants = VariantAssignment(self._state, self._models)
        return self._variants

    def assigned(self, application: Application, row: Allocation, old: Allocation | None = None) -> Allocation:
        """Return a row in normal form; without open amounts if it is held. See `VariantAssignment.assigned`.

        Raises:
            RequestError: as for `VariantAssignment.assigned`, or the partition has no families, and the row needs one.
        """
        variants = self.variants
        if variants is None:
            if row.assign is not None or row.prefer:
                raise RequestError("assign", row.assign or row.prefer, "the partition has no families of resources")
            return row
        if row.state is _PENDING:
            return variants.normal(row)
        return variants.assigned(application, row, old)

    def objections(self, application: Application, row: Allocation) -> tuple[Violation, ...]:
        """Return the guarantees that the assignment of a row would leave unsatisfiable."""
        variants = None if row.assign is None else self.variants
        return () if variants is None else variants.objections(application, row)

    def now(self, requests: Iterable[AllocationRequest], known: int | None = None, *, changes: bool = True) -> int:
        """Return the time of the call if a request promises a duration; otherwise the clock is not read.

        Args:
            requests: the requests of the call.
            known: the time of the call, if the clock has been read.
            changes: whether the call is a change.
        """
        clock = self._models.clock
        if known is None and any(request.duration is not None for request in requests):
            return clock.now(changes=changes)
        return clock.latest if known is None else known

    def request_vector(self, usage: Resource) -> RequestVector:
        """Return the amounts of a request for the counters, after a check of the names of its resources."""
        return require_request("usage", usage, self._state.active_limits.epoch.layout)

    def require_not_failing(self, application: Application) -> None:
        """Check that an application may get more.

        Raises:
            RequestError: it is failing.
        """
        if application.row.failing:
            raise RequestError(
                "application_id", application.application_id, "the application is failing", "application-failing"
            )

    def is_repeated(self, row: Allocation) -> bool:
        """Return whether an allocation is held already, because the call repeats an earlier one.

        Raises:
            RequestError: the id belongs to another allocation.
        """
        known = self._state.allocations.get(row.allocation_id)
        if known is None:
            return False
        is_pending = known.state is _PENDING
        if is_pending and row.node != known.node and (row.state is not _PENDING or row.node is None):
            # The grant names the node, or a plan has named it for a request without one.
            row = row._replace(node=known.node)
        if known.until is not None and row.duration is not None:
            # The first end holds, whether it was renewed or not.
            row = row._replace(until=known.until, duration=known.duration)
        self.require_same(known, row)
        return not is_pending

    def require_same(self, known: Allocation, row: Allocation) -> None:
        """Check that two rows of one id describe the same allocation.

        Raises:
            RequestError: they do not.
        """
        difference = known.difference(row)
        if difference is not None:
            raise RequestError("allocation_id", known.allocation_id, in_use_reason(*difference), "id-in-use")

    def find(self, argument: str, allocation_id: str) -> Allocation | None:
        """Return an allocation, or None if it does not exist.

        Raises:
            RequestError: the id is invalid.
        """
        return self._state.allocations.get(require_name(argument, allocation_id))

    def require_held(self, argument: str, allocation_id: str) -> Allocation:
        """Return a held or terminating allocation.

        Raises:
            RequestError: it does not exist, or is pending.
        """
        row = self.find(argument, allocation_id)
        if row is None or row.state is _PENDING:
            reason = "there is no such allocation" if row is None else "it is pending, and holds nothing"
            raise RequestError(argument, allocation_id, reason, "allocation-unknown")
        return row


def in_use_reason(name: str, known: object, requested: object) -> str:
    """Return the reason why an id cannot be used again: a property differs."""
    known_text, requested_text = (value if isinstance(value, Resource) else repr(value) for value in (known, requested))
    return f"the id is in use with another {name}: {known_text} in use, {requested_text} requested"
