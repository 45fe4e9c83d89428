"""What decisions are compiled from: configuration, queues and nodes, as the database has them.

Every process keeps a copy, of one *epoch*; the database refuses a change that was compiled from another. The copy is
the books of an embedded partition in which no application is listed, so that the rules are those of `ugm.Partition`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from ugm.identity import UserGroup
from ugm.partition.application import Application, GangStyle
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.events import ConfigurationChanged, Event, QueueQuotaSet
from ugm.partition.state import PartitionState
from ugm.partition.stored_config import config_from_data, config_to_data
from ugm.queues import Acl, QueueSpec, Quota, Submission
from ugm.resources import Resource
from ugm.shared.database import Database
from ugm.shared.stamps import new_stamp

__all__ = ["Structure"]

_LOAD: Final = """SELECT epoch, revision, user_limits_win, names, total, closed,
    CASE WHEN revision = %s THEN NULL ELSE settings END,
    coalesce((SELECT json_object_agg(name, offers) FROM {schema}.node), '{}'),
    coalesce((SELECT json_agg(json_build_array(path, spec, has_left, annotated) ORDER BY path)
        FROM {schema}.queue), '[]')
    FROM {schema}.structure"""

#: No application has such an id: the database keeps no text like it.
_NOBODY: Final = "\0"


@final
class Structure:
    """The structure of one epoch.

    Attributes:
        books: what the rules of a partition work with.
        epoch: which structure it is.
        revision: which configuration is in force.
        events: what has happened to the books since it was last emptied.
    """

    __slots__ = ("_before", "_paths", "epoch", "events", "revision", "state")

    epoch: int
    revision: int

    def __init__(self, row: tuple[Any, ...], known: tuple[int, CompiledConfig]) -> None:
        self.epoch, self.revision, user_limits_win, names, total, closed, settings, nodes, queues = row
        compiled = known[1] if known[0] == self.revision else CompiledConfig.of(config_from_data(settings))
        self.events: Final[list[Event]] = []
        # Only a part of all applications is ever loaded.
        self.state: Final = PartitionState(
            compiled, user_limits_win=user_limits_win, record=self.events.append, is_whole=False
        )
        self._furnish(queues, names)
        state = self.state
        state.closed = closed
        state.cluster.nodes.update((name, Resource(offers)) for name, offers in sorted(nodes.items()))
        state.cluster.total = None if total is None else Resource(total)
        state.resize_cluster()
        state.count_resources(tuple(names))
        self.events.clear()
        self._paths = frozenset(state.tree.queues)
        self._before = (self.names, state.in_force.epoch.layout.closed)

    @classmethod
    def load(cls, database: Database, known: tuple[int, CompiledConfig]) -> Structure:
        """Read the structure; the configuration only if it is not the one that is *known* by its revision."""
        return cls(database.run(database.text(_LOAD), [known[0]])[0], known)

    def _furnish(self, queues: Iterable[tuple[str, list[Any], bool, dict[str, int] | None]], names: list[str]) -> None:
        state = self.state
        state.count_resources(tuple(names))
        for path, spec, has_left, annotated in queues:
            queue = state.tree.create(path)
            queue.spec, queue.has_left = _read_spec(path, spec), has_left
            queue.annotated = None if annotated is None else Resource(annotated)
        state.tree.connect(state.in_force.epoch.layout)

    @property
    def names(self) -> tuple[str, ...]:
        """What is counted besides ``vcore`` and ``memory``."""
        return self.state.in_force.epoch.layout.names

    @property
    def known(self) -> tuple[int, CompiledConfig]:
        """The configuration, and which one it is."""
        return self.revision, self.state.compiled

    def has_changed(self) -> bool:
        """Return whether what has happened concerns not only applications and allocations."""
        return self._paths != self.state.tree.queues.keys() or self.counts_otherwise()

    def counts_otherwise(self) -> bool:
        """Return whether something is counted now, or counted elsewhere, that was not."""
        layout = self.state.in_force.epoch.layout
        given = any(isinstance(one, QueueQuotaSet | ConfigurationChanged) for one in self.events)
        return given or self._before != (layout.names, layout.closed)

    # Under the lock of the database

    def occupy(self, database: Database, besides: Iterable[str]) -> None:
        """List somebody in every queue in which there is somebody besides some applications."""
        statement = """SELECT path FROM unnest(%s::text[]) AS path WHERE EXISTS (
            SELECT FROM {schema}.application a WHERE a.queue = path AND a.id <> ALL (%s::text[]))"""
        for (path,) in database.run(database.text(statement), [list(self.state.tree.queues), list(besides)]):
            queue = self.state.tree.queues[path]
            name = _NOBODY + path
            somebody = Application(Submission(name, UserGroup("somebody")), queue, GangStyle.SOFT)
            self.state.applications[name] = queue.applications[name] = somebody

    def count_what_is_held(self, database: Database) -> None:
        """Count all that somebody holds if a cluster has become known, which allows nothing that it does not offer."""
        if not self.state.in_force.epoch.layout.closed or self._before[1]:
            return
        held = """SELECT DISTINCT key FROM {schema}.line, jsonb_each_text(usage)
            WHERE state <> 'pending' AND value <> '0'"""
        rows = database.run(database.text(held))
        self.state.count_resources(tuple(name for (name,) in rows))

    def write(self, database: Database) -> None:
        """Write everything, as the next epoch."""
        state = self.state
        configures = any(isinstance(one, ConfigurationChanged) for one in self.events)
        if configures:
            self.revision = new_stamp()
        settings = json.dumps(config_to_data(state.compiled.config)) if configures else None
        total = None if state.cluster.total is None else json.dumps(dict(state.cluster.total))
        (self.epoch,) = database.run(
            database.text(
                "UPDATE {schema}.structure SET epoch = %s, revision = %s, names = %s, total = %s::jsonb,"
                " closed = %s, settings = CASE WHEN %s THEN %s::jsonb ELSE settings END RETURNING epoch"
            ),
            [new_stamp(), self.revision, list(self.names), total, state.closed, configures, settings],
        )[0]
        nodes = {name: dict(offers) for name, offers in state.cluster.nodes.items()}
        database.run(database.text("DELETE FROM {schema}.node"))
        database.run(
            database.text("INSERT INTO {schema}.node SELECT key, value FROM jsonb_each(%s::jsonb)"), [json.dumps(nodes)]
        )
        self._write_queues(database)

    def _write_queues(self, database: Database) -> None:
        made = [
            {
                "path": queue.queue_path,
                "spec": _written_spec(queue.spec),
                "has_left": queue.has_left,
                "annotated": None if queue.annotated is None else dict(queue.annotated),
            }
            for queue in self.state.tree.root.below()
            if not queue.managed
        ]
        database.run(database.text("DELETE FROM {schema}.queue"))
        database.run(
            database.text(
                "INSERT INTO {schema}.queue SELECT path, spec, has_left, nullif(annotated, 'null')"
                " FROM jsonb_to_recordset(%s::jsonb) AS q(path text, spec jsonb, has_left boolean, annotated jsonb)"
            ),
            [json.dumps(made)],
        )


def _written_spec(spec: QueueSpec) -> list[Any]:
    template = None if spec.template is None else _written_quota(spec.template)
    acls = [None if acl is None else str(acl) for acl in (spec.submit_acl, spec.admin_acl)]
    return [spec.is_parent, _written_quota(spec.quota), template, *acls]


def _written_quota(quota: Quota) -> list[Any]:
    return [
        None if quota.max_resources is None else dict(quota.max_resources),
        quota.max_applications,
        None if quota.guaranteed is None else dict(quota.guaranteed),
    ]


def _read_spec(path: str, told: list[Any]) -> QueueSpec:
    is_parent, quota, template, submit, admin = told
    lists = [None if text is None else Acl.parse(text) for text in (submit, admin)]
    return QueueSpec(path, is_parent, _read_quota(quota), None if template is None else _read_quota(template), *lists)


def _read_quota(told: list[Any]) -> Quota:
    most, applications, guaranteed = told
    return Quota(_resource(most), applications, _resource(guaranteed))


def _resource(told: Mapping[str, int] | None) -> Resource | None:
    return None if told is None else Resource(told)
