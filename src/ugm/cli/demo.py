"""``ugm demo``: a server for a partition in which a bundled workload runs in accelerated time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import click

import ugm
from ugm import Partition, Resource, load_config
from ugm.cli.serve import Host, Port, listening, names_of, run_server
from ugm.cli.signature import JsonFlag, options
from ugm.server import History
from ugm.server.serving import exit_on_sigterm
from ugm.simulation import Job, JobMapping, read_swf
from ugm.simulation.replay import Replay
from ugm.simulation.timeline import Timeline

#: The resources of the cluster.
_CLUSTER: Final = Resource.parse(vcore="256", memory="1Ti")
#: The second of the workload at which the demo starts, because fewer jobs run before.
START: Final = 307_800
#: Seconds between two steps of the workload.
_TICK: Final = 0.1
_DAY: Final = 86_400


@click.command("demo", short_help="Serve a partition with a bundled workload.")
@options
def demo_command(
    *,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    speed: Annotated[float, "FACTOR", click.FloatRange(min=0, min_open=True, max=100_000)] = 600.0,
    as_json: JsonFlag = False,
) -> None:
    """Serve a partition in which a bundled workload of 20,000 jobs runs in an endless loop.

    Open the printed URL in a browser. Press Ctrl-C to stop.

    Args:
        host: The address to listen on.
        port: The port; 0 for any free port.
        speed: Seconds of the workload per second.
        as_json: Print the URL of the server as JSON.
    """
    from ugm.server import create_app  # noqa: PLC0415 - needs an extra

    exit_on_sigterm()
    with listening(host, port) as listener:
        replay, history = create_demo()
        replay.run(START)
        app = create_app({"default": replay.partition}, history={"default": history}, allowed_hosts=names_of(host))
        # Ctrl-C is the usual way to stop the demo.
        with _playing(replay, speed), suppress(KeyboardInterrupt):
            run_server(app, host, listener, {}, as_json=as_json)


@contextmanager
def _playing(replay: Replay, speed: float) -> Iterator[None]:
    """Advance a replay in a thread during the block."""
    over = threading.Event()
    thread = threading.Thread(target=play, args=(replay, speed, over), name="demo")
    try:
        thread.start()
        yield
    finally:
        over.set()
        # A signal may end the command before it has started.
        if thread.is_alive():
            thread.join()


def create_demo() -> tuple[Replay, History]:
    """Return a replay of the bundled workload, at its beginning, and the history of its partition."""
    history = History()
    config = load_config(_bundled("demo.yaml")).partition()
    jobs = list(JobMapping().jobs(read_swf(_bundled("grid.swf.gz"))))
    timeline = Timeline(int(time.time()) - START, config)
    partition = Partition(config, cluster=_CLUSTER, subscribers=[history], clock=timeline.second)
    return Replay(partition, endless(jobs), timeline), history


def play(replay: Replay, speed: float, over: threading.Event) -> None:
    """Advance a replay by *speed* seconds of the workload per second, until *over* is set."""
    began, start = time.monotonic(), replay.now
    while not over.wait(_TICK):
        replay.run(start + int((time.monotonic() - began) * speed))


def endless(jobs: Sequence[Job]) -> Iterator[Job]:
    """Yield jobs in an endless loop; each round has new numbers and starts a whole number of days later."""
    if not jobs:
        return
    period = (jobs[-1].submit_time // _DAY + 1) * _DAY
    apart = max(job.number for job in jobs)
    rounds = 0
    while True:
        for job in jobs:
            yield replace(job, number=job.number + rounds * apart, submit_time=job.submit_time + rounds * period)
        rounds += 1


def _bundled(name: str) -> Path:
    """Return a file of the examples, which are in the installed package, or next to ``src`` in a clone."""
    installed = Path(str(files("ugm") / "examples" / name))
    return installed if installed.exists() else Path(ugm.__file__).parents[2] / "examples" / name
