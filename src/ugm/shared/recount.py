"""Counting everything anew from the ledger: after a change of what is counted, with everybody else kept out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from ugm.hierarchy import Node
from ugm.identity import UserGroup
from ugm.partition.state import PartitionState
from ugm.partition.subject_queries import is_limiting
from ugm.resources import MEMORY, VCORE
from ugm.shared.database import Database
from ugm.shared.slices import Place, place_of
from ugm.shared.stamps import new_stamp

__all__ = ["recount"]

#: What all applications hold that one user has in one queue under one group, and how many of them run.
_SUMS: Final = """WITH running AS (
        SELECT id, submission ->> 0 AS "user", queue, grp FROM {schema}.application WHERE stage & 1 = 1
    ), sums AS (
        SELECT r."user", r.queue, r.grp, u.key, sum(u.value::numeric) AS amount
        FROM running r JOIN {schema}.line l ON l.application = r.id AND l.state <> 'pending',
            jsonb_each_text(l.usage) AS u GROUP BY 1, 2, 3, 4
    ) SELECT r."user", r.queue, r.grp, count(*), coalesce((
            SELECT json_object_agg(s.key, s.amount) FROM sums s
            WHERE (s."user", s.queue) = (r."user", r.queue) AND s.grp IS NOT DISTINCT FROM r.grp), '{}')
    FROM running r GROUP BY 1, 2, 3"""

_INSERT: Final = """INSERT INTO {schema}.counter (id, kind, name, path, vcore, memory, others, running)
    SELECT id, kind, name, path, vcore, memory, others, running FROM jsonb_to_recordset(%s::jsonb)
        AS c(id bigint, kind text, name text, path text, vcore bigint, memory bigint, others bigint[], running bigint)
    ORDER BY kind, name, path"""


def recount(database: Database, state: PartitionState) -> None:
    """Make counters for everything that is limited and used, and no others. The lock of the database is held."""
    names = state.in_force.epoch.layout.names
    sums: dict[Place, dict[str | None, int]] = {}
    for user, path, group, running, held in database.run(database.text(_SUMS)):
        for node in _chain(state, user, path, group):
            total = sums.setdefault(place_of(node), {})
            total[None] = total.get(None, 0) + running
            for name, amount in held.items():
                total[name] = total.get(name, 0) + int(amount)
    rows = [
        {
            "id": new_stamp(),
            **dict(zip(("kind", "name", "path"), place, strict=True)),
            "vcore": total.get(VCORE, 0),
            "memory": total.get(MEMORY, 0),
            "others": [total.get(name, 0) for name in names],
            "running": total[None],
        }
        for place, total in sums.items()
    ]
    database.run(database.text("DELETE FROM {schema}.counter"))
    database.run(database.text(_INSERT), [json.dumps(rows)])


def _chain(state: PartitionState, user: str, path: str, group: str | None) -> Iterator[Node]:
    holding = state.holding_index.detached_in_group(path, "", UserGroup(user), group)
    holding.quotas = state.tree.queues[path]
    yield from filter(is_limiting, holding.chain())
