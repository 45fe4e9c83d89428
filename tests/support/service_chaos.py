"""Processes that lead, stand by and use a service, and the faults that they suffer."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

from support.chaos_limits import APPLICATIONS, DYNAMIC, configuration, parsed, submit
from support.places import environment
from support.postgres import Server
from support.service_client import DEADLINE
from support.service_fixtures import eventually
from ugm import Resource
from ugm.service import ConnectedPartition, ServiceError, connect
from ugm.store import StoreError, StoreReader
from ugm.store.reader import StoreLocation

#: The first number of the configuration, and the range of later ones.
_MEMORY: Final = 60
_MEMORIES: Final = (40, 75)


class Cluster:
    """Processes that may lead, and clients of them.

    Args:
        folder: a folder for sockets, the configuration and the reports.
        place: the log.
        leaders: the number of processes that lead or stand by.
        clients: the number of client processes.
        seconds: how long the clients work.
        server: the PostgreSQL of the log, which suffers faults, too.
    """

    def __init__(
        self,
        folder: Path,
        place: StoreLocation,
        *,
        leaders: int,
        clients: int,
        seconds: float,
        server: Server | None = None,
    ) -> None:
        self.folder, self.place, self._server = folder, place, server
        (folder / "config.yaml").write_text(configuration(_MEMORY))
        self.addresses = [f"unix:{folder}/{number}" for number in range(leaders)]
        self.leaders = [self._begin_leader(number) for number in range(leaders)]
        self._incarnations = defaultdict[int, int](int)
        with self.connect() as partition:
            assert all(submit(partition, *application) for application in APPLICATIONS)
            partition.set_queue_quota(DYNAMIC, Resource(memory=_MEMORY))

        self._end = monotonic() + seconds
        self.clients = [self._begin_client(number) for number in range(clients)]
        self.faults = defaultdict[str, int](int)
        #: The names of the killed clients whose allocations were released.
        self.released = set[str]()

    def connect(self, deadline: float = 20.0) -> ConnectedPartition:
        """Return a client of this process."""
        return connect(",".join(self.addresses), client="observer", deadline=deadline)

    def _begin_leader(self, number: int) -> subprocess.Popen[bytes]:
        ready = self.folder / f"ready-{number}"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "support.service_process", str(self.place), self.addresses[number]]
        return subprocess.Popen(  # noqa: S603 - a module of the tests
            [*command, str(self.folder / "config.yaml"), str(ready)], env=environment(), stdin=subprocess.PIPE
        )

    def _begin_client(self, number: int) -> subprocess.Popen[bytes]:
        self._incarnations[number] += 1
        name = f"client-{number}-{self._incarnations[number]}"
        command = [sys.executable, "-m", "support.service_client", ",".join(self.addresses), name]
        left = max(1.0, self._end - monotonic())
        return subprocess.Popen(  # noqa: S603 - as above
            [*command, str(left), str(self.folder / f"{name}.jsonl")], env=environment()
        )

    def require_ready(self, seconds: float = 60.0) -> None:
        """Wait until every process leads or stands by."""
        numbers = range(len(self.leaders))
        eventually(lambda: all((self.folder / f"ready-{number}").exists() for number in numbers), seconds)

    # Faults

    def disturb(self, pause: float) -> None:
        """Let leaders, clients, limits and the database suffer faults until the time is over."""
        draw = random.Random(7)
        faults = [
            *(self.kill_leader, self.stop_leader, self.kill_a_client, self.stop_a_client),
            *(self.configure, self.set_quota),
        ]
        if self._server is not None:
            faults += [self.end_connections, self.restart_database]
        while monotonic() < self._end:
            # Every fault occurs, also in a short time.
            for fault in draw.sample(faults, len(faults)):
                if monotonic() < self._end:
                    fault(draw)
                    self.faults[fault.__name__] += 1
                    sleep(pause)

    def kill_leader(self, draw: random.Random) -> None:
        """Kill a process that leads or stands by, and begin another one."""
        self.restart(self._leader_or_any(draw))

    def restart(self, number: int) -> None:
        """Kill a process and begin another one with the same address."""
        self.leaders[number].kill()
        self._release(self.leaders[number])
        self.leaders[number] = self._begin_leader(number)

    @staticmethod
    def _release(process: subprocess.Popen[bytes]) -> None:
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def _leader_or_any(self, draw: random.Random) -> int:
        leading = self.leading()
        return leading if leading is not None and draw.random() < 0.7 else draw.randrange(len(self.leaders))

    def leading(self) -> int | None:
        """Return which process leads, as the log says; None if none does."""
        with suppress(StoreError):
            with StoreReader(self.place) as reader:
                found = reader.find_leader()
            if found is not None and found.address in self.addresses:
                return self.addresses.index(found.address)
        return None

    def stop_leader(self, draw: random.Random) -> None:
        """Stop a process for a while; another one replaces it."""
        number = self._leader_or_any(draw)
        self.leaders[number].send_signal(signal.SIGSTOP)
        sleep(draw.choice((0.1, 0.5, 1.5)))
        with suppress(ProcessLookupError):
            self.leaders[number].send_signal(signal.SIGCONT)
        if self._has_ended(self.leaders[number], 0.2):
            self.restart(number)

    @staticmethod
    def _has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None

    def kill_a_client(self, draw: random.Random) -> None:
        """Kill a client, begin another one, and release what the first one had."""
        number = draw.randrange(len(self.clients))
        name = f"client-{number}-{self._incarnations[number]}"
        self.clients[number].kill()
        self.clients[number].wait()
        self.clients[number] = self._begin_client(number)
        with suppress(ServiceError, StoreError), self.connect() as partition:
            for report in partition.sessions.sessions():
                if report.client == name:
                    self.released.add(name)
                    partition.sessions.release_of(report.session)

    def stop_a_client(self, draw: random.Random) -> None:
        """Stop a client for a while, for less or more than a deadline."""
        client = draw.choice(self.clients)
        client.send_signal(signal.SIGSTOP)
        sleep(draw.choice((1.5, DEADLINE + 0.5)))
        client.send_signal(signal.SIGCONT)

    def configure(self, draw: random.Random) -> None:
        """Change the limits of users, group and queues; usage may exceed them then, but cannot grow."""
        with suppress(ServiceError, StoreError), self.connect(DEADLINE) as partition:
            partition.configure(parsed(draw.randint(*_MEMORIES)))

    def set_quota(self, draw: random.Random) -> None:
        """Change the quota of a queue that the configuration does not name."""
        with suppress(ServiceError, StoreError), self.connect(DEADLINE) as partition:
            partition.set_queue_quota(DYNAMIC, Resource(memory=draw.randint(*_MEMORIES)))

    def end_connections(self, draw: random.Random) -> None:
        """Let the database end some or all connections of leaders and standbys."""
        assert self._server is not None
        self._server.end_connections(draw.choice((0.4, 1.0)))

    def restart_database(self, draw: random.Random) -> None:
        """Let the database crash, and start it again a moment later."""
        assert self._server is not None
        self._server.stop("immediate")
        sleep(draw.choice((0.0, 0.5)))
        self._server.start()

    # The end

    def finish(self) -> None:
        """Wait for the clients, and look at the state."""
        limit = self._end + 60
        codes = [client.wait(limit - monotonic()) for client in self.clients]
        assert codes == [0] * len(codes)
        with self.connect() as partition:
            partition.verify()
            partition.configure(parsed(_MEMORIES[1]))
            partition.set_queue_quota(DYNAMIC, Resource(memory=_MEMORIES[1]))
            assert partition.exceeded_limits() == ()

    def stop(self) -> None:
        """Leave no process running."""
        for process in (*self.leaders, *self.clients):
            process.kill()
            self._release(process)

    def reports(self) -> dict[str, list[dict[str, Any]]]:
        """Return the lines of each client process; the last one is left out if it is not complete."""
        found = {}
        for path in sorted(self.folder.glob("client-*.jsonl")):
            lines = path.read_bytes().split(b"\n")[:-1]
            found[path.stem] = [json.loads(line) for line in lines]
        return found
