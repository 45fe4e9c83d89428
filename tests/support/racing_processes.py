"""Processes that race for the last units of a shared partition, and one that makes their lives hard."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final

import psycopg

from support.places import environment
from support.postgres import Server
from ugm import Resource, UserGroup, Violation, parse_config
from ugm.shared import SharedPartition

__all__ = ["APPLICATIONS", "Race", "config"]

RACERS: Final = 8
USERS: Final = ("ana", "bob", "sue")
APPLICATIONS: Final = tuple(f"{user}-{queue}" for user in USERS for queue in ("a", "b"))


def config(most: int) -> Any:  # noqa: ANN401 - a configuration
    """Return a partition with limits on users, groups and queues that are all within reach."""
    return parse_config(f"""
partitions:
  - name: default
    queues:
      - name: root
        limits:
          - {{limit: each, users: ["*"], maxresources: {{memory: {most}}}}}
          - {{limit: team, groups: [dev], maxresources: {{memory: {most + most // 2}, vcore: 40}}}}
        queues:
          - {{name: a, resources: {{max: {{memory: {most + 10}, gpu: 9}}}}}}
          - {{name: b, maxapplications: 2, resources: {{max: {{memory: {most}}}}}}}
""").partition()


def race(conninfo: str, schema: str, number: int, seconds: float) -> None:
    """Take and give back at random until the time is over; what the program is asked to do alone."""
    draw = random.Random(f"{number} {monotonic()}")
    partition = SharedPartition(conninfo, schema=schema, name=f"racer-{number}", patience=60)
    mine: list[str] = []
    end = monotonic() + seconds
    while monotonic() < end:
        if mine and draw.random() < 0.35:
            assert partition.release(mine.pop(draw.randrange(len(mine))))
            continue
        name = f"{partition.token}-{draw.getrandbits(48)}"
        # Half of it takes the short way.
        usage = Resource(
            {"memory": draw.randint(0, 9), "vcore": draw.choice((0, 1000)), **draw.choice(({}, {"gpu": 1}))}
        )
        if partition.allocate(name, draw.choice(APPLICATIONS), usage):
            mine.append(name)
        elif draw.random() < 0.2 and mine:
            name = mine[-1]
            partition.resize(name, Resource(memory=draw.randint(0, 9)))
    for name in mine:
        assert partition.release(name)
    partition.disconnect()


class Race:
    """The race, seen by who watches and disturbs it."""

    def __init__(self, server: Server, seconds: float) -> None:
        self.server = server
        self.schema = server.fresh_schema()
        self.seconds = seconds
        self.watcher = SharedPartition(server.conninfo, schema=self.schema, name="watcher", patience=60)
        self.most = 60
        self.watcher.configure(config(self.most))
        for name in APPLICATIONS:
            user, _, queue = name.partition("-")
            groups = ("dev",) if user != "sue" else ()
            self.watcher.submit(name, UserGroup(user, groups), f"root.{queue}")
        self.racers = {number: self._started(number) for number in range(RACERS)}
        self.killed = 0

    def _started(self, number: int) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "support.racing_processes",
            self.server.conninfo,
            self.schema,
            str(number),
            str(self.seconds),
        ]
        return subprocess.Popen(command, env=environment())  # noqa: S603 - this file

    def disturb(self, *, restarts: bool = False) -> None:
        """Kill and restart racers, cut connections, change the configuration, and look, until the time is over."""
        draw, end = random.Random(7), monotonic() + self.seconds
        half = monotonic() + self.seconds / 2
        while monotonic() < end:
            draw.choice((self._kill, self._cut, self._cut, self._configure))(draw)
            if restarts and monotonic() > half:
                restarts = False
                self.server.stop("immediate")
                self.server.start()
            self.look()
            sleep(0.2)

    def _kill(self, draw: random.Random) -> None:
        number = draw.randrange(RACERS)
        self.racers[number].send_signal(signal.SIGKILL)
        self.racers[number].wait()
        self.racers[number] = self._started(number)
        self.killed += 1

    def _cut(self, draw: random.Random) -> None:
        statement = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random() LIMIT %s"""
        with psycopg.connect(self.server.conninfo, autocommit=True) as connection:
            connection.execute(statement, [draw.randint(1, 3)])

    def _configure(self, draw: random.Random) -> None:
        # Never less than before, so that nothing may ever be over.
        self.most += draw.randint(0, 1)
        self.watcher.configure(config(self.most))

    def look(self) -> tuple[Violation, ...]:
        """Return what is over a limit, after comparing all counters with the ledger; both at one moment."""
        self.watcher.verify()
        over = self.watcher.over_limit()
        assert not over
        return over

    def finish(self) -> int:
        """Wait for all racers, release what the killed have left, and return how many allocations that were."""
        codes = [racer.wait(self.seconds * 4 + 60) for racer in self.racers.values()]
        assert codes == [0] * RACERS
        left = [name for one in self.watcher.processes() for name in self.watcher.release_of(one.token)]
        self.watcher.verify()
        return len(left)

    def stop(self) -> None:
        """Leave nobody running."""
        for racer in self.racers.values():
            with suppress(ProcessLookupError):
                racer.kill()
            racer.wait()
        self.watcher.disconnect()


if __name__ == "__main__":
    race(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
