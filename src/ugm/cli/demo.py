"""``ugm demo``: a server for a partition in which a bundled workload runs in accelerated time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Final

import click

import ugm
from ugm import Partition, Resource, load_config
from ugm.cli.output import exit_with_error
from ugm.cli.serve import missing_extra, names_of, url_of
from ugm.server import History
from ugm.simulation import Job, JobMapping, read_swf
from ugm.simulation.player import Player

__all__ = ["START", "create_player", "demo_command", "endless", "play"]

#: The resources of the cluster.
_CLUSTER: Final = Resource.parse(vcore="256", memory="1Ti")
#: The second of the workload at which the demo starts, because fewer jobs run before.
START: Final = 307_800
#: Seconds between two steps of the workload.
_TICK: Final = 0.1
_DAY: Final = 86_400


@click.command("demo", short_help="Serve a partition with a bundled workload.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="The port; 0 for any free port."
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True, max=100_000),
    metavar="FACTOR",
    default=600.0,
    show_default=True,
    help="Seconds of the workload per second.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the URL of the server as JSON.")
def demo_command(*, host: str, port: int, speed: float, as_json: bool) -> None:
    """Serve a partition in which a bundled workload of 20,000 jobs runs in an endless loop.

    Open the printed URL in a browser. Press Ctrl-C to stop.
    """
    try:
        from ugm.server import create_app  # noqa: PLC0415 - needs an extra
        from ugm.server.serving import listen, run  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        missing_extra(error)
    try:
        listener = listen(host, port)
    except OSError as error:
        exit_with_error(f"cannot listen on {host} port {port}: {error.strerror or error}")
    player, history = create_player()
    player.advance(START)
    over = threading.Event()
    thread = threading.Thread(target=play, args=(player, speed, over), name="demo")
    app = create_app({"default": player.partition}, history={"default": history}, allowed_hosts=names_of(host))
    thread.start()
    try:
        # Ctrl-C is the usual way to stop the demo.
        with listener, suppress(KeyboardInterrupt):
            url = url_of(host, listener)
            run(app, listener, ready=lambda: click.echo(json.dumps({"url": url}) if as_json else f"serving at {url}"))
    finally:
        over.set()
        thread.join()


def create_player() -> tuple[Player, History]:
    """Return a player of the bundled workload, at its beginning, and the history of its partition."""
    history = History()
    config = load_config(_bundled("demo.yaml")).partition()
    jobs = list(JobMapping().jobs(read_swf(_bundled("grid.swf.gz"))))
    return Player(Partition(config, cluster=_CLUSTER, subscribers=[history]), endless(jobs)), history


def play(player: Player, speed: float, over: threading.Event) -> None:
    """Advance a player by *speed* seconds of the workload per second, until *over* is set."""
    began, start = time.monotonic(), player.now
    while not over.wait(_TICK):
        player.advance(start + int((time.monotonic() - began) * speed))


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
