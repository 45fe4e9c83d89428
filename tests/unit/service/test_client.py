"""Clients of a service: many threads and tasks on one connection, deadlines, lost connections, and large calls."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import NoReturn

import pytest

from support.partition_fixtures import SUE, memory
from support.service_fixtures import CONFIG, eventually, running, started
from ugm import AllocationRequest, Decision, RequestError
from ugm.service import (
    ConnectedPartition,
    DeadlineError,
    ProtocolError,
    Service,
    ServiceSettings,
    UnavailableError,
    connect,
    connect_async,
)
from ugm.service.async_connection import AsyncClientConnection
from ugm.service.server_connection import ClientLimits
from ugm.service.wire import Welcome

#: More than the largest amount in queue ``root.a``.
TOO_MUCH = 1001

#: For how many seconds a busy machine may keep a thread from running after its deadline.
SCHEDULING = 5


@contextmanager
def silent_address(folder: Path) -> Iterator[str]:
    """Listen on a socket and never answer, as a stopped process does."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "silent"))
        listening.listen()
        yield f"unix:{folder / 'silent'}"


# Sessions


def test_cancelled_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled while it connects leaves no session behind."""
    opened = []

    def cancel(_connection: AsyncClientConnection, welcome: Welcome) -> NoReturn:
        opened.append(welcome.session)
        raise asyncio.CancelledError

    with running(tmp_path) as service, started(service) as partition:
        with monkeypatch.context() as patch:
            patch.setattr(AsyncClientConnection, "_require_current", cancel)
            with pytest.raises(asyncio.CancelledError):
                asyncio.run(connect_async(str(service.addresses[0])))
        assert opened
        eventually(lambda: len(partition.sessions.sessions()) == 1)


# Answers belong to their calls


FORK = """
import os, sys, warnings
from pathlib import Path
from support.partition_fixtures import memory
from support.service_fixtures import running, started
from ugm.service import ServiceError, UnavailableError
warnings.simplefilter("ignore")
with running(Path(sys.argv[1]), journal=sys.argv[2] or None) as service, started(service) as partition:
    own = service.partition
    child = os.fork()
    if not child:
        try:
            own.allocate("of the child", "app", memory(1))
        except ServiceError as error:
            print(error.reason.startswith(f"it runs only in process {os.getppid()}, from which "), flush=True)
        for change in (partition.allocate, lambda *arguments: partition.promise(partition.allocate, *arguments)):
            try:
                change("of the child", "app", memory(1))
            except UnavailableError as error:
                print(error.reason.startswith(f"the connection belongs to process {os.getppid()};"), flush=True)
        partition.connection.close()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(partition.allocate("of the parent", "app", memory(1001)).allowed)
    print([one.allocation_id for one in partition.allocations()])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("journal", ["", "j"])
def test_a_forked_process(quick_folder: Path, journal: str) -> None:
    """A forked process can use neither the connection nor the service of its parent, which answers its own calls."""
    command = [sys.executable, "-c", FORK, str(quick_folder), journal]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=paths, text=True, capture_output=True, timeout=60, check=True)  # noqa: S603 - of this test
    assert done.stdout.split() == ["True", "True", "True", "7", "False", "[]"]


def ask(partition: ConnectedPartition, seed: int) -> None:
    """Make calls with answers that depend on the arguments."""
    draw = random.Random(seed)
    for number in range(20):
        amount = draw.choice((0, 1, TOO_MUCH)) + seed
        decision = partition.check("app", memory(amount))
        assert decision.allowed == (amount < TOO_MUCH)
        if not decision:
            assert [one.requested for one in decision.violations] == [amount]
        name = f"{seed}-{number}"
        assert partition.allocate(name, "app", memory(0))
        allocation = partition.allocation(name)
        assert allocation is not None
        assert allocation.allocation_id == name
        assert partition.release(name)


@pytest.mark.parametrize("journal", [None, "j"])
def test_many_threads(tmp_path: Path, journal: str | None) -> None:
    """Each thread gets the answers to its own calls."""
    with running(tmp_path, journal=journal) as service, started(service) as partition:
        with ThreadPoolExecutor(50) as pool:
            list(pool.map(lambda seed: ask(partition, seed), range(50)))
        assert partition.allocation_ids() == ()


