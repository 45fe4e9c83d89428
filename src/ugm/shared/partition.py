"""One partition that several processes share, on as many machines as there are: its state is in PostgreSQL.

A `SharedPartition` has the operations of a `ugm.Partition`, with the same arguments, answers and errors, and decides by
the same code. Each operation is one change of the database, made by one function of the server in one transaction:
ledger, applications and counters together, or nothing.

What it does not have: other quota models, and `evict`, which is about them; their state is in one process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import TracebackType
from typing import Final, Literal, Self, final

from ugm.arguments import require_name
from ugm.errors import RequestError
from ugm.shared import presence
from ugm.shared.applications import Applications
from ugm.shared.database import Database
from ugm.shared.engine import Engine
from ugm.shared.presence import RegistrationLost
from ugm.shared.processes import Processes
from ugm.shared.upkeep import Upkeep

__all__ = ["SharedPartition"]

#: What a schema may be called; PostgreSQL cuts off longer names.
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,59}")


@final
class SharedPartition(Applications, Upkeep, Processes):
    """A partition in a database, as one of the processes that share it.

    The first process to come makes the tables. Any number of threads may call any operation at any time; they take
    turns, because a `SharedPartition` is one connection. After a fork, the child needs a new one.

    Args:
        conninfo: the database, as libpq has it: ``host=... dbname=... user=...``, or a URL.
        schema: the schema of the partition; several partitions may share a database.
        name: what the process is called in the list of processes; left out, host and process id.
        group_limits: as for a `ugm.Manager`; the same for all processes.
        replica: a database that follows the first; `SharedView.check` and all other questions are then asked there.
        patience: how many seconds to wait for a database that does not answer, before an `UnavailableError`.
        on_lost: who is told when this process learns that it is presumed dead.

    Raises:
        RequestError: an argument cannot be used, or the others have other *group_limits*.
        UnavailableError: the database does not answer.
    """

    __slots__ = ()

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str = "ugm",
        name: str | None = None,
        group_limits: Literal["always", "unless-user-limited"] = "always",
        replica: str | None = None,
        patience: float = 30,
        on_lost: Callable[[RegistrationLost], object] | None = None,
    ) -> None:
        if group_limits not in ("always", "unless-user-limited"):
            raise RequestError("group_limits", group_limits, "expected 'always' or 'unless-user-limited'")
        if not _SCHEMA.fullmatch(schema):
            raise RequestError("schema", schema, "expected small letters, digits and underscores, 60 at most")
        called = presence.default_name() if name is None else require_name("name", name)
        database = Database(conninfo, schema, patience)
        database.create(user_limits_win=group_limits == "unless-user-limited")
        engine = Engine(database)
        reader = engine if replica is None else Engine(Database(replica, schema, patience))
        super().__init__(engine, reader, called, on_lost)
        if self._engine.structure.state.in_force.user_limits_win != (group_limits == "unless-user-limited"):
            database.close()
            raise RequestError("group_limits", group_limits, "the others have decided otherwise")
        self.register()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} schema={self._engine.database.schema!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Take no more part. A process that leaves allocations behind stays listed, as one that may have vanished."""
        with self._engine.lock:
            try:
                presence.forget(self._engine.database, self._engine.token)
            finally:
                self._engine.database.close()
                self._reader.database.close()
