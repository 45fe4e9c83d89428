"""Processes of hosts and of quota services, for the tests of adapters. They listen on the loopback address only."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from ugm import UgmError, connect
from ugm.service import ConnectedPartition

#: The environment variable by which processes are found that outlive their parent, such as the servers of a host.
MARK: Final = "UGM_TEST_HOST"
_T = TypeVar("_T")
#: The token of quota services.
_TOKEN: Final = "a token of about 30 characters"  # noqa: S105 - for a service of the test


def free_ports(number: int) -> list[int]:
    """Return ports that nothing listens on. Another process may take them before they are used."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    found = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return found


def wait_until(
    predicate: Callable[[], _T], what: str, *, seconds: float = 60, every: float = 0.1, details: Callable[[], str] = str
) -> _T:
    """Return the first true value of a predicate.

    Args:
        predicate: is called until it returns a true value. An `OSError` or `UgmError` counts as false.
        what: the condition, for the message of the error.
        seconds: the maximum time to wait.
        every: the time between two calls, in seconds.
        details: returns more text for the message, for example the output of a process.

    Raises:
        AssertionError: the value was not true in time.
    """
    end = time.monotonic() + seconds
    while True:
        with suppress(OSError, UgmError):
            if value := predicate():
                return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}\n{details()}")
        time.sleep(every)


def retry(check: Callable[[], None], *, seconds: float = 60) -> None:
    """Repeat a check until it raises no `AssertionError`; after some seconds, let it raise."""
    end = time.monotonic() + seconds
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > end:
                raise
        time.sleep(0.5)


class HostProcess:
    """A process with its output in a file.

    Attributes:
        process: the process.
        log: the file of its output.
    """

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str], folder: Path) -> None:
        self.log: Final = log
        with log.open("a") as output:
            self.process: Final = subprocess.Popen(  # noqa: S603 - commands of the tests
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=folder,
            )

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def output(self) -> str:
        """Return what this process and earlier ones with the same file have printed."""
        return self.log.read_text("utf-8", errors="replace")

    def wait_until(self, predicate: Callable[[], _T], what: str, *, seconds: float = 60) -> _T:
        """Return the first true value of a predicate, like `wait_until`; fail at once if the process ends."""

        def value() -> _T:
            if not self.is_alive:
                raise AssertionError(f"the process has ended: {self.process.args!r}\n{self._tail()}")
            return predicate()

        return wait_until(value, what, seconds=seconds, details=self._tail)

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Let the process end in order, and return its exit status."""
        self.process.terminate()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def suspend(self) -> None:
        """Stop the process for some time, so that it answers nothing but keeps its sockets."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the process."""
        self.process.send_signal(signal.SIGCONT)

    def _tail(self) -> str:
        return self.output()[-6000:]


class Processes:
    """The processes of a test, with everything that they start.

    Attributes:
        mark: the value of `MARK` in the environment of these processes. A host that starts its workers with another
            environment has to pass it.
    """

    def __init__(self) -> None:
        self.mark: Final = uuid4().hex
        self._started: Final[list[HostProcess]] = []

    def start(
        self, command: Sequence[str | Path], log: Path, *, environment: Mapping[str, str] | None = None
    ) -> HostProcess:
        """Start a process in the folder of its log, with the modules of this process and more variables."""
        modules = os.pathsep.join(part for part in sys.path if part)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        given = {**os.environ, "PYTHONPATH": modules, "PATH": path, MARK: self.mark, **(environment or {})}
        started = HostProcess(command, log, given, log.parent)
        self._started.append(started)
        return started

    def close(self) -> None:
        """Kill all processes that still run, and those that they have started."""
        # Some programs overwrite their environment; they are found as long as their parents run.
        descendants = self._descendants()
        for one in self._started:
            one.kill()
        for process_id in descendants:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        while found := list(self._marked()):
            for process_id in found:
                with suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGKILL)
            time.sleep(0.05)
        for one in self._started:
            one.process.wait()

    def _descendants(self) -> set[int]:
        """Return the processes that those of this object, which still run, have started."""
        parents = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                parents[int(path.parent.name)] = int(path.read_text("utf-8").rpartition(")")[2].split()[1])
        found = {one.process.pid for one in self._started if one.is_alive}
        while more := {child for child, parent in parents.items() if parent in found} - found:
            found |= more
        return found

    def _marked(self) -> Iterator[int]:
        entry = f"{MARK}={self.mark}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if entry in path.read_bytes().split(b"\0"):
                    yield int(path.parent.name)


@contextmanager
def processes() -> Iterator[Processes]:
    """Kill at the end of the block what was started in it."""
    found = Processes()
    try:
        yield found
    finally:
        found.close()


class QuotaService:
    """A service with a store, as an operator starts it: ``ugm serve CONFIG --listen unix:... --store FILE``.

    Attributes:
        config: the file of the configuration.
        address: the address for clients.
        token_file: the file with the token of clients.
        store: the file of the store.
        process: the process that was started last.
    """

    def __init__(self, owner: Processes, folder: Path, config: str) -> None:
        self.config: Final = folder / "quota.yaml"
        self.config.write_text(config, "utf-8")
        self.token_file: Final = folder / "token"
        self.token_file.write_text(_TOKEN, "utf-8")
        self.address: Final = f"unix:{folder / 'quota.sock'}"
        self.store: Final = folder / "quota.db"
        self._owner: Final = owner
        self.process: HostProcess

    def start(self) -> None:
        """Start the service, also after it was killed, and wait until it answers."""
        self.process = self._owner.start(
            [
                *(sys.executable, "-m", "ugm", "serve", self.config, "--port", "0"),
                *("--listen", self.address, "--store", self.store, "--client-token-file", self.token_file),
            ],
            self.store.with_suffix(".log"),
        )
        self.process.wait_until(self._answers, "the quota service answers")

    def partition(self, *, deadline: float = 30) -> ConnectedPartition:
        """Return a client, which the caller closes."""
        return connect(self.address, token=_TOKEN, client="test", deadline=deadline)

    def _answers(self) -> bool:
        with self.partition(deadline=1):
            return True
