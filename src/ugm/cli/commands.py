"""What the command ``ugm`` can do: ``simulate`` and ``validate`` here, ``explain``, ``serve`` and ``top`` beside it.

Exit statuses: 0 when all is well, 1 when a file has problems or a self-check found something, 2 for wrong usage, 3 when
`explain` finds that a request would be denied.
Reports go to the standard output, progress and errors to the standard error.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final, Literal

import click
from rich.console import Console

from ugm import ConfigError, Problem, RequestError, UgmError, load_config
from ugm.cli.demo import demo_command
from ugm.cli.explain import explain_command
from ugm.cli.options import read_cores, read_fields, read_memory, read_prefixes
from ugm.cli.progress import watching
from ugm.cli.serve import serve_command
from ugm.cli.top import top_command
from ugm.simulation import JobMapping, Report, parse_swf, simulate
from ugm.simulation.mapping import NameField
from ugm.simulation.render import render
from ugm.tracking.limits import PartitionLimits

__all__ = ["ugm"]

#: A file has problems.
_PROBLEMS: Final = 1


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click decides how it calls
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - takes time that only this option needs

        click.echo(f"ugm {version('ugm')}")
        ctx.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
def ugm() -> None:
    """Hierarchical quotas for users, groups and queues."""


for _command in (demo_command, explain_command, serve_command, top_command):
    ugm.add_command(_command)


@ugm.command("simulate")
@click.argument("workload", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--config",
    "config_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The queue configuration to try out.",
)
@click.option("--partition", "partition_name", help="The partition, where the configuration has several.")
@click.option(
    "--queue-levels",
    callback=read_fields,
    metavar="FIELDS",
    default="partition,queue",
    show_default=True,
    help="Fields of the log that name the queue levels below the root, from the top; unknown ones are left out.",
)
@click.option(
    "--default-queue", default="default", show_default=True, help="The queue of jobs without a known queue level."
)
@click.option(
    "--prefix",
    "prefixes",
    callback=read_prefixes,
    metavar="FIELD=TEXT",
    multiple=True,
    help="What stands before the numbers of a field in names; may be repeated.  [default: user=user, group=group, "
    "queue=queue, partition=site, executable=executable]",
)
@click.option(
    "--vcore",
    callback=read_cores,
    metavar="QUANTITY",
    default="1",
    show_default=True,
    help="Cores that each processor counts.",
)
@click.option(
    "--memory",
    callback=read_memory,
    metavar="QUANTITY",
    default="2Gi",
    show_default=True,
    help="Memory of each processor, for jobs of which the log does not know it; 0 for none.",
)
@click.option(
    "--group-limits",
    type=click.Choice(["always", "unless-user-limited"]),
    default="always",
    show_default=True,
    help="Whether a user with a limit of their own is held to the group's, too.",
)
@click.option("--until", type=click.IntRange(min=0), metavar="SECOND", help="Stop the clock after this second.")
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="LINES",
    default=8,
    show_default=True,
    help="How long each table may be.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def simulate_command(  # noqa: PLR0913 - one for each option
    *,
    workload: Path,
    config_file: Path,
    partition_name: str | None,
    queue_levels: tuple[NameField, ...],
    default_queue: str,
    prefixes: dict[NameField, str],
    vcore: int,
    memory: int,
    group_limits: Literal["always", "unless-user-limited"],
    until: int | None,
    top: int,
    as_json: bool,
) -> None:
    """Replay WORKLOAD under a configuration: what would it have done to these jobs?

    WORKLOAD is a log in the Standard Workload Format, plain or gzipped. Only the limits hold a job back, as if the
    machines were without end; a held job starts as soon as it fits, the oldest first.
    """
    mapping = JobMapping(
        queue_levels=queue_levels,
        default_queue=default_queue,
        prefixes=prefixes,
        vcore_per_processor=vcore,
        memory_per_processor=memory,
    )
    try:
        partition = _partition(config_file, partition_name)
        report, seconds = _replay(workload, mapping, partition, group_limits, until)
    except UgmError as error:
        click.echo(str(error), err=True)
        sys.exit(_PROBLEMS)
    if as_json:
        _print_json({"workload": str(workload), "config": str(config_file), **_timed(report, seconds)})
    else:
        render(report, Console(), title=f"{workload.name} under {config_file.name}", seconds=seconds, top=top)
    sys.exit(0 if report.is_clean else _PROBLEMS)


def _partition(file: Path, name: str | None) -> PartitionLimits:
    config = load_config(str(file))
    try:
        return config.partition(name)
    except RequestError as error:
        raise click.BadParameter(str(error), param_hint="--partition") from None


def _replay(
    workload: Path,
    mapping: JobMapping,
    partition: PartitionLimits,
    group_limits: Literal["always", "unless-user-limited"],
    until: int | None,
) -> tuple[Report, float]:
    """Return the report, and the seconds that reading and replaying took."""
    began = time.perf_counter()
    with workload.open("rb") as stream, watching(workload, stream) as observer:
        jobs = mapping.jobs(parse_swf(stream, str(workload)))
        report = simulate(jobs, partition, group_limits=group_limits, until=until, observer=observer)
    return report, time.perf_counter() - began


def _timed(report: Report, seconds: float) -> dict[str, Any]:
    """Return the figures with those that differ from run to run, which the report leaves to its caller."""
    rate = round(report.decisions / seconds) if seconds else 0
    return {**report.to_dict(), "timing": {"seconds": round(seconds, 3), "decisions_per_second": rate}}


@ugm.command("validate")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the problems as JSON.")
def validate_command(*, files: tuple[str, ...], as_json: bool) -> None:
    """Print every problem of the queue configurations FILES, one a line, with its place.

    A line reads FILE:LINE:COLUMN: PATH: MESSAGE [CODE]. The exit status is 0 when there is none, else 1.
    """
    problems = {file: _problems(file) for file in files}
    count = sum(map(len, problems.values()))
    if as_json:
        listed = [{"file": file, "problems": list(map(_as_dict, found))} for file, found in problems.items()]
        _print_json({"valid": not count, "files": listed})
    else:
        for found in problems.values():
            for problem in found:
                click.echo(str(problem))
        click.echo(f"{_counted(count, 'problem')} in {_counted(len(problems), 'file')}", err=True)
    sys.exit(_PROBLEMS if count else 0)


def _problems(file: str) -> tuple[Problem, ...]:
    try:
        load_config(file)
    except ConfigError as error:
        return error.problems
    return ()


def _as_dict(problem: Problem) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in ("line", "column", "path", "code", "message")}


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, indent=2))
