"""How an operation is done: loaded, decided by the code of the embedded partition, and made if all is as it was loaded.

An operation runs on a `ugm.shared.slices.Slice`, outside of every lock. What it did is sent as one change; the database
makes it, or refuses it because something was different, and then the operation runs once more on what is there now. A
denial is the answer of one moment and needs no change. Operations on the structure, and operations that were refused
many times, run while everybody else is kept out.

Every change has a number, which only its process uses. So a change whose answer was lost is sent again, and made once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from time import monotonic, sleep
from typing import Any, Final, NamedTuple, TypeVar, final

from ugm.operation_lock import OperationLock
from ugm.partition.admission import Admission
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.lifecycle import ApplicationLifecycle
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.shared.changes import CHANGE, Change, change_of
from ugm.shared.database import UNWILLING, Database, Moved, Short, Stale
from ugm.shared.recount import recount
from ugm.shared.slices import EVERYTHING, FACTS, Held, Place, Slice
from ugm.shared.stamps import new_stamp
from ugm.shared.structure import Structure

__all__ = ["Engine", "Need", "Tools"]

#: After so many refusals everybody else is kept out.
_PATIENT: Final = 10
#: How many places of counters are remembered.
_REMEMBERED: Final = 1 << 16

_FIND: Final = """SELECT c.kind, c.name, c.path, c.id FROM {schema}.counter c
    JOIN unnest(%s::text[], %s::text[], %s::text[]) AS t(kind, name, path) USING (kind, name, path)"""

#: The arguments of ``change`` for no counters.
_NOTHING: Final[tuple[Any, ...]] = ([], [], [], [], [], None, [], [])

T = TypeVar("T")


class Tools(NamedTuple):
    """What an operation works with."""

    state: PartitionState
    admission: Admission
    life: ApplicationLifecycle


class Need(NamedTuple):
    """What an operation has to know."""

    applications: Sequence[str] = ()
    #: Allocations, by id; their applications are loaded, too.
    lines: Sequence[str] = ()
    #: Whether all allocations of the applications are needed.
    whole: bool = False
    #: Whether what grows is held to the limits.
    checks: bool = True
    #: Whether queues, nodes or the configuration change in any case.
    structural: bool = False


@final
class Engine:
    """A process that takes part in a shared partition.

    Attributes:
        database: the connection.
        token: the registration of the process.
        lock: held for every operation.
    """

    __slots__ = ("_ids", "_known", "_loaded", "_places", "_structure", "database", "lock", "number", "token")

    def __init__(self, database: Database) -> None:
        self.database: Final = database
        self.lock: Final = Lock()
        self.token: int = 0
        self._loaded: dict[str, Held] = {}
        #: Of the last change.
        self.number: int = 0
        self._structure: Structure | None = None
        #: The configuration that was compiled last, and which one it is; there is none of number 0.
        self._known: tuple[int, CompiledConfig] = (0, CompiledConfig.of(None))
        #: Where an application was counted when it was loaded last; what is wrong here only costs a second look.
        self._places: dict[str, frozenset[Place]] = {}
        #: Where counters are, in the present epoch.
        self._ids: dict[Place, int] = {}

    # The structure

    @property
    def structure(self) -> Structure:
        """The structure as it was last seen."""
        return self._structure or self.reload()

    def reload(self) -> Structure:
        """Read the structure."""
        self._ids.clear()
        self._structure = Structure.load(self.database, self._known)
        self._known = self._structure.known
        return self._structure

    def tools(self) -> Tools:
        """Return what operations work with."""
        state, others = self.structure.state, ModelSet((), OperationLock())
        admission = Admission(state, others)
        return Tools(state, admission, ApplicationLifecycle(state, others, admission))

    # Operations

    def ask(self, need: Need, operation: Callable[[Tools], T]) -> T:
        """Return what an operation that only reads finds."""
        loaded = self._load(need, reads=True)
        try:
            return operation(self.tools())
        finally:
            self._leave(loaded)

    def do(self, need: Need, operation: Callable[[Tools], T]) -> T:
        """Do an operation, and return its answer."""
        self.number += 1
        answers: list[T] = []
        attempts, start = 0, monotonic()
        alone = need.structural
        while True:
            attempts += 1
            try:
                if alone or not self._attempt(need, operation, answers):
                    self._attempt_alone(need, operation, answers)
            except (Moved, Short):
                alone = alone or attempts >= _PATIENT
                sleep(random.random() * 0.001 * attempts)  # noqa: S311 - who waits how long is no secret
            except UNWILLING as error:
                # It was interrupted in a transaction; what became of that is found out in another.
                alone = True
                self.database.give_up_after(start, error)
            else:
                return answers[-1]

    def _attempt(self, need: Need, operation: Callable[[Tools], T], answers: list[T]) -> bool:
        """Try once, and return whether that did it; False if others have to be kept out."""
        loaded, structure = self._load(need, reads=False), self.structure
        try:
            answers.append(operation(self.tools()))
            if structure.has_changed():
                return False
            change = change_of(structure.state, loaded, structure.events, checks=need.checks, whole=need.whole)
        finally:
            self._leave(loaded)
        if not change.is_empty:
            self._make(change, counts=True)
        return True

    def _leave(self, loaded: Slice) -> None:
        structure = self.structure
        if structure.has_changed():
            self._structure = None
        else:
            loaded.take_out()
            structure.events.clear()

    def _attempt_alone(self, need: Need, operation: Callable[[Tools], T], answers: list[T]) -> None:
        """Try once with everybody else kept out, unless an earlier attempt was made after all."""
        self._structure = None
        try:
            with self.database.transaction():
                self.database.lock()
                if not (answers and self._is_done()):
                    self._do_alone(need, operation, answers)
        finally:
            self._structure = None

    def _do_alone(self, need: Need, operation: Callable[[Tools], T], answers: list[T]) -> None:
        loaded, structure = self._load(need, reads=False), self.structure
        structure.occupy(self.database, loaded.applications)
        answers.append(operation(self.tools()))
        structure.count_what_is_held(self.database)
        recounts = structure.counts_otherwise()
        change = change_of(structure.state, loaded, structure.events, checks=need.checks, whole=need.whole)
        self._make(change, counts=not recounts)
        if need.structural or structure.has_changed():
            structure.write(self.database)
            self._known = structure.known
        if recounts:
            loaded.take_out()
            recount(self.database, structure.state)

    def _is_done(self) -> bool:
        rows = self.database.run(self.database.text("SELECT last FROM {schema}.process WHERE token = %s"), [self.token])
        return bool(rows and rows[0][0] >= self.number)

    # Changes

    def _make(self, change: Change, *, counts: bool) -> None:
        """Make a change.

        Raises:
            Moved: something is not as it was loaded.
            Short: a counter does not leave enough.
            Fenced: the process is presumed dead, and the change takes something.
        """
        positions = self.structure.state.in_force.epoch.layout.positions
        counters = change.counted(self._ids, positions) if counts else _NOTHING
        self._say(self.database.text(CHANGE), (change.spends, *change.ledger, *counters))

    def send(self, statement: str, arguments: Sequence[object]) -> int:
        """Make one more change with a statement of this schema, and return its stamp.

        Raises:
            Moved: something is not as it was loaded, the structure included.
            Short: a counter does not leave enough.
            Fenced: the process is presumed dead, and the change takes something.
        """
        self.number += 1
        return self._say(statement, arguments)

    def _say(self, statement: str, arguments: Sequence[object]) -> int:
        # The process draws the stamp, so a repeated statement needs no answer that could be about another change.
        stamp = new_stamp()
        values = (str(self.token), str(self.number), str(self.structure.epoch), str(stamp), *arguments)
        try:
            self.database.run(statement, values)
        except Stale:
            self._structure = None
            raise
        return stamp

    # Loading

    def loaded_as(self, application_id: str) -> Held:
        """Return an application of the operation under way as it was loaded."""
        return self._loaded[application_id]

    def counter(self, place: Place) -> int:
        """Return the counter of a place, which has one."""
        return self._ids[place]

    def _load(self, need: Need, *, reads: bool) -> Slice:
        """Load what an operation needs, with the counters that concern it, as of one moment."""
        wanted: set[int] = self._likely(need)
        while True:
            structure = self.structure
            epoch, applications, lines, counters = self._facts(need, wanted)
            # In one epoch, no counter goes, unless the database was restored.
            if epoch != structure.epoch or len(counters) < len(wanted):
                self.reload()
                wanted = set()
                continue
            loaded = Slice(structure.state)
            loaded.load(applications, lines)
            places = loaded.places()
            used = {(kind, name, path): tuple(rest) for kind, name, path, *rest in counters}
            if self._knows(places, wanted, reads=reads):
                loaded.count(used)
                structure.events.clear()
                if len(loaded.applications) == 1:
                    self._remember(next(iter(loaded.applications)), places)
                self._loaded = loaded.applications
                return loaded
            loaded.take_out()
            structure.events.clear()
            wanted = {self._ids[place] for place in places if place in self._ids}

    def _facts(self, need: Need, wanted: Iterable[int]) -> Any:  # noqa: ANN401 - a row
        values = {
            "applications": list(need.applications),
            "lines": list(need.lines),
            "lines_of": list(need.applications) if need.whole else [],
            "counters": list(wanted),
        }
        return self.database.run(self.database.text(FACTS), values)[0]

    def _likely(self, need: Need) -> set[int]:
        """Return the counters that an operation will probably need."""
        places = (place for name in need.applications for place in self._places.get(name, ()))
        return {self._ids[place] for place in places if place in self._ids}

    def _remember(self, application_id: str, places: Iterable[Place]) -> None:
        if len(self._places) >= _REMEMBERED:
            self._places.clear()
        self._places[application_id] = frozenset(places)

    def _knows(self, places: set[Place], wanted: set[int], *, reads: bool) -> bool:
        """Return whether all counters at some places were wanted, after finding out, or making, those not known."""
        missing = sorted(place for place in places if place not in self._ids)
        if missing:
            self._find(missing, reads=reads)
        return {self._ids[place] for place in places if place in self._ids} <= wanted

    def _find(self, places: Sequence[Place], *, reads: bool) -> None:
        kinds, names, paths = (list(column) for column in zip(*places, strict=True))
        if reads:
            # What has no counter is not used.
            found = self.database.run(self.database.text(_FIND), [kinds, names, paths])
            self._ids.update(((kind, name, path), key) for kind, name, path, key in found)
            return
        zeros = [0] * len(self.structure.names)
        made = self.database.run(
            self.database.text(
                "SELECT {schema}.counters(%s::bigint, %s::bigint[], %s::text[], %s::text[], %s::text[], %s::bigint[])"
            ),
            [self.structure.epoch, [new_stamp() for _ in places], kinds, names, paths, zeros],
        )[0][0]
        if made is None:
            self._structure = None
            raise Moved
        self._ids.update(zip(places, made, strict=True))

    def everything(self, operation: Callable[[PartitionState, list[Any]], T]) -> T:
        """Return what an operation finds that reads everything; it gets the books, and all counters as they are."""
        while True:
            structure = self.structure
            epoch, applications, lines, counters = self.database.run(self.database.text(EVERYTHING))[0]
            if epoch == structure.epoch:
                break
            self.reload()
        loaded = Slice(structure.state)
        try:
            loaded.load(applications, lines, everything=True)
            return operation(structure.state, counters)
        finally:
            loaded.take_out()
            structure.events.clear()
