"""How a call of a shared partition is made: on its one connection, and answered even if this process is fenced."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from ugm.decision import Decision, Violation
from ugm.errors import RequestError
from ugm.resources import MAX_QUANTITY, Resource
from ugm.shared import presence
from ugm.shared.database import Fenced
from ugm.shared.engine import Engine, Need, Tools
from ugm.shared.express import Express
from ugm.shared.view import SharedView

__all__ = ["Calls", "bounded", "require_counted", "texts"]

_LOGGER: Final = logging.getLogger(__name__)

T = TypeVar("T")


class _Uncounted(Exception):  # noqa: N818 - a turn of events inside, which no caller sees
    """Something has to be counted before an operation that nobody counts."""


class Calls(SharedView):
    """What the operations of a `ugm.shared.SharedPartition` have in common."""

    __slots__ = ("_engine", "_express", "_lost", "_on_lost", "name")

    #: What changes are made by; questions are asked of the reader, which may be another.
    _engine: Engine

    def __init__(
        self, engine: Engine, reader: Engine, name: str, on_lost: Callable[[presence.RegistrationLost], object] | None
    ) -> None:
        super().__init__(reader)
        self.name: Final = name
        self._engine = engine
        self._express: Final = Express(engine)
        self._on_lost: Final = on_lost
        #: Whether it was told that the registration is lost.
        self._lost = False

    def _do(self, need: Need, operation: Callable[[Tools], T]) -> T:
        try:
            with self._engine.lock:
                return self._engine.do(need, operation)
        except Fenced:
            raise self._refused() from None

    def _decide(self, need: Need, operation: Callable[[Tools], Decision]) -> Decision:
        try:
            with self._engine.lock:
                return self._engine.do(need, operation)
        except Fenced:
            return self._denied()

    def _refused(self) -> RequestError:
        self._tell_lost()
        return RequestError("process", self.name, "it is presumed dead, and has to register again")

    def _denied(self) -> Decision:
        self._tell_lost()
        return Decision((Violation("registration", self.name, "", "", "registration", 0, 0, 1),))

    def _tell_lost(self) -> None:
        """Tell once, without the lock; who is told cannot make a call fail."""
        with self._engine.lock:
            told, self._lost = self._lost, True
        if self._on_lost is None or told:
            return
        try:
            self._on_lost(presence.RegistrationLost(self._engine.token, self.name))
        except Exception:
            _LOGGER.exception("who was told that the registration of %r is lost failed", self.name)

    def _counting(self, need: Need, operation: Callable[[Tools], T], usage: Resource) -> T:
        """Do an operation after making sure that what it counts has a place in every counter."""
        while True:
            try:
                return self._do(need, operation)
            except _Uncounted:
                self._do(Need(structural=True), lambda tools: tools.state.count_unoffered(usage))


def texts(*values: object) -> tuple[str, ...]:
    """Return the values if all are texts, else none: what is no text is refused by the operation."""
    texts = tuple(value for value in values if isinstance(value, str))
    return texts if len(texts) == len(values) else ()


def bounded(usage: Resource) -> Resource:
    """Return a usage whose amounts the database can keep; what is no usage is refused by the operation."""
    if type(usage) is Resource:
        for name, amount in usage.items():
            if amount > MAX_QUANTITY:
                reason = f"the amount of {name} is above what a signed 64-bit integer holds"
                raise RequestError("usage", usage, reason)
    return usage


def require_counted(tools: Tools, usage: Resource) -> None:
    """Have an operation done again, after something else, if a usage names what no counter has a place for."""
    layout = tools.state.in_force.epoch.layout
    if layout.closed and not set(usage) <= {*layout.names, "vcore", "memory"}:
        raise _Uncounted
