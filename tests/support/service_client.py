"""A client process with a random workload: ``python -m support.service_client ADDRESSES CLIENT SECONDS OUTPUT``.

Several threads share one connection. Each call is written to the output as a line of JSON when it ends: the names of
the allocations and the answer. A line is written before the next call begins, so every answer that the process has
reported survives its death.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any, Final, TypeAlias

from support.chaos_limits import APPLICATIONS, USERS, user_group
from ugm import AllocationRequest, Resource, UgmError
from ugm.service import ConnectedPartition, UnavailableError, connect
from ugm.store import StoreError

_Names: TypeAlias = Sequence[str]
_Usages: TypeAlias = Sequence[list[int]]

#: The deadline of every call, in seconds.
DEADLINE: Final = 3.0
THREADS: Final = 3
#: The time after which a process hangs that has not ended, in seconds.
_HANGS: Final = 5 * DEADLINE + 10


def _application(draw: random.Random) -> str:
    """Return the id of an application."""
    return draw.choice(APPLICATIONS)[0]


class _Report:
    """The lines of a process, in the order in which the calls ended."""

    def __init__(self, path: Path) -> None:
        # One write call for each line, which is complete or missing if the process is killed.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._lock = Lock()

    def add(self, **values: object) -> None:
        """Write a line."""
        data = json.dumps(values).encode() + b"\n"
        with self._lock:
            os.write(self._file, data)


class _Worker:
    """A thread of the process; its allocations have names of their own, which it uses again."""

    def __init__(self, partition: ConnectedPartition, report: _Report, name: str, end: float) -> None:
        self._partition = partition
        self._report = report
        self._name = name
        self._end = end
        self._draw = random.Random(f"{name} {os.getpid()}")
        self._names = [f"{name}-{number}" for number in range(12)]

    def run(self) -> None:
        """Make calls until the time is over."""
        actions = (self._allocate, self._allocate, self._allocate, self._release, self._release, self._resize)
        while monotonic() < self._end:
            self._draw.choice((*actions, self._allocate_all, self._ask, self._submit))()

    def _call(self, operation: str, *arguments: Any, names: _Names = (), usages: _Usages = ()) -> Any:  # noqa: ANN401 - as the operation
        """Make a call, and report whether it succeeded: null if that is unknown."""
        result: Any = None
        error = ""
        try:
            result = getattr(self._partition, operation)(*arguments)
            answer: bool | None = bool(result)
        except (UnavailableError, StoreError) as doubt:
            answer, error = None, str(doubt)
        except UgmError as refused:
            answer, error = False, str(refused)[:200]
        if names or answer is None:
            self._report.add(call=operation, names=names, usages=usages, answer=answer, error=error)
        return result

    def _usage(self) -> Resource:
        return Resource(memory=self._draw.randint(1, 9), vcore=self._draw.choice((0, 1000)))

    def _allocate(self) -> None:
        name, usage = self._draw.choice(self._names), self._usage()
        self._call("allocate", name, _application(self._draw), usage, names=[name], usages=[_shown(usage)])

    def _release(self) -> None:
        name = self._draw.choice(self._names)
        self._call("release", name, names=[name], usages=[])

    def _resize(self) -> None:
        name, usage = self._draw.choice(self._names), self._usage()
        self._call("resize", name, usage, names=[name], usages=[_shown(usage)])

    def _allocate_all(self) -> None:
        names, application = self._draw.sample(self._names, 3), _application(self._draw)
        requests = [AllocationRequest(name, application, self._usage()) for name in names]
        self._call("allocate_all", requests, names=names, usages=[_shown(one.usage) for one in requests])

    def _ask(self) -> None:
        """Check that an answer belongs to its call: its content depends on the arguments."""
        name = self._draw.choice(self._names)
        allocation = self._call("allocation", name)
        if allocation is not None and allocation.allocation_id != name:
            self._report.add(wrong=[name, allocation.allocation_id])
        amount = 10**6 + self._draw.randrange(10**6)
        decision = self._call("check", _application(self._draw), Resource(memory=amount))
        if decision is not None and any(one.requested != amount for one in decision.violations):
            self._report.add(wrong=[amount, str(decision.violations)])

    def _submit(self) -> None:
        """Submit an application, and remove it."""
        name, user = f"{self._name}-app-{self._draw.randrange(5)}", self._draw.choice(USERS)
        self._call("submit", name, user_group(user), "root.a")
        self._call("remove", name)


def _shown(usage: Resource) -> list[int]:
    return [usage["memory"], usage["vcore"]]


def _run(addresses: str, client: str, seconds: float, output: Path) -> None:
    report, end = _Report(output), monotonic() + seconds
    while monotonic() < end:
        try:
            partition = connect(addresses, client=client, deadline=DEADLINE)
        except UnavailableError:
            sleep(0.05)
            continue
        break
    else:
        return
    with partition:
        workers = [_Worker(partition, report, f"{client}-{number}", end) for number in range(THREADS)]
        threads = [Thread(target=worker.run, daemon=True) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    # A process that hangs shows where.
    faulthandler.dump_traceback_later(float(sys.argv[3]) + _HANGS, exit=True)
    _run(sys.argv[1], sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))
