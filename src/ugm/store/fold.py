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
from ugm.store.database import ALL_TABLES, Database
from ugm.store.reader import Transaction, read_fold, read_meter, read_transactions
from ugm.store.row_tables import CURRENT_USAGE, ROW_TABLES, USAGE
from ugm.store.usage import UsageMeter

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


#: The position and the last row of a key, and whether the table of rows did not have it before.
_NetRow: TypeAlias = tuple[int, Any, bool]
#: Stands for a key that was not written since the last fold.
_STORED: Final[_NetRow] = (0, None, False)


@final
class Folder:
    """Folds changes in one term. After an error, the next fold reads its state from the database again.

    Args:
        database: the connection of the leader.
        term: its term.
        keep: the time for which changes are kept after they were folded, in milliseconds.
    """

    def __init__(self, database: Database, term: int, keep: int) -> None:
        self._database: Final = database
        self._term: Final = term
        self._keep: Final = keep
        #: The usage after the last fold; None if it has to be read.
        self._meter: UsageMeter | None = None
        #: The number of the last folded change.
        self.number: int = read_fold(database)[0]

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
            database.delete(table, sorted(removed))
            rows = [(position, *table.encode(key, row)) for key, (position, row, _) in written.items()]
            database.upsert(table, rows)
        intervals = [one for each in transactions for one in meter.process(each.changes, each.at)]
        database.insert("usage", USAGE.columns, [USAGE.encode("", one) for one in intervals])
        self._write_current(meter)
        last = transactions[-1]
        database.run("UPDATE fold SET number = ?, at = ?", [last.number, last.at])

    def _write_current(self, meter: UsageMeter) -> None:
        changed = {name: meter.current.get(name) for name in meter.changed}
        self._database.delete(CURRENT_USAGE, [name for name, one in changed.items() if one is None])
        rows = [CURRENT_USAGE.encode(name, one) for name, one in changed.items() if one is not None]
        self._database.upsert(CURRENT_USAGE, rows)
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


def _net_effect(transactions: Iterable[Transaction]) -> dict[str, tuple[set[str], dict[str, _NetRow]]]:
    """Return the keys to delete first, and then the rows to write, by table."""
    net: dict[str, tuple[set[str], dict[str, _NetRow]]] = {name: (set(), {}) for name in ROW_TABLES}
    for transaction in transactions:
        position = transaction.number << _POSITION_BITS
        for table, key, old, new, _ in transaction.changes:
            removed, written = net[table]
            if new is not None:
                before = written.get(key)
                written[key] = (position, new, old is None) if before is None else (before[0], new, before[2])
            # Changes of opaque tables do not tell whether a row is new.
            elif not written.pop(key, _STORED)[2] or ROW_TABLES[table].is_opaque:
                removed.add(key)
            position += 1
    return net
