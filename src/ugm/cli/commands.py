"""What the command ``ugm`` can do: ``simulate``, ``diff`` and ``validate`` here, the rest beside it.

Exit statuses: 0 when all is well, 1 when a file has problems or a self-check found something, 2 for wrong usage; those
of ``diff`` are the ones of the tool of that name: 0 without differences, 1 with some, 2 for trouble of any kind. And
``explain`` has 3 for a request that would be denied.
Reports go to the standard output, progress and errors to the standard error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import click
from rich.console import Console

from ugm import ConfigError, Problem, RequestError, Resource, UgmError
from ugm.cli.demo import demo_command
from ugm.cli.differences import differences, render_differences
from ugm.cli.explain import explain_command
from ugm.cli.export import export_command
from ugm.cli.html import page
from ugm.cli.journal import journal, usage_command
from ugm.cli.options import (
    STDIN,
    read_cluster,
    read_config,
    read_cores,
    read_fields,
    read_memory,
    read_new_file,
    read_prefixes,
    read_review,
)
from ugm.cli.progress import watching
from ugm.cli.report import render
from ugm.cli.serve import serve_command
from ugm.cli.tables import counted
from ugm.cli.top import top_command
from ugm.config import PartitionConfig, Review
from ugm.simulation import JobMapping, Recorder, Report, parse_swf, simulate
from ugm.simulation.mapping import NameField

__all__ = ["ugm"]

#: A file has problems.
_PROBLEMS: Final = 1

#: Two files differ, and they could not be compared.
_DIFFERENT: Final = 1
_TROUBLE: Final = 2


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


for _command in (demo_command, explain_command, export_command, journal, serve_command, top_command, usage_command):
    ugm.add_command(_command)


@ugm.command("simulate", short_help="Replay a workload under a configuration.")
@click.argument("workload", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--config",
    "config_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="The queue configuration to try out; - for the standard input.",
)
@click.option(
    "--partition", "partition_name", metavar="NAME", help="The partition, where the configuration has several."
)
@click.option(
    "--cluster",
    callback=read_cluster,
    metavar="NAME=QUANTITY,...",
    help="What the cluster offers, such as vcore=1000,memory=4Ti; what is not named is not to be had.  "
    "[default: machines without end]",
)
@click.option(
    "--queue-levels",
    callback=read_fields,
    metavar="FIELDS",
    default="partition,queue",
    show_default=True,
    help="Fields of the log that name the levels below the root of the queue that is asked for, from the top; unknown "
    "ones are left out.",
)
@click.option(
    "--default-queue",
    metavar="NAME",
    default="default",
    show_default=True,
    help="The queue that jobs without a known queue level ask for; empty for none.",
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
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=read_new_file,
    metavar="FILE",
    help="Also write the report as a page with plots, one file that needs nothing else.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def simulate_command(  # noqa: PLR0913 - one for each option
    *,
    workload: Path,
    config_file: Path,
    partition_name: str | None,
    cluster: Resource | None,
    queue_levels: tuple[NameField, ...],
    default_queue: str,
    prefixes: dict[NameField, str],
    vcore: int,
    memory: int,
    group_limits: Literal["always", "unless-user-limited"],
    until: int | None,
    top: int,
    html_file: Path | None,
    as_json: bool,
) -> None:
    """Replay WORKLOAD under a configuration: what would it have done to these jobs?

    WORKLOAD is a log in the Standard Workload Format, plain or gzipped. The placement rules of the configuration find
    the queue of each job. Only limits and queue quotas hold a job back, and the size of the cluster where it is given;
    a held job starts as soon as it fits, the oldest first.
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
        recorder = Recorder() if html_file else None
        replay = partial(
            simulate, config=partition, cluster=cluster, group_limits=group_limits, until=until, recorder=recorder
        )
        report, seconds = _replay(workload, mapping, replay)
    except UgmError as error:
        click.echo(str(error), err=True)
        sys.exit(_PROBLEMS)
    title = f"{workload.name} under {config_file.name}"
    if html_file and recorder:
        _write(html_file, page(report, recorder, title=title))
    if as_json:
        _print_json({"workload": str(workload), "config": str(config_file), **_timed(report, seconds)})
    else:
        render(report, Console(), title=title, seconds=seconds, top=top)
    sys.exit(0 if report.is_clean else _PROBLEMS)


