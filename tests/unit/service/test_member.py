"""Processes that elect a leader among themselves; here they are services of one process."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from support.partition_fixtures import SUE, memory
from support.service_fixtures import CONFIG, eventually
from ugm import RequestError, join
from ugm.journal import JournalError, open_partition
from ugm.service import FencedError, JoinedPartition, Service, ServiceSettings, join_async
from ugm.service.connection import ClientConnection


def members(folder: Path) -> list[Path]:
    """Return the sockets next to the journal."""
    return sorted(folder.glob("j-member-*"))


@pytest.fixture(name="first")
def _first(quick_folder: Path) -> Iterator[JoinedPartition]:
    """The member that leads, with an application and an allocation."""
    with join(quick_folder / "j", config=CONFIG, client="first") as partition:
        partition.submit("app", SUE, "root.a")
        assert partition.allocate("one", "app", memory(1))
        yield partition


@pytest.fixture(name="second")
def _second(first: JoinedPartition, quick_folder: Path) -> Iterator[JoinedPartition]:
    """A member that stands by."""
    assert first.service.term
    with join(quick_folder / "j", client="second") as partition:
        yield partition


def test_leader_has_a_session(first: JoinedPartition) -> None:
    """The process that leads owns its allocations like any other."""
    [report] = first.sessions.sessions()

    assert (first.service.term, report.client, report.allocations) == (1, "first", 1)
    assert report.session == first.connection.session


def test_socket_is_private(first: JoinedPartition, quick_folder: Path) -> None:
    """The socket next to the journal can only be used by the owner of the process, and is removed at the end."""
    [path] = members(quick_folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first.leave()
    first.leave()
    assert members(quick_folder) == []


def test_members_share_the_partition(first: JoinedPartition, second: JoinedPartition) -> None:
    """Only one process leads, and all of them change the same partition."""
    assert second.service.term == 0
    assert second.config == CONFIG
    assert second.allocate("two", "app", memory(1))
    assert first.allocation_ids() == ("one", "two")
    assert [report.client for report in first.sessions.sessions()] == ["first", "second"]


def test_another_member_takes_over(first: JoinedPartition, second: JoinedPartition) -> None:
    """When the leader leaves, another member leads. Its session and its plans continue."""
    session = second.connection.session
    assert second.allocate("two", "app", memory(1))
    plan = second.plan(None)
    first.leave()
    assert second.release("two")
    assert second.connection.session == session
    assert second.service.term == 2
    second.apply(plan, confirm=True)
    assert second.config is None


def test_allocations_of_a_member_that_left(first: JoinedPartition, second: JoinedPartition) -> None:
    """Another member releases the allocations of one that has led before."""
    session = first.connection.session
    first.leave()
    [left, _] = second.sessions.sessions()
    assert (left.session, left.allocations, left.is_connected) == (session, 1, False)
    assert second.sessions.release_of(session) == ("one",)
    assert second.allocation_ids() == ()


def test_leader_can_be_fenced(first: JoinedPartition, second: JoinedPartition) -> None:
    """A fenced process changes nothing, also if it leads."""
    second.sessions.fence(first.connection.session)
    with pytest.raises(FencedError):
        first.release("one")
    assert second.release("one")


def test_sockets_of_killed_processes_are_removed(quick_folder: Path) -> None:
    """The next process that joins removes them, and keeps those of running processes."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for process in (ended.pid, os.getpid()):
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"{quick_folder}/j-member-{process}-0")
    (quick_folder / "j-member-notes").touch()
    with join(quick_folder / "j"):
        names = {path.name for path in members(quick_folder)}
    assert f"j-member-{ended.pid}-0" not in names
    assert {f"j-member-{os.getpid()}-0", "j-member-notes"} < names


def test_address_is_required(quick_folder: Path) -> None:
    """A log in PostgreSQL, and a journal with a long path, need an address."""
    pytest.importorskip("psycopg")
    with pytest.raises(RequestError, match="needs the address of this process"):
        join("postgresql://ugm@127.0.0.1/postgres")
    folder = quick_folder / ("x" * 100)
    folder.mkdir()
    with pytest.raises(RequestError, match="pass listen"):
        join(folder / "j")
    with join(folder / "j", f"unix:{quick_folder}/socket", settings=ServiceSettings(name="me")) as partition:
        assert partition.sessions.sessions()[0].client == "me"


