"""Processes that lead, stand by and use a service, and the faults that they suffer.

Clients reach the leaders through proxies. A leader names its address relative to its folder; in the folder of a client,
a proxy has the same address.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, NamedTuple

from support.chaos_limits import APPLICATIONS, DYNAMIC, configuration, parsed, submit
from support.chaos_proxy import Network, Proxies
from support.places import environment
from support.postgres import Server
from support.service_client import DEADLINE
from support.service_fixtures import eventually
from ugm import Resource
from ugm.service import ConnectedPartition, ServiceError, connect
from ugm.store import StoreError, StoreReader
from ugm.store.reader import StoreLocation

__all__ = ["LATE", "ClientFault", "Cluster"]

#: The limit of a call beyond its deadline, in seconds.
LATE: Final = 0.5
#: A call that takes this time during a fault of another client is blocked, in seconds.
_BLOCKED: Final = 1.0
#: The time of a fault, and how much of it at each end may be free, in seconds.
_FAULT: Final = 1.5
_SLACK: Final = 0.5
#: Other clients are active if one of them got this number of answers meanwhile.
_ACTIVE: Final = 10
#: The first number of the configuration, and the range of later ones.
_MEMORY: Final = 60
_MEMORIES: Final = (40, 75)


class ClientFault(NamedTuple):
    """A time in which only one client suffers a fault."""

    client: int
    began: float
    ended: float


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
        self._home = folder / "l"
        self._home.mkdir()
        self.addresses = [f"unix:{number}" for number in range(leaders)]
        self.leaders = [self._begin_leader(number) for number in range(leaders)]
        self._incarnations = defaultdict[int, int](int)
        with self.connect() as partition:
            assert all(submit(partition, *application) for application in APPLICATIONS)
            partition.set_queue_quota(DYNAMIC, Resource(memory=_MEMORY))
        self._proxies = Proxies()
        self.networks = [self._open_network(number) for number in range(clients)]
        self._end = monotonic() + seconds
        self.clients = [self._begin_client(number) for number in range(clients)]
        self.faults = defaultdict[str, int](int)
        self.client_faults: list[ClientFault] = []
        #: The names of the killed clients whose allocations were released.
        self.released = set[str]()

    def connect(self, deadline: float = 20.0) -> ConnectedPartition:
        """Return a client of this process."""
        addresses = ",".join(f"unix:{self._home / address.removeprefix('unix:')}" for address in self.addresses)
        return connect(addresses, client="observer", deadline=deadline)

    def _begin_leader(self, number: int) -> subprocess.Popen[bytes]:
        (self._home / f"ready-{number}").unlink(missing_ok=True)
        command = [sys.executable, "-m", "support.service_process", str(self.place), self.addresses[number]]
        return subprocess.Popen(  # noqa: S603 - a module of the tests
            [*command, str(self.folder / "config.yaml"), f"ready-{number}"],
            env=environment(),
            stdin=subprocess.PIPE,
            cwd=self._home,
        )

    def _open_network(self, number: int) -> Network:
        folder = self.folder / f"c{number}"
        folder.mkdir()
        return self._proxies.open({folder / str(one): self._home / str(one) for one in range(len(self.leaders))})

    def _begin_client(self, number: int) -> subprocess.Popen[bytes]:
        self._incarnations[number] += 1
        name = f"client-{number}-{self._incarnations[number]}"
        command = [sys.executable, "-m", "support.service_client", ",".join(self.addresses), name]
        left = max(1.0, self._end - monotonic())
        return subprocess.Popen(  # noqa: S603 - as above
            [*command, str(left), str(self.folder / f"{name}.jsonl")],
            env=environment(),
            cwd=self.folder / f"c{number}",
        )

    def require_ready(self, seconds: float = 60.0) -> None:
        """Wait until every process leads or stands by."""
        numbers = range(len(self.leaders))
        eventually(lambda: all((self._home / f"ready-{number}").exists() for number in numbers), seconds)

    # Faults

    def disturb(self, pause: float) -> None:
        """Let leaders, clients, networks, limits and the database suffer faults until the time is over."""
        draw = random.Random(7)
        faults = [
            *(self.kill_leader, self.stop_leader, self.kill_a_client, self.stop_a_client),
            *(self.delay_a_client, self.stall_a_client, self.cut_a_client, self.configure, self.set_quota),
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

    @contextmanager
    def _fault_of_client(self, number: int, seconds: float) -> Iterator[None]:
        """Note a time with a fault of one client, after the other clients have found the leader."""
        with suppress(ServiceError), self.connect(DEADLINE) as partition:
            partition.release("nothing")
        sleep(1)
        began = monotonic()
        yield
        sleep(seconds)
        self.client_faults.append(ClientFault(number, began, monotonic()))

    def stop_a_client(self, draw: random.Random) -> None:
        """Stop a client for a while."""
        number = draw.randrange(len(self.clients))
        with self._fault_of_client(number, _FAULT):
            self.clients[number].send_signal(signal.SIGSTOP)
        self.clients[number].send_signal(signal.SIGCONT)

    def delay_a_client(self, draw: random.Random) -> None:
        """Delay everything that a client sends and receives."""
        number = draw.randrange(len(self.clients))
        with self._fault_of_client(number, _FAULT):
            self.networks[number].delay(draw.choice((0.02, 0.2, 0.6)))
        self.networks[number].resume()

    def stall_a_client(self, draw: random.Random) -> None:
        """Let the connections of a client pass nothing on, for less or more than a deadline."""
        number = draw.randrange(len(self.clients))
        with self._fault_of_client(number, draw.choice((_FAULT, DEADLINE + 0.5))):
            self.networks[number].stall()
        self.networks[number].resume()

    def cut_a_client(self, draw: random.Random) -> None:
        """Cut the connections of a client for a while."""
        number = draw.randrange(len(self.clients))
        with self._fault_of_client(number, _FAULT):
            self.networks[number].cut()
        self.networks[number].resume()

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
        self._proxies.close()

    def reports(self) -> dict[str, list[dict[str, Any]]]:
        """Return the lines of each client process; the last one is left out if it is not complete."""
        found = {}
        for path in sorted(self.folder.glob("client-*.jsonl")):
            lines = path.read_bytes().split(b"\n")[:-1]
            found[path.stem] = [json.loads(line) for line in lines]
        return found

    def blocked(self) -> list[tuple[str, dict[str, Any], ClientFault]]:
        """Return the calls that took long while another client suffered a fault and the leader answered further ones.

        The time for which the process of a client did not get a processor does not count.
        """
        reports = {
            name: [line for line in lines if line.get("answer") is not None] for name, lines in self.reports().items()
        }
        return [
            (name, line, fault)
            for fault in self.client_faults
            if self._is_answering(reports, fault)
            for name, lines in reports.items()
            if _number_of(name) != fault.client
            for line in lines
            if line["took"] > _BLOCKED
            and line["ended"] - line["took"] < fault.began + _SLACK
            and line["ended"] > fault.ended - _SLACK
        ]

    @staticmethod
    def _is_answering(reports: dict[str, list[dict[str, Any]]], fault: ClientFault) -> bool:
        """Return whether a client got many answers during a fault of another one."""
        counts = Counter[str](
            name for name, lines in reports.items() for line in lines if fault.began < line["ended"] < fault.ended
        )
        return any(count >= _ACTIVE for count in counts.values())


def _number_of(client: str) -> int:
    return int(client.split("-")[1])
