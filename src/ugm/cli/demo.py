"""``ugm demo``: a server with something to see, a bundled workload that plays in accelerated time."""

from __future__ import annotations

import json
import sys
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
from ugm.cli.serve import missing_extra, names_of, url_of
from ugm.server import History
from ugm.simulation import Job, JobMapping, read_swf
from ugm.simulation.player import Player

__all__ = ["START", "demo_command", "endless", "play", "stage"]

#: What the machines offer together.
_CLUSTER: Final = Resource.parse(vcore="256", memory="1Ti")
#: The second of the workload at which it starts: before it, less is going on.
START: Final = 307_800
#: Seconds between two looks at the clock.
_TICK: Final = 0.1
_DAY: Final = 86_400


@click.command("demo", short_help="Serve a partition in which a bundled workload runs.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="The port; 0 for any that is free."
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True, max=100_000),
    metavar="FACTOR",
    default=600.0,
    show_default=True,
    help="How many seconds of the workload pass in one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print where the server listens as JSON.")
def demo_command(*, host: str, port: int, speed: float, as_json: bool) -> None:
    """Serve a partition in which a bundled workload of 20,000 jobs plays, again and again.

    Open the address that is printed in a browser. End it with Ctrl-C.
    """
    try:
        from ugm.server import create_app  # noqa: PLC0415 - needs an extra
        from ugm.server.serving import listen, run  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        missing_extra(error)
    try:
        listener = listen(host, port)
    except OSError as error:
        click.echo(f"cannot listen at {host} port {port}: {error.strerror or error}", err=True)
        sys.exit(1)
    player, history = stage()
    player.advance(START)
    over = threading.Event()
    thread = threading.Thread(target=play, args=(player, speed, over), name="demo")
    app = create_app({"default": player.partition}, history={"default": history}, allowed_hosts=names_of(host))
    thread.start()
    try:
        # Ctrl-C is how it is meant to end.
        with listener, suppress(KeyboardInterrupt):
            url = url_of(host, listener)
            run(app, listener, ready=lambda: click.echo(json.dumps({"url": url}) if as_json else f"serving at {url}"))
    finally:
        over.set()
        thread.join()


def stage() -> tuple[Player, History]:
    """Return what plays the bundled workload, at its beginning, and what remembers it."""
    history = History()
    config = load_config(_bundled("demo.yaml")).partition()
    jobs = list(JobMapping().jobs(read_swf(_bundled("grid.swf.gz"))))
    return Player(Partition(config, cluster=_CLUSTER, subscribers=[history]), endless(jobs)), history


def play(player: Player, speed: float, over: threading.Event) -> None:
    """Let a player go on, so many seconds in one, until it is over."""
    began, start = time.monotonic(), player.now
    while not over.wait(_TICK):
        player.advance(start + int((time.monotonic() - began) * speed))


def endless(jobs: Sequence[Job]) -> Iterator[Job]:
    """Yield jobs again and again, each time with new numbers, in whole days after the last time."""
    if not jobs:
        return
    period = (jobs[-1].submit_time // _DAY + 1) * _DAY
    apart = max(job.number for job in jobs)
    turn = 0
    while True:
        for job in jobs:
            yield replace(job, number=job.number + turn * apart, submit_time=job.submit_time + turn * period)
        turn += 1


def _bundled(name: str) -> Path:
    """Return a file of the examples: in the package where it is installed, beside ``src`` in a clone."""
    installed = Path(str(files("ugm") / "examples" / name))
    return installed if installed.exists() else Path(ugm.__file__).parents[2] / "examples" / name