def test_asyncio(first: JoinedPartition, quick_folder: Path) -> None:
    """A member for asyncio shares the partition, leads when the leader leaves, and ends its service when it leaves."""

    async def work() -> list[int]:
        async with await join_async(quick_folder / "j", client="second") as second:
            assert await second.allocation_ids() == ("one",)
            terms = [second.service.term]
            await asyncio.to_thread(first.leave)
            assert await second.release("one")
            terms.append(second.service.term)
            [report] = [one for one in await second.sessions.sessions() if one.client == "second"]
            assert report.session == second.connection.session
        return terms

    assert asyncio.run(work()) == [0, 2]
    assert members(quick_folder) == []


def test_interrupted_leave(first: JoinedPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is interrupted while it ends its session ends its service as well."""

    def interrupt(_connection: ClientConnection) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ClientConnection, "close", interrupt)
        with pytest.raises(KeyboardInterrupt):
            first.leave()
    assert first.service.term == 0
    assert not is_serving()


@pytest.mark.parametrize("has_thread", [True, False])
def test_cancelled_leave(quick_folder: Path, has_thread: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a parameter
    """A member for asyncio that is cancelled while it leaves ends its service, also if no thread waits for the end."""

    def cancel(_service: Service) -> NoReturn:
        raise asyncio.CancelledError

    async def work() -> None:
        member = await join_async(quick_folder / "j", config=CONFIG)
        if not has_thread:
            monkeypatch.setattr(Service, "stop", cancel)
        leaving = asyncio.create_task(member.leave())
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait((leaving,))
        assert leaving.cancelled()

    asyncio.run(work())
    eventually(lambda: not is_serving())
    open_partition(quick_folder / "j").journal.close()


def test_asyncio_without_a_log(quick_folder: Path) -> None:
    """A log that cannot be used is an error with asyncio as well, and nothing is left behind."""
    (quick_folder / "j").write_text("no journal")
    with pytest.raises(JournalError):
        asyncio.run(join_async(quick_folder / "j", deadline=0.1))
    eventually(lambda: members(quick_folder) == [])


def test_unusable_log(quick_folder: Path) -> None:
    """A log that cannot be used is an error after the deadline, and nothing is left behind."""
    (quick_folder / "j").write_text("no journal")
    with pytest.raises(JournalError):
        join(quick_folder / "j", deadline=0.1)
    eventually(lambda: members(quick_folder) == [])


def is_serving() -> bool:
    """Return whether the thread of a service is alive."""
    return any(thread.name == "ugm service" for thread in threading.enumerate())


def test_interrupted_join(quick_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is interrupted when its service has started leaves nothing behind."""
    start = Service.start

    def interrupt(service: Service, patience: float) -> None:
        start(service, patience)
        raise KeyboardInterrupt

    monkeypatch.setattr(Service, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        join(quick_folder / "j", config=CONFIG)
    assert not is_serving()
    open_partition(quick_folder / "j").journal.close()


def test_interrupted_start(quick_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service whose start is interrupted ends."""

    class Interrupted(threading.Event):
        def wait(self, _timeout: float | None = None) -> NoReturn:
            raise KeyboardInterrupt

    monkeypatch.setattr("ugm.service.service.Event", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        Service(None, f"unix:{quick_folder}/s", config=CONFIG).start()
    assert not is_serving()


def test_stop_before_the_loop_runs(quick_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is stopped while it starts ends, and so does one that was stopped before."""
    service, serve = Service(None, f"unix:{quick_folder}/s", config=CONFIG), Service.serve

    async def serve_late(service: Service, on_ready: Callable[[], object] | None = None) -> None:
        while not service._is_stopped:  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.001)
        await serve(service, on_ready)

    monkeypatch.setattr(Service, "serve", serve_late)
    starting = threading.Thread(target=service.start, daemon=True)
    starting.start()
    eventually(is_serving)
    stopping = threading.Thread(target=service.stop, daemon=True)
    stopping.start()
    stopping.join(20)
    starting.join(20)
    assert not stopping.is_alive()
    assert not starting.is_alive()
    service.start()
    eventually(lambda: not is_serving())
    assert service.addresses == ()
