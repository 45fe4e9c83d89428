"""Folding: the leader brings the tables of rows up to date with the changes.

The problem: to update the tables within each commit would make it several times as expensive.

The idea: a fold writes the net effect of many changes in a transaction of its own, together with the number of the last
one. It comes after the commits, and never before them. At a high rate it may lag, which makes the next opening longer.

Invariant: the tables of rows, with the changes after the number of the fold, are all that was appended. The number, the
rows, the usage and the state of the quota models change in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

from ugm._json_values import JsonMapping
from ugm.partition.rows import Change
from ugm.store.database import ALL_TABLES, SYSTEM_TABLES, Database
from ugm.store.reader import Transaction, read_fold, read_meter, read_transactions
from ugm.store.row_tables import CURRENT_USAGE, ROW_TABLES, USAGE
from ugm.store.usage import UsageMeter

__all__ = ["CaptureModels", "CapturedModels", "Folder"]

#: The maximum number of changes in one transaction for which positions are reserved.
_POSITION_BITS: Final = 20
#: The maximum number of old changes that one fold deletes.
_TRIMMED_AT_ONCE: Final = 10_000


class CapturedModels(NamedTuple):
    """The state of the quota models that depend on the past, after a change."""

    #: The number of the change.
    number: int
    #: `ugm.model.PersistentModel.save` of each model, by a key that the caller chooses.
    states: Mapping[str, JsonMapping]


#: Returns the state of the models after the last change that they know; None if they cannot be captured now. A thread
#: of the store calls it. It may wait for the lock of the partition for a short time only, because a holder of this lock
#: may wait for the store.
CaptureModels: TypeAlias = Callable[[], CapturedModels | None]


class _NetChange(NamedTuple):
    """The last row of a key."""

    position: int
    #: None if it was removed.
    row: Any


@final
class Folder:
    """Folds changes in one term. After an error, the next fold reads its state from the database again.

    Args:
        database: the connection of the leader.
        term: its term.
        keep: the time for which changes are kept after they were folded, in milliseconds.
    """

    __slots__ = ("_database", "_keep", "_meter", "_term", "number")

    #: The usage after the last fold; None if it has to be read.
    _meter: UsageMeter | None
    #: The number of the last folded change.
    number: int

    def __init__(self, database: Database, term: int, keep: int) -> None:
        self._database: Final = database
        self._term: Final = term
        self._keep: Final = keep
        self._meter = None
        self.number = read_fold(database)[0]

    def fold(self, pending: Iterable[Transaction], last: int, models: CapturedModels | None) -> None:
        """Fold all durable changes up to a number.

        Args:
            pending: durable transactions; earlier ones are read from the database.
            last: the number of the last transaction to fold.
            models: the state of the models after this transaction; None if there are none.

        Raises:
            StoreDeposedError: another process leads.
            StoreError: the database is not available; nothing has changed.
        """
        database, meter = self._database, self._meter
        self._meter = None
        with database.transaction():
            database.renew(self._term)
            if meter is None:
                self.number, meter = read_fold(database)[0], read_meter(database)
            transactions = self._complete([one for one in pending if self.number < one.number <= last], last)
            if transactions:
                self._write(transactions, meter)
                self._trim(transactions[-1].at - self._keep, last)
            if models is not None:
                self._write_models(models.states)
        self.number, self._meter = max(last, self.number), meter

    def _complete(self, pending: list[Transaction], last: int) -> list[Transaction]:
        """Return the transactions to fold, in their order without gaps."""
        until = pending[0].number - 1 if pending else last
        return [*read_transactions(self._database, self.number, until), *pending] if until > self.number else pending

    def _write(self, transactions: Sequence[Transaction], meter: UsageMeter) -> None:
        database = self._database
        for name, (removed, written) in _net_effect(transactions).items():
            table = ROW_TABLES[name]
            database.delete(name, table.key, removed)
            rows = [(position, *table.encode(key, row)) for key, (position, row) in written.items()]
            database.upsert(name, ALL_TABLES[name], table.key, rows)
        intervals = [one for each in transactions for one in meter.process(each.changes, each.at)]
        database.insert("usage", USAGE.columns, [USAGE.encode("", one) for one in intervals])
        self._write_current(meter)
        last = transactions[-1]
        database.run("UPDATE fold SET number = ?, at = ?", [last.number, last.at])

    def _write_current(self, meter: UsageMeter) -> None:
        changed = {name: meter.stored(name) for name in meter.changed}
        self._database.delete("current_usage", "application_id", [name for name, one in changed.items() if one is None])
        rows = [CURRENT_USAGE.encode(name, one) for name, one in changed.items() if one is not None]
        self._database.upsert("current_usage", SYSTEM_TABLES["current_usage"], "application_id", rows)
        meter.changed.clear()

    def _write_models(self, states: Mapping[str, JsonMapping]) -> None:
        database, table = self._database, ROW_TABLES["model"]
        database.run("DELETE FROM model")
        rows = [(position, *table.encode(key, state)) for position, (key, state) in enumerate(states.items())]
        database.insert("model", ALL_TABLES["model"], rows)

    def _trim(self, before: int, last: int) -> None:
        """Delete some of the changes before an instant, which are all folded."""
        self._database.run(
            "DELETE FROM change WHERE number <= (SELECT max(number) FROM (SELECT number, at FROM change "
            "WHERE number <= ? ORDER BY number LIMIT ?) AS oldest WHERE at < ?)",
            [last, _TRIMMED_AT_ONCE, before],
        )


def _net_effect(transactions: Iterable[Transaction]) -> dict[str, tuple[list[str], dict[str, _NetChange]]]:
    """Return the keys to delete first, and then the rows to write, by table."""
    net: dict[str, dict[str, _NetChange]] = {}
    #: The keys that may be in the table and were removed.
    removed: dict[str, set[str]] = {}
    born: set[tuple[str, str]] = set()
    for transaction in transactions:
        for position, change in enumerate(transaction.changes, transaction.number << _POSITION_BITS):
            table, key = change.table, change.key
            rows = net.setdefault(table, {})
            before = rows.get(key)
            if change.new is None:
                if (table, key) not in born:
                    removed.setdefault(table, set()).add(key)
                rows[key] = _NetChange(position, None)
            else:
                if before is None and _is_new(change):
                    born.add((table, key))
                keeps = before is not None and before.row is not None
                rows[key] = _NetChange(before.position if before and keeps else position, change.new)
    return {
        table: (sorted(removed.get(table, ())), {key: one for key, one in rows.items() if one.row is not None})
        for table, rows in net.items()
    }


def _is_new(change: Change) -> bool:
    """Return whether the table of rows cannot have the key. The old values of opaque rows are not stored."""
    return change.old is None and not ROW_TABLES[change.table].is_opaque
