"""A journal and its processes: forks, exits without closing, and pickling."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from support.journal_fixtures import begin
from support.partition_fixtures import memory
from support.places import environment
from ugm.journal import open_partition

pytestmark = pytest.mark.ci


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def run(program: str, path: Path) -> str:
    """Run a program with the path of a journal, and return what it prints."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


FORK = """
import os, sys
from support.partition_fixtures import memory
from support.journal_fixtures import begin
from ugm.journal import JournalError
partition = begin(sys.argv[1], durability="DURABILITY")
promises = [partition.promise(partition.allocate, f"a{i}", "app", memory(1)) for i in range(3)]
if not os.fork():
    try:
        partition.allocate("b", "app", memory(1))
    except JournalError as error:
        print(error.reason == f"it belongs to process {os.getppid()}, from which this one was forked", flush=True)
    try:
        partition.journal.compact()
    except JournalError as error:
        print(error.reason.startswith("it belongs to process"), flush=True)
    promise = partition.promise(partition.allocate, "b", "app", memory(1))
    print(type(promise.exception()) is JournalError, flush=True)
    partition.journal.close()
    sys.exit()
os.wait()
print(all(promise.result() for promise in promises), bool(partition.allocate("c", "app", memory(1))))
partition.journal.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("durability", ["each", "group"])
def test_a_forked_process(path: Path, durability: str) -> None:
    """A forked process cannot change the journal of its parent, and its end does not affect the parent."""
    assert run(FORK.replace("DURABILITY", durability), path) == "True\nTrue\nTrue\nTrue True\n"
    with open_partition(path) as again:
        assert [allocation.allocation_id for allocation in again.allocations()] == ["a0", "a1", "a2", "c"]


FORK_UNDER_LOCK = """
import os, signal, sys, threading
from support.partition_fixtures import memory
from support.journal_fixtures import begin
from ugm.journal import JournalError
begun, partition = threading.Event(), None
def clock():
    if begun.is_set() and threading.current_thread() is not threading.main_thread():
        inside.set()
        forked.wait()
    return 1
inside, forked = threading.Event(), threading.Event()
partition = begin(sys.argv[1], durability="DURABILITY", clock=clock)
begun.set()
thread = threading.Thread(target=partition.allocate, args=("a", "app", memory(1)))
thread.start()
inside.wait()
if not os.fork():
    signal.alarm(20)
    for call in (lambda: partition.allocate("b", "app", memory(1)), lambda: partition.release("b")):
        try:
            call()
        except JournalError as error:
            print(error.reason.startswith("it belongs to process"), flush=True)
    os._exit(0)
os.wait()
forked.set()
thread.join()
partition.journal.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("durability", ["each", "group"])
def test_fork_while_a_thread_holds_the_lock(path: Path, durability: str) -> None:
    """A change in the forked process is refused, although a thread of the parent was in the middle of one."""
    program = "import warnings; warnings.simplefilter('ignore')" + FORK_UNDER_LOCK
    assert run(program.replace("DURABILITY", durability), path) == "True\nTrue\n"


EXIT = """
import sys
from support.journal_fixtures import begin
from ugm import Resource
partition = begin(sys.argv[1], durability="DURABILITY")
promises = [partition.promise(partition.allocate, f"a{i}", "app", Resource()) for i in range(1000)]
promises[499].result()
"""


@pytest.mark.parametrize("durability", ["each", "group"])
def test_a_process_that_ends_without_closing(path: Path, durability: str) -> None:
    """The interpreter exits normally, and all acknowledged changes are kept."""
    run(EXIT.replace("DURABILITY", durability), path)
    with open_partition(path) as again:
        assert 500 <= len(again.allocations()) <= 1000


def test_pickling(path: Path) -> None:
    """A journaled partition can be neither copied nor pickled."""
    with begin(path) as partition, pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(partition)
    with open_partition(path) as again:
        assert again.allocate("a", "app", memory(1))
