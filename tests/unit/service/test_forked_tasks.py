"""The connection of an asyncio client in a forked process: the parent gets its answers, and keeps its session."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.partition_fixtures import SUE, memory
from support.service_fixtures import eventually, running
from ugm.service import UnavailableError, connect_async

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

BEGIN = """
import asyncio, os, sys, time, warnings
from pathlib import Path
from support.partition_fixtures import SUE, memory
from support.service_fixtures import running
from ugm.service import UnavailableError, connect_async
warnings.simplefilter("ignore")
async def opened():
    partition = await connect_async(f"unix:{sys.argv[1]}/s")
    await partition.submit("app", SUE, "root.a")
    return partition
async def is_refused(partition):
    try:
        await partition.allocate("of the child", "app", memory(1))
    except UnavailableError as error:
        return error.reason.startswith(f"the connection belongs to process {os.getppid()};")
"""

#: A process that forks in a loop. The child has no running loop, and begins one of its own.
FORK_IN_A_LOOP = """
def work_in_child(partition):
    coroutine = is_refused(partition)
    try:
        coroutine.send(None)
    except StopIteration as end:
        print(end.value, flush=True)
    print(asyncio.run(is_refused(partition)), flush=True)
    asyncio.run(partition.connection.close())
    os._exit(7)
async def work():
    partition = await opened()
    child = os.fork()
    if not child:
        work_in_child(partition)
    print(os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, child, 0))[1]))
    print((await partition.allocate("of the parent", "app", memory(1))).allowed)
    print([one.allocation_id for one in await partition.allocations()])
    print([one.allocations for one in await partition.sessions.sessions()])
    await partition.connection.close()
with running(Path(sys.argv[1])):
    asyncio.run(work())
"""

#: A process whose loop goes on in the child, while an answer arrives.
FORK_OF_A_LOOP = """
with running(Path(sys.argv[1])) as service, asyncio.Runner() as runner:
    partition = runner.run(opened())
    async def begin():
        call = asyncio.ensure_future(partition.allocate("of the parent", "app", memory(1)))
        await asyncio.sleep(0)
        return call
    async def end(call):
        await asyncio.sleep(0.6)
        return (await asyncio.gather(call, return_exceptions=True))[0]
    # The answer arrives after the fork.
    service._loop.call_soon_threadsafe(time.sleep, 0.3)
    call = runner.run(begin())
    child = os.fork()
    if not child:
        print(runner.run(is_refused(partition)), isinstance(runner.run(end(call)), UnavailableError), flush=True)
        runner.run(partition.connection.close())
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(runner.run(end(call)).allowed)
    runner.run(partition.connection.close())
"""


@pytest.mark.parametrize(
    ("program", "output"),
    [(FORK_IN_A_LOOP, "True True 7 True ['of the parent'] [1]"), (FORK_OF_A_LOOP, "True True 7 True")],
    ids=["in a loop", "of a loop"],
)
def test_a_forked_process(quick_folder: Path, program: str, output: str) -> None:
    """A forked process cannot use the connection of its parent, and the parent gets the answers to its own calls."""
    command = [sys.executable, "-c", BEGIN + program, str(quick_folder)]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=paths, text=True, capture_output=True, timeout=60, check=False)  # noqa: S603 - of this test
    assert done.stdout.split() == output.split(), done.stderr


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_process_that_forked_unnoticed(quick_folder: Path, is_closed: bool) -> None:  # noqa: FBT001 - a parameter
    """If Python does not know that it runs in a forked process, all that goes on there ends by itself."""

    async def work() -> None:
        partition = await connect_async(f"unix:{quick_folder}/s")
        await partition.submit("app", SUE, "root.a")
        connection = partition.connection
        call, channel = partition.check("app", memory(1)), connection._channel
        assert channel is not None
        transport = channel._transport
        assert transport is not None
        # As in a forked process.
        connection._process = -1  # type: ignore[misc] # this process is not forked
        with pytest.raises(UnavailableError, match="belongs to process -1"):
            await partition.check("app", memory(1))
        channel.send(b"nothing that a leader understands")
        if is_closed:
            await connection.close()
        assert connection._work is not None
        with pytest.raises(UnavailableError):
            await call
        await asyncio.wait_for(connection._work, 20)
        # Nothing does this in a forked process.
        transport.abort()

    with running(quick_folder) as service:
        asyncio.run(work())
        eventually(lambda: service._listener.connections == 0)
        # The session did not end.
        assert [one.is_connected for one in service.sessions.sessions() if one.client != service.name] == [False]