def test_many_tasks(tmp_path: Path) -> None:
    """Each task of an asyncio loop gets the answers to its own calls."""

    async def work() -> None:
        async with await connect_async(address) as partition:

            async def one(number: int) -> None:
                for turn in range(10):
                    name = f"{number}-{turn}"
                    amount = (0, TOO_MUCH)[(number + turn) % 2] + number
                    assert (await partition.check("app", memory(amount))).allowed == (amount < TOO_MUCH)
                    assert (await partition.allocate(name, "app", memory(0))).allowed
                    allocation = await partition.allocation(name)
                    assert allocation is not None
                    assert allocation.allocation_id == name

            await asyncio.gather(*map(one, range(200)))
            assert len(await partition.allocation_ids()) == 2000

    with running(tmp_path) as service, started(service):
        address = str(service.addresses[0])
        asyncio.run(work())


def test_promises(tmp_path: Path) -> None:
    """Promised calls are executed in order, also more than the leader keeps answers for."""
    settings = ServiceSettings(limits=ClientLimits(outstanding=12_000))
    with running(tmp_path, settings=settings) as service, started(service, deadline=60) as partition:
        futures = [partition.promise(partition.check, "app", memory(number)) for number in range(15_000)]
        assert all(future.result().allowed == (number < TOO_MUCH) for number, future in enumerate(futures))


def test_callbacks_of_promises_may_call(tmp_path: Path) -> None:
    """A callback of a future can make a blocking call."""
    with running(tmp_path) as service, started(service, deadline=30) as partition:
        done: Future[bool] = Future()

        def release(_: Future[Decision]) -> None:
            done.set_result(partition.release("a"))

        partition.promise(partition.allocate, "a", "app", memory(1)).add_done_callback(release)
        assert done.result(30)


@pytest.mark.ci
def test_promise_fails_at_its_deadline(tmp_path: Path) -> None:
    """The future of a promised call gets an error at the deadline, also while a thread waits for another call."""
    with running(tmp_path, journal="j") as service, started(service, deadline=2) as partition:
        service.stop()
        future = partition.promise(partition.release, "a")
        thread = Thread(target=lambda: partition_answers(partition))
        sleep(1.5)
        thread.start()
        began = monotonic()
        with pytest.raises(DeadlineError):
            future.result(30)
        # The call of the thread fails 1.5 s after the promised one.
        assert monotonic() - began < 0.5 + 1
        thread.join()


# Deadlines


def test_calls_end_at_their_deadline(tmp_path: Path) -> None:
    """Many threads give up in time if the leader does not answer."""
    with silent_address(tmp_path) as silent, running(tmp_path) as service:
        partition = connect(f"{service.addresses[0]},{silent}", deadline=0.7)
        service.stop()

        def call(number: int) -> float:
            began = monotonic()
            with pytest.raises(DeadlineError):
                partition.release(str(number))
            return monotonic() - began

        with ThreadPoolExecutor(20) as pool:
            took = list(pool.map(call, range(20)))
        assert min(took) > 0.69
        assert max(took) < 0.7 + SCHEDULING
        partition.connection.close()


def test_connecting_ends_at_the_deadline(tmp_path: Path) -> None:
    """A client does not wait for an address that accepts and never answers, or that nobody listens on."""
    with silent_address(tmp_path) as silent:
        for address in (silent, f"unix:{tmp_path / 'nobody'}", f"{silent},unix:{tmp_path / 'nobody'}"):
            began = monotonic()
            with pytest.raises(DeadlineError):
                connect(address, deadline=0.3)
            assert monotonic() - began < 0.3 + SCHEDULING


