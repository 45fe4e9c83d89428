"""Scheduler processes that elect a leader among themselves, the faults that they suffer, and their reports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

from support.chaos_limits import APPLICATIONS, DYNAMIC, configuration, parsed, submit
from support.places import environment
from ugm import Resource
from ugm.service import ConnectedPartition, connect
from ugm.store import LeaderRecord, StoreError, StoreReader

__all__ = ["Schedulers"]

#: The maximum time for which the processes work, and in which they end, in seconds.
_LONGEST: Final = 120
_END_TIMEOUT: Final = 60


class Schedulers:
    """Processes that use one partition and can all lead it.

    Args:
        folder: a folder for the configuration and the reports.
        location: the log.
        listen: the address of each process; empty for the default.
        count: the number of processes.
    """

    def __init__(self, folder: Path, location: str, listen: str, *, count: int) -> None:
        self._folder, self._location, self._listen = folder, location, listen
        self._begun = 0
        #: All processes, by their ids; those that were killed are in `ended` as well.
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.ended: list[int] = []
        (folder / "config.yaml").write_text(configuration(60))
        for _ in range(count):
            self.begin()
        with self.connect() as partition:
            partition.configure(parsed(60))
            assert all(submit(partition, *application) for application in APPLICATIONS)
            partition.set_queue_quota(DYNAMIC, Resource(memory=60))

    def begin(self) -> None:
        """Start another process."""
        self._begun += 1
        name = f"client-{self._begun}"
        command = [sys.executable, "-m", "support.service_client", self._listen, name]
        process = subprocess.Popen(  # noqa: S603 - a module of the tests
            [*command, str(_LONGEST), str(self._folder / f"{name}.jsonl"), self._location], env=environment()
        )
        self.processes[process.pid] = process

    def leading(self) -> int:
        """Return the id of the process that leads; 0 if none does."""
        found = self._found()
        process = 0 if found is None else int(found.holder.rpartition(":")[2])
        return 0 if process in self.ended else process

    def _found(self) -> LeaderRecord | None:
        with suppress(StoreError), StoreReader(self._location) as reader:
            return reader.find_leader()
        return None

    def _wait_until_led(self, stopped: int = 0) -> int:
        """Wait until a process leads that is not stopped, and return its id."""
        end = monotonic() + 60
        while (leader := self.leading()) in (0, stopped):
            assert monotonic() < end, "no process leads"
            # Every look opens a connection to PostgreSQL, which keeps a busy machine from following the log.
            sleep(0.2)
        return leader

    def connect(self) -> ConnectedPartition:
        """Return a client of this process."""
        self._wait_until_led()
        found = self._found()
        assert found is not None
        return connect(found.address, client="observer", deadline=20)

    # Faults

    def kill_leader(self) -> None:
        """Kill the process that leads, wait until another one does, and start another one."""
        leader = self._wait_until_led()
        self.processes[leader].kill()
        self._note_end(leader)
        self.begin()
        self._wait_until_led()

    def stop_leader(self) -> None:
        """Stop the process that leads until another one does, and let it continue unless it was killed."""
        leader = self._wait_until_led()
        self.processes[leader].send_signal(signal.SIGSTOP)
        self._wait_until_led(stopped=leader)
        sleep(0.2)
        if self.processes[leader].poll() is None:
            self.processes[leader].send_signal(signal.SIGCONT)
        else:
            self._note_end(leader)

    def _note_end(self, process: int) -> None:
        self.processes[process].wait()
        self.ended.append(process)

    # The end

    def finish(self) -> None:
        """Let the processes that were not killed end by themselves."""
        (self._folder / "stop").touch()
        codes = {
            process: running.wait(_END_TIMEOUT)
            for process, running in self.processes.items()
            if process not in self.ended
        }
        assert not any(codes.values()), codes

    def kill_all(self) -> None:
        """Leave no process running."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def reports(self) -> dict[int, list[dict[str, Any]]]:
        """Return the lines of each process by its id; the last one is left out if it is not complete."""
        found = {}
        for path in sorted(self._folder.glob("client-*.jsonl")):
            lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
            if lines:
                found[lines[0]["process"]] = lines
        return found
