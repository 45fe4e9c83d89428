"""Brings a state up to date with changes that were made elsewhere: by another process, or before a restart.

The problem: to make everything again from the rows after each change takes time in proportion to all rows.

The idea: the rows are written first. Most changes are grants and releases, and those of applications that start and
end. They are counted one by one. Any other change needs a rebuild, which is made once for many changes.

Quota models get the calls that the partition has made when it made the changes, each at its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, final

from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.model_calls import calls_of_change, charge_all, row_calls
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import AllocationState, Change

_PENDING: Final = AllocationState.PENDING


@final
class RowFollower:
    """Applies changes to a state and its quota models, under the lock of the state.

    Args:
        state: the state.
        models: its quota models, whose clock shows the time of the changes.
        rebuild: makes everything again that follows from the rows.
        is_counted: whether it was called after the rows were written.
    """

    def __init__(
        self, state: PartitionState, models: ModelSet, rebuild: Callable[[], None], *, is_counted: bool
    ) -> None:
        self._state: Final = state
        self._models: Final = models
        self._rebuild: Final = rebuild
        self._is_counted = is_counted

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply the changes of one operation; `catch_up` follows before anything else happens."""
        self._models.begin(changes=False)
        for change in changes:
            if change.table in self._state.tables.by_name:
                self._state.tables.write(change.table, change.key, change.new)
            if self._models or change.table == "configuration":
                self._call_models(change)
            self._is_counted = self._is_counted and self._count(change)

    def catch_up(self) -> None:
        """Rebuild the state if a change could not be counted by itself."""
        if not self._is_counted:
            self._rebuild()
            self._is_counted = True

    # Quota models

    def _call_models(self, change: Change) -> None:
        models, tables = self._models, self._state.tables
        match change.table:
            case "allocation":
                application = (change.new or change.old).application_id
                calls = calls_of_change(tables.applications[application], change.old, change.new)
                for model in models.all:
                    charge_all(model, calls)
            case "partition" if change.old is None or change.old.cluster != change.new.cluster:
                models.resize(None, change.new.cluster)
            case "configuration":
                compiled: CompiledConfig = change.new.compiled
                models.declare(compiled.models, tables.partition[""].cluster, lambda: row_calls(tables))
            case "budget":
                models.budgets_with(change.key).change(change.new)
        # Nothing is taken back: after an error, the whole state is made again.
        self._state.lock.changes.clear()

    # Counters

    def _count(self, change: Change) -> bool:
        """Count one change, and return whether that was possible."""
        state, (table, key, old, new, _) = self._state, change
        if table == "allocation":
            layout = state.active_limits.epoch.layout
            if new is not None and layout.closed and not layout.limited.issuperset(new.usage):
                return False
            state.list_allocation(old, new)
            if old is not None and old.state is not _PENDING:
                state.refund(old)
            if new is not None and new.state is not _PENDING:
                state.charge(new)
        elif table == "application":
            if new is not None and old is None and new.queue_path not in state.tree.queues:
                return False
            was_running, is_running = (row is not None and row.is_running for row in (old, new))
            if was_running and not is_running:
                state.stop(state.applications[key])
            state.list_application(old, new)
            if is_running and not was_running:
                state.restart(state.applications[key])
        elif table == "request":
            state.list_request(key, new)
        else:
            return table not in state.tables.by_name
        return True