def test_looking_up_a_host_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that does not answer does not keep a client beyond its deadline."""
    answers = Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: answers.wait(20))
    began = monotonic()
    with pytest.raises(DeadlineError):
        connect("tls://a.example.org:1", deadline=0.3)
    answers.set()
    assert monotonic() - began < 20


@pytest.mark.parametrize("error", [OSError("unknown host"), UnicodeError("label too long")])
def test_looking_up_a_host_fails(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Every error of a look-up is stated as the reason, also one that is not an error of the operating system."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("socket.getaddrinfo", fail)
    with pytest.raises(DeadlineError, match=str(error)):
        connect("tls://a.example.org:1", deadline=0.1)


def test_looking_up_a_host_needs_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system starts no thread for a look-up, this is the reason that the address cannot be reached."""

    def fail(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", fail)
    with pytest.raises(DeadlineError, match="can't start new thread"):
        connect("tls://a.example.org:1", deadline=0.1)


def test_operation_that_was_given_up_is_not_sent_later(tmp_path: Path) -> None:
    """If a call was given up before it was sent, it never takes effect."""
    with running(tmp_path, "one", journal="j") as first:
        partition = connect(f"unix:{tmp_path / 'one'},unix:{tmp_path / 'two'}", deadline=0.3)
        assert partition.submit("app", SUE, "root.a")
        first.stop()
        with pytest.raises(DeadlineError):
            partition.allocate("a", "app", memory(1))
    with running(tmp_path, "two", journal="j"):
        eventually(lambda: partition_answers(partition))
        assert partition.allocation_ids() == ()
        partition.connection.close()


def partition_answers(partition: ConnectedPartition) -> bool:
    """Return whether a query succeeds."""
    try:
        partition.allocation_ids()
    except UnavailableError:
        return False
    return True


def test_large_transfer_does_not_delay_others(tmp_path: Path) -> None:
    """A thread gives up in time although another one sends more than the leader takes."""
    with silent_address(tmp_path) as silent, running(tmp_path) as service:
        partition = connect(f"{service.addresses[0]}", deadline=0.5)
        partition.connection._choice.suggest(silent)
        requests = [AllocationRequest(f"{number}" * 50, "app", memory(1)) for number in range(20_000)]
        # The socket does not answer, but takes the first bytes.
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(silent.removeprefix("unix:"))
            client.settimeout(0)
            partition.connection._socket._socket.close()  # type: ignore[union-attr]  # it is connected
            partition.connection._socket._socket = client  # type: ignore[union-attr, misc]  # as above
            futures = [partition.promise(partition.allocate_all, requests) for _ in range(3)]
            began = monotonic()
            for future in futures:
                future.exception(30)
            assert monotonic() - began < 0.5 + SCHEDULING
        partition.connection.close()


# Large and invalid calls


def test_arguments_that_are_too_large(tmp_path: Path) -> None:
    """A call that the leader would refuse is refused by the client, and the connection goes on."""
    with running(tmp_path) as service, started(service) as partition:
        requests = [AllocationRequest(f"{number}" * 50, "app", memory(0)) for number in range(40_000)]
        with pytest.raises(RequestError, match="larger than"):
            partition.allocate_all(requests)
        assert partition.allocate("a", "app", memory(1))


def test_many_large_calls_share_no_message_that_is_too_large(tmp_path: Path) -> None:
    """Calls are split into messages by their size as well."""
    with running(tmp_path) as service, started(service, deadline=30) as partition:
        requests = [AllocationRequest("x" * 250 + str(number), "missing", memory(1)) for number in range(1000)]
        futures = [partition.promise(partition.allocate_all, requests) for _ in range(60)]
        assert not any(isinstance(future.exception(), UnavailableError) for future in futures)


def test_refused_client_gets_the_reason(tmp_path: Path) -> None:
    """A client without the token does not wait until its deadline."""
    with running(tmp_path, token="secret") as service:  # noqa: S106 - of this test
        began = monotonic()
        with pytest.raises(ProtocolError, match="token"):
            connect(str(service.addresses[0]), token="guess")  # noqa: S106 - as above
        assert monotonic() - began < 30


def test_closed_connection(tmp_path: Path) -> None:
    """Calls after the end raise an error at once; calls that wait are given up."""
    with running(tmp_path) as service:
        partition = started(service)
        future = partition.promise(partition.allocation_ids)
        partition.connection.close()
        with pytest.raises(UnavailableError):
            partition.release("a")
        assert future.done()
        partition.connection.close()


# Several leaders


def test_clients_follow_the_leader(tmp_path: Path) -> None:
    """Clients go on when another process leads, and nothing is lost or done twice."""
    names, stop = count(), Event()
    granted: list[str] = []

    def begin(name: str) -> Service:
        service = Service(tmp_path / "j", f"unix:{tmp_path / name}", config=CONFIG)
        service.start()
        return service

    def work() -> None:
        with connect(addresses) as partition:
            while not stop.is_set():
                name = f"a{next(names)}"
                assert partition.allocate(name, "app", memory(0))
                granted.append(name)

    addresses = f"unix:{tmp_path / 'one'},unix:{tmp_path / 'two'}"
    services = {name: begin(name) for name in ("one", "two")}
    with connect(addresses) as partition, ThreadPoolExecutor(4) as pool:
        partition.submit("app", SUE, "root.a")
        workers = [pool.submit(work) for _ in range(4)]
        for name in ("one", "two", "one"):
            goal = len(granted) + 50
            eventually(partial(lambda goal: len(granted) > goal, goal))
            services[name].stop()
            eventually(lambda: any(service.term for service in services.values()))
            services[name] = begin(name)
        stop.set()
        for worker in workers:
            worker.result()
        assert sorted(partition.allocation_ids()) == sorted(granted)
    for service in services.values():
        service.stop()
