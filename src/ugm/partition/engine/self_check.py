"""The self-check of a partition: what it has is compared with what follows from its rows.

Any difference is a bug in ugm. Under the lock, the rows and the facts that follow from them are copied. Then everything
is made again from the copied rows, without the lock, and the facts of the two are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from ugm.counters import Counter
from ugm.errors import InvariantError
from ugm.partition.engine.application import Application
from ugm.partition.engine.state import PartitionState
from ugm.queues.tree import Queue

#: Facts by the object that they belong to, each with its name.
_Facts: TypeAlias = dict[str, dict[str, Any]]

_NOTHING: Final[Mapping[str, Any]] = {}


def verify(state: PartitionState) -> None:
    """Compare a state with the one that follows from its rows. The lock is held only to copy both.

    Raises:
        InvariantError: they differ; the error has a message for each difference.
    """
    limits = state.active_limits
    compiled, tables, counted, found = state.lock.run(
        lambda: (state.compiled, state.tables.copy(), limits.epoch.layout.limited, _facts_of(state))
    )
    try:
        expected = _facts_of(state.made_from(compiled, tables, counted))
    except KeyError as error:
        raise InvariantError((f"a row belongs to {error}, which does not exist",)) from error
    differences = tuple(_differences(found, expected))
    if differences:
        raise InvariantError(differences)


def _differences(found: _Facts, expected: _Facts) -> Iterator[str]:
    for one in sorted({**found, **expected}):
        if one not in expected or one not in found:
            yield f"{one} is {'missing' if one in expected else 'listed'}, against the rows"
            continue
        for name in {**found[one], **expected[one]}:
            value, due = found[one].get(name), expected[one].get(name)
            if value != due:
                yield f"{one} has {name} {value}, but {due} follows from the rows"


def _facts_of(state: PartitionState) -> _Facts:
    """Return everything that follows from the rows of a state."""
    index = state.holding_index
    facts = {
        "the partition": {
            "applications with holdings": sorted(index.holdings),
            "terminating allocations": sorted(state.terminating),
            "placed requests": list(state.placed),
            "nodes": dict(state.cluster.nodes),
            "cluster": state.cluster.total,
            "pending work": {} if state.pending_usage is None else state.pending_usage.state(),
        }
    }
    facts |= {f"application {name!r}": _facts_of_application(state, one) for name, one in state.applications.items()}
    for tree in index.trees():
        owner = f"{tree.kind} {tree.name!r}"
        facts[owner] = {"applications": sorted(tree.holdings)}
        for counter in tree.sorted_counters():
            facts[f"{owner} in {counter.queue_path}"] = _facts_of_counter(counter)
    facts |= {f"queue {path}": _facts_of_queue(state, queue) for path, queue in state.tree.queues.items()}
    return facts


def _facts_of_application(state: PartitionState, application: Application) -> dict[str, Any]:
    row, holding = application.row, application.holding
    return {
        "id": row.application_id,
        "row": row,
        "queue": application.queue.queue_path,
        "a holding": state.holding_index.holdings.get(row.application_id) is holding and holding is not None,
        "amounts": None if holding is None else {name: amount for name, amount in holding.held().items() if amount},
        "allocations": sorted(application.allocations),
        "requests": list(application.pending),
    }


def _facts_of_queue(state: PartitionState, queue: Queue) -> dict[str, Any]:
    facts = {
        "settings": (queue.spec, queue.managed, queue.was_configured, queue.quota_override),
        "applications": sorted(queue.applications),
        "children": sorted(queue.children),
        "a counter in use": queue.queue_path in state.tree.counters,
        "counters": [counter.queue_path for counter in queue.chain],
    }
    counter = queue.counter
    if counter is not None:
        facts["the resources of the partition"] = counter.layout is state.active_limits.epoch.layout
        facts |= _facts_of_counter(counter)
    return facts


def _facts_of_counter(counter: Counter) -> dict[str, Any]:
    used = {name: amount for name, amount in counter.used().items() if amount}
    return {"running applications": counter.running, "usage": used}
