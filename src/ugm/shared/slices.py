"""Some applications and allocations, loaded from the database into the books of a structure, and taken out again.

The books then say of everybody who is loaded what the database says: what is counted at every limit that holds for
them, and how many applications run there, all of one moment. So the code of the embedded partition decides about them
as if it knew everybody. What it does to the books is not kept; a `ugm.shared.changes.Change` is made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, final

from ugm.hierarchy import Node
from ugm.identity import UserGroup
from ugm.partition.allocation import PLAIN, AllocationRequest, AllocationState, shared_traits, traits_of
from ugm.partition.application import Application, GangStyle, LedgerEntry
from ugm.partition.state import PartitionState
from ugm.partition.subject_queries import is_limiting
from ugm.queues import Submission
from ugm.resources import Resource

__all__ = ["EVERYTHING", "FACTS", "Held", "Place", "Slice", "place_of", "stage_of", "written_submission"]

#: One statement, and so one moment: the epoch, applications, lines of the ledger and counters.
EVERYTHING: Final = """SELECT epoch,
    (SELECT coalesce(json_agg(json_build_array(
            id, submission, queue, grp, stage, held, pending, generation, version)), '[]')
        FROM {schema}.application),
    (SELECT coalesce(json_agg(json_build_array(
            id, application, usage, state, placeholder, priority, preemptible, mark)), '[]')
        FROM {schema}.line),
    (SELECT coalesce(json_agg(json_build_array(kind, name, path, vcore, memory, others, running)), '[]')
        FROM {schema}.counter)
    FROM {schema}.structure"""

#: The same of some of them, each found by an index: applications, lines with their applications, all lines of some
#: applications, counters.
FACTS: Final = (
    EVERYTHING.replace(
        "{schema}.application)",
        "{schema}.application WHERE id = ANY (%(applications)s::text[]"
        " || ARRAY(SELECT application FROM {schema}.line WHERE id = ANY (%(lines)s::text[]))))",
    )
    .replace(
        "{schema}.line)",
        "{schema}.line WHERE id = ANY (%(lines)s::text[]) OR application = ANY (%(lines_of)s::text[]))",
    )
    .replace("{schema}.counter)", "{schema}.counter WHERE id = ANY (%(counters)s::bigint[]))")
)

#: Where something is counted: kind, name, queue path.
Place = tuple[str, str, str]

#: What is used there: vcore, memory, all others; and how many applications run.
Used = tuple[int, int, Sequence[int], int]

#: Stands for all allocations of an application that are not loaded.
_THE_REST: Final = "\0"


class Held(NamedTuple):
    """An application as it was loaded."""

    application: Application
    stage: int
    group: str | None
    held: int
    pending: int
    #: The stamp of the change that submitted it: another one for each application that has had this id.
    generation: int
    #: The stamp of its last change.
    version: int


@final
class Slice:
    """What is loaded into some books.

    Attributes:
        applications: those that are loaded, as they were, by id.
        entries: their allocations that are loaded, as they were, each with its mark, by id.
        chains: the limits that each application is charged to, and those of them that it is held to.
    """

    __slots__ = ("_state", "applications", "chains", "entries")

    def __init__(self, state: PartitionState) -> None:
        self._state: Final = state
        self.applications: Final[dict[str, Held]] = {}
        self.entries: Final[dict[str, tuple[LedgerEntry, int]]] = {}
        self.chains: Final[dict[str, tuple[list[Node], list[Node]]]] = {}

    def load(self, applications: Iterable[list[Any]], lines: Iterable[list[Any]], *, everything: bool = False) -> None:
        """List applications and allocations, which are *everything* that there is or a part of it."""
        for row in applications:
            self._enter(row)
        for row in lines:
            self._write(row)
        for held in self.applications.values():
            self._add_the_rest(held)
        for held in self.applications.values():
            self._open(held, alone=not everything)
        for name, held in self.applications.items():
            holding = self._state.holding_of(held.application)
            chain = holding.chain()
            self.chains[name] = (chain, holding.enforced(chain))

    def _enter(self, row: list[Any]) -> None:
        name, (user, groups, asked, tags, style, is_adopted), path, group, stage, *counts = row
        submission = Submission(name, UserGroup(user, groups), asked, tags)
        application = Application(submission, self._state.tree.queues[path], GangStyle(style))
        application.group, application.is_adopted, application.is_plain = group, is_adopted, False
        application.failing, application.has_run, application.has_replaced = map(
            bool, (stage & 2, stage & 4, stage & 8)
        )
        self.applications[name] = Held(application, stage, group, *counts)
        self._state.add_application(application)

    def _write(self, row: list[Any]) -> None:
        name, application_id, usage, state, placeholder, priority, preemptible, mark = row
        application = self.applications[application_id].application
        request = AllocationRequest(name, application_id, Resource(usage), placeholder, priority, preemptible)
        entry = LedgerEntry(application, request.usage, traits_of(AllocationState(state), request))
        self.entries[name] = (entry, mark)
        self._state.ledger.write(name, entry)

    def _add_the_rest(self, held: Held) -> None:
        """Let an application have something else if not all of its allocations are loaded."""
        application = held.application
        if len(application.allocations) < held.held:
            application.allocations[_THE_REST] = Resource()
        if len(application.pending) < held.pending:
            rest = shared_traits(AllocationState.PENDING, *PLAIN[1:])
            application.pending[_THE_REST] = LedgerEntry(application, Resource(), rest)

    def _open(self, held: Held, *, alone: bool) -> None:
        """Start an application if it is running; make its trackers known where others that they have are not loaded."""
        state, application = self._state, held.application
        holding = state.holding_of(application)
        if alone:
            state.holding_index.users.setdefault(holding.owner.name, holding.owner)
            if holding.group is not None:
                state.holding_index.groups.setdefault(holding.group.name, holding.group)
        if held.stage & 1:
            total = sum((entry.usage for entry in application.entries().values()), Resource())
            holding = state.holding_of(application)
            holding.charge(state.in_force.epoch.layout.vector(total))
            state.start(application, holding)

    def places(self) -> set[Place]:
        """Return where something is counted that concerns the applications.

        That is where something is limited: whoever shares a counter waits for others.
        """
        return {place_of(node) for chain, _ in self.chains.values() for node in chain if is_limiting(node)}

    def count(self, used: Mapping[Place, Used]) -> None:
        """Let every counter say what is really used; nothing where it is not told."""
        for chain, _ in self.chains.values():
            for node in chain:
                _set(node, used.get(place_of(node), (0, 0, (), 0)))
                if node.running:
                    node.owner.nodes[node.queue_path] = node

    def take_out(self) -> None:
        """Leave the books as if nothing had ever been loaded; what has happened to queues and nodes stays."""
        state = self._state
        for application in (*state.applications.values(), *(held.application for held in self.applications.values())):
            queue = application.queue
            queue.applications.pop(application.application_id, None)
            for node in queue.chain:
                _set(node, (0, 0, (), 0))
        state.tree.nodes.clear()
        for listed in (state.applications, state.ledger, state.holding_index.holdings, state.holding_index.users):
            listed.clear()
        state.holding_index.groups.clear()


def place_of(node: Node) -> Place:
    """Return where a node counts."""
    return str(node.owner.kind), node.owner.name, node.queue_path


def _set(node: Node, used: Used) -> None:
    vcore, memory, others, node.running = used
    limit = node.limit
    node.free_vcore, node.free_memory = limit.vcore - vcore, limit.memory - memory
    if node.layout.names:
        most = limit.extended(node.layout)
        node.free_extended = [free - less for free, less in zip(most, others or [0] * len(most), strict=True)]


def stage_of(application: Application) -> int:
    """Return how far an application has come, in bits."""
    return (
        (application.holding is not None)
        + 2 * application.failing
        + 4 * application.has_run
        + 8 * application.has_replaced
    )


def written_submission(application: Application) -> list[Any]:
    """Return what an application was submitted with, for JSON."""
    _, user, asked, tags = application.submission
    return [user.name, list(user.groups), asked, dict(tags), application.gang_style.value, application.is_adopted]
