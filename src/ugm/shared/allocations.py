"""Allocations of a shared partition: as in a `ugm.Partition`, each call one change of the database.

Plain ones go the short way of `ugm.shared.express` if they can.
"""

from __future__ import annotations

from collections.abc import Iterable

from ugm.arguments import name_of
from ugm.decision import ALLOWED, Decision, Violation
from ugm.operation_lock import OperationLock
from ugm.partition.entry import AllocationState, Ask
from ugm.partition.gang import allocate_all, asks_of
from ugm.partition.model_set import ModelSet
from ugm.resources import Resource
from ugm.shared.calls import Calls, bounded, require_counted, texts
from ugm.shared.database import Fenced
from ugm.shared.engine import Need, Tools

__all__ = ["Allocations"]


class Allocations(Calls):
    """The operations on allocations; see `ugm.shared.SharedPartition`."""

    __slots__ = ()

    def ask(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
    ) -> None:
        """Do what `ugm.Partition.ask` does."""
        ask = Ask(allocation_id, application_id, bounded(usage), placeholder, priority, preemptible)
        self._do(_need([ask]), lambda tools: tools.life.ask(ask))

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
        ask = Ask(allocation_id, application_id, bounded(usage), placeholder, priority, preemptible)
        return self._decide(_need([ask]), lambda tools: tools.admission.allocate(ask, evict=False))

    def allocate_all(self, asks: Iterable[Ask | tuple[str, str, Resource]]) -> Decision:
        """Do what `ugm.Partition.allocate_all` does."""
        batch = asks_of(asks)
        for ask in batch:
            bounded(ask.usage)
        return self._decide(
            _need(batch), lambda tools: allocate_all(tools.books, ModelSet((), OperationLock()), tools.admission, batch)
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
        name_of("allocation_id", allocation_id)
        return self._do(Need(lines=(allocation_id,)), lambda tools: tools.life.preempt(allocation_id))

    def release(self, allocation_id: str) -> bool:
        """Do what `ugm.Partition.release` does."""
        name_of("allocation_id", allocation_id)
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
        ask = Ask(allocation_id, application_id, bounded(usage), placeholder, priority, preemptible)

        def adopted(tools: Tools) -> tuple[Violation, ...]:
            tools.admission.entry(ask, AllocationState.HELD)
            require_counted(tools, usage)
            return tools.admission.adopt(ask)

        return self._counting(_need([ask])._replace(checks=False), adopted, usage)


def _need(asks: Iterable[Ask]) -> Need:
    known = [ask for ask in asks if texts(ask.allocation_id, ask.application_id)]
    return Need([ask.application_id for ask in known], [ask.allocation_id for ask in known])