def _partition(file: Path, name: str | None) -> PartitionConfig:
    config = read_config(str(file))
    try:
        return config.partition(name)
    except RequestError as error:
        raise click.BadParameter(str(error), param_hint="'--partition'") from None


def _replay(workload: Path, mapping: JobMapping, replay: Callable[..., Report]) -> tuple[Report, float]:
    """Return the report, and the seconds that reading and replaying took."""
    began = time.perf_counter()
    with workload.open("rb") as stream, watching(workload, stream) as observer:
        jobs = mapping.jobs(parse_swf(stream, str(workload)))
        report = replay(jobs, observer=observer)
    return report, time.perf_counter() - began


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        click.echo(f"{file}: cannot be written: {error.strerror or error}", err=True)
        sys.exit(_PROBLEMS)


def _timed(report: Report, seconds: float) -> dict[str, Any]:
    """Return the figures with those that differ from run to run, which the report leaves to its caller."""
    rate = round(report.decisions / seconds) if seconds else 0
    return {**report.to_dict(), "timing": {"seconds": round(seconds, 3), "decisions_per_second": rate}}


@ugm.command("diff", short_help="Say what a new configuration changes.")
@click.argument("old", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("new", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--partition", "partition_name", metavar="NAME", help="Compare this partition alone.")
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def diff_command(*, old: str, new: str, partition_name: str | None, as_json: bool) -> None:
    """Say what NEW changes in the queue configuration OLD: queues, limits, placement rules.

    One of both may be - for the standard input. The exit status is 0 without differences, 1 with some, and 2 if a file
    has problems or the usage is wrong.
    """
    if old == new == STDIN:
        raise click.UsageError("only one of both configurations can be read from the standard input")
    try:
        found = differences(read_config(old), read_config(new), partition_name)
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(_TROUBLE)
    except RequestError as error:
        raise click.BadParameter(str(error), param_hint="'--partition'") from None
    if as_json:
        listed = [difference.to_dict() for difference in found]
        _print_json({"old": old, "new": new, "changed": any(found), "partitions": listed})
    else:
        render_differences(found, Console(), title=f"{old} -> {new}")
    sys.exit(_DIFFERENT if any(found) else 0)


@ugm.command("validate", short_help="Print every problem of configurations.")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the problems as JSON.")
def validate_command(*, files: tuple[str, ...], as_json: bool) -> None:
    """Print every problem of the queue configurations FILES, one a line, with its place.

    A line reads FILE:LINE:COLUMN: PATH: MESSAGE [CODE]. A file - is the standard input.
    A warning, about what is allowed and is probably a mistake, has the word "warning" before its message.
    The exit status is 0 when there is no problem, else 1.
    """
    reviews = {file: read_review(file) for file in files}
    count = sum(len(review.problems) for review in reviews.values())
    if as_json:
        _print_json({"valid": not count, "files": [_review(file, review) for file, review in reviews.items()]})
    else:
        for review in reviews.values():
            for problem in sorted((*review.problems, *map(_as_warning, review.warnings))):
                click.echo(str(problem))
        warnings = sum(len(review.warnings) for review in reviews.values())
        told = f" and {counted(warnings, 'warning')}" if warnings else ""
        click.echo(f"{counted(count, 'problem')}{told} in {counted(len(reviews), 'file')}", err=True)
    sys.exit(_PROBLEMS if count else 0)


def _as_warning(problem: Problem) -> Problem:
    return problem._replace(message=f"warning: {problem.message}")


def _review(file: str, review: Review) -> dict[str, Any]:
    problems, warnings = (list(map(_as_dict, found)) for found in (review.problems, review.warnings))
    return {"file": file, "problems": problems, "warnings": warnings}


def _as_dict(problem: Problem) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in ("line", "column", "path", "code", "message")}


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, indent=2))
