"""A PostgreSQL of the tests' own: its own data folder, its own port, stopped when the tests end.

Debian's package is looked for; where there is none, the tests that need it are left out, and say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from support.hosts import free_ports

_SETTINGS: Final = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 60
shared_buffers = 64MB
log_min_messages = fatal
log_min_error_statement = fatal
"""


def _binaries() -> Path | None:
    """Return the folder of the newest PostgreSQL on this machine."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("pg_ctl")
    return found[-1].parent if found else (Path(on_path).parent if on_path else None)


class Server:
    """A server with a data folder of its own."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder, self.binaries = folder, binaries
        self.data = folder / "data"
        [self.port] = free_ports(1)
        self._names = count()

    @property
    def conninfo(self) -> str:
        """How to connect."""
        return f"host=127.0.0.1 port={self.port} dbname=postgres user=ugm"

    def fresh_schema(self) -> str:
        """Return the name of a schema that nobody has used."""
        return f"ugm_{os.getpid()}_{next(self._names)}"

    def initialise(self, *, durable: bool) -> None:
        """Make the data folder; a server that is not *durable* does not wait for the disk."""
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self.execute("initdb", "--auth=trust", "--username=ugm", "--encoding=UTF8", "--pgdata", str(self.data))
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(f"{_SETTINGS}port = {self.port}\nfsync = {'on' if durable else 'off'}\n")

    def start(self) -> None:
        """Start, and wait until connections are taken."""
        self._control("start", "--log", str(self.folder / "log"))

    def stop(self, mode: str = "fast") -> None:
        """Stop; ``immediate`` is a crash."""
        self._control("stop", "--mode", mode)

    def end_connections(self, share: float) -> None:
        """End a share of the connections of all other processes."""
        import psycopg  # noqa: PLC0415 - an optional package

        statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ugm'"
        with psycopg.connect(self.conninfo) as connection:
            connection.execute(f"{statement} AND pid <> pg_backend_pid() AND random() < %s", [share])

    def _control(self, action: str, *options: str) -> None:
        self.execute("pg_ctl", action, "--wait", "--silent", "--pgdata", str(self.data), *options)

    def execute(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL's."""
        # PostgreSQL refuses to run as root.
        user = "postgres" if os.geteuid() == 0 else None
        command = [str(self.binaries / program), *arguments]
        subprocess.run(command, user=user, check=True, cwd=self.folder, stdout=subprocess.DEVNULL)  # noqa: S603 - our own


@contextmanager
def server_here(*, durable: bool = False) -> Iterator[Server]:
    """Run a server for as long as the block lasts."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: install the extra 'postgres'")
    binaries = _binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="ugm-postgres-") as folder:
        server = Server(Path(folder), binaries)
        server.initialise(durable=durable)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    """A server for all tests of one run."""
    with server_here() as server:
        yield server
