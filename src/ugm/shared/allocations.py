"""Allocations of a shared partition: as in a `ugm.Partition`, each call one change of the database.

Plain ones go the short way of `ugm.shared.express` if they can.
"""

from __future__ import annotations

from collections.abc import Iterable

from ugm.arguments import require_name
from ugm.decision import ALLOWED, Decision, Violation
from ugm.operation_lock import OperationLock
from ugm.partition.allocation import AllocationRequest, AllocationState
from ugm.partition.gang import allocate_all, require_requests
from ugm.partition.model_set import ModelSet
from ugm.resources import Resource
from ugm.shared.calls import Calls, bounded, require_counted, texts
from ugm.shared.database import Fenced
from ugm.shared.engine import Need, Tools

__all__ = ["Allocations"]


class Allocations(Calls):
    """The operations on allocations; see `ugm.shared.SharedPartition`."""

    __slots__ = ()

    def request(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
    ) -> None:
        """Do what `ugm.Partition.request` does."""
        request = AllocationRequest(allocation_id, application_id, bounded(usage), placeholder, priority, preemptible)
        self._do(_need([request]), lambda tools: tools.admission.request(request))

    def allocate(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
    ) -> Decision:
        """Do what `ugm.Partition.allocate` does."""
        if placeholder is False and preemptible is True and type(priority) is int and not priority:
            try:
                with self._engine.lock:
                    if self._express.allocate(allocation_id, application_id, usage):
                        return ALLOWED
            except Fenced:
                return self._denied()
        request = AllocationRequest(allocation_id, application_id, bounded(usage), placeholder, priority, preemptible)
        return self._decide(_need([request]), lambda tools: tools.admission.allocate(request))

    def allocate_all(self, requests: Iterable[AllocationRequest | tuple[str, str, Resource]]) -> Decision:
        """Do what `ugm.Partition.allocate_all` does."""
        batch = require_requests(requests)
        for request in batch:
            bounded(request.usage)
        return self._decide(
            _need(batch), lambda tools: allocate_all(tools.state, ModelSet((), OperationLock()), tools.admission, batch)
        )

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource) -> Decision:
        """Do what `ugm.Partition.replace` does."""
        bounded(usage)
        return self._decide(
            Need(lines=texts(placeholder_id, allocation_id)),
            lambda tools: tools.admission.replace(placeholder_id, allocation_id, usage),
        )

    def resize(self, allocation_id: str, usage: Resource) -> Decision:
        """Do what `ugm.Partition.resize` does."""
        bounded(usage)
        return self._decide(
            Need(lines=texts(allocation_id)), lambda tools: tools.admission.resize(allocation_id, usage)
        )

    def preempt(self, allocation_id: str) -> bool:
        """Do what `ugm.Partition.preempt` does."""
        require_name("allocation_id", allocation_id)
        return self._do(Need(lines=(allocation_id,)), lambda tools: tools.admission.preempt(allocation_id))

    def release(self, allocation_id: str) -> bool:
        """Do what `ugm.Partition.release` does."""
        require_name("allocation_id", allocation_id)
        try:
            with self._engine.lock:
                if self._express.release(allocation_id):
                    return True
        except Fenced:
            raise self._refused() from None
        return self._do(Need(lines=(allocation_id,)), lambda tools: tools.admission.release(allocation_id))

    def adopt(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
    ) -> tuple[Violation, ...]:
        """Do what `ugm.Partition.adopt` does."""
        request = AllocationRequest(allocation_id, application_id, bounded(usage), placeholder, priority, preemptible)

        def adopted(tools: Tools) -> tuple[Violation, ...]:
            tools.admission.entry(request, AllocationState.HELD)
            require_counted(tools, usage)
            return tools.admission.adopt(request)

        return self._counting(_need([request])._replace(checks=False), adopted, usage)


def _need(requests: Iterable[AllocationRequest]) -> Need:
    known = [request for request in requests if texts(request.allocation_id, request.application_id)]
    return Need([request.application_id for request in known], [request.allocation_id for request in known])
