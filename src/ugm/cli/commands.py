"""The command ``ugm``, and its subcommands ``simulate``, ``diff`` and ``validate``.

Each other subcommand has a module of its own in `ugm.cli`. All subcommands write reports to the standard output, and
progress and errors to the standard error. Their exit statuses are:

- 0 for success, 1 if a file has problems or a self-check fails, and 2 for wrong usage;
- ``diff``, like the Unix tool: 0 without differences, 1 with differences, and 2 for an error;
- ``explain``: also 3 if the request would be denied.
"""

from __future__ import annotations

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
from ugm.cli.html.page import page
from ugm.cli.journal import journal, usage_command
from ugm.cli.options import (
    STDIN,
    read_cluster,
    read_config,
    read_cores,
    read_fields,
    read_memory,
    read_new_file,
    read_partition,
    read_prefixes,
    read_review,
    read_tags,
)
from ugm.cli.order import order_command
from ugm.cli.output import PROBLEMS, counted, exit_with_error, print_json
from ugm.cli.progress import watching
from ugm.cli.report import render
from ugm.cli.serve import serve_command
from ugm.cli.top import top_command
from ugm.config import Review
from ugm.server.payloads import ApiError
from ugm.simulation import JobMapping, Recorder, Report, parse_swf, simulate

__all__ = ["ugm"]

#: Exit statuses of ``diff``: the files differ, or could not be compared.
_DIFFERENT: Final = 1
_ERROR: Final = 2


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click passes it by position
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - the import is slow, and only this option needs it

        click.echo(f"ugm {version('ugm')}")
        ctx.exit()


class _Group(click.Group):
    """Prints an error of a command, and exits with status 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (UgmError, ApiError) as error:
            exit_with_error(error)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
def ugm() -> None:
    """Hierarchical quotas for users, groups and queues."""


for _command in (
    demo_command,
    explain_command,
    export_command,
    journal,
    order_command,
    serve_command,
    top_command,
    usage_command,
):
    ugm.add_command(_command)


@ugm.command("simulate", short_help="Replay a workload under a configuration.")
@click.argument("workload", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--config",
    "config_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="The queue configuration; - for the standard input.",
)
@click.option("--partition", "partition_name", metavar="NAME", help="The partition, if the configuration has several.")
@click.option(
    "--cluster",
    callback=read_cluster,
    metavar="NAME=QUANTITY,...",
    help="Resources of the cluster, such as vcore=1000,memory=4Ti; resources that are not listed are unavailable.  "
    "[default: unlimited]",
)
@click.option(
    "--queue-levels",
    callback=read_fields,
    metavar="FIELDS",
    default="partition,queue",
    help="Fields of the log that form the path of the requested queue below the root, from the top; fields with an "
    "unknown value are left out.",
)
@click.option(
    "--default-queue",
    metavar="NAME",
    default="default",
    help="The requested queue of jobs for which all these fields are unknown; empty for none.",
)
@click.option(
    "--prefix",
    "prefixes",
    callback=read_prefixes,
    metavar="FIELD=TEXT",
    multiple=True,
    help="The prefix that turns the numbers of a field into names; may be repeated.  [default: user=user, group=group, "
    "queue=queue, partition=site, executable=executable]",
)
@click.option(
    "--tag",
    "tags",
    callback=read_tags,
    metavar="TAG=FIELD",
    multiple=True,
    help="A tag of each job with the name of a field, for quota models and placement rules; may be repeated.",
)
@click.option(
    "--vcore",
    "vcore_per_processor",
    callback=read_cores,
    metavar="QUANTITY",
    default="1",
    help="Cores of each processor.",
)
@click.option(
    "--memory",
    "memory_per_processor",
    callback=read_memory,
    metavar="QUANTITY",
    default="2Gi",
    help="Memory of each processor, for jobs with unknown memory in the log; 0 for none.",
)
@click.option(
    "--group-limits",
    type=click.Choice(["always", "unless-user-limited"]),
    default="always",
    help="Whether group limits also apply to users with a limit of their own.",
)
@click.option(
    "--reclaim/--no-reclaim",
    "reclaims",
    default=True,
    help="Whether elastic groups and groups of quota trees reclaim what they are guaranteed, by evictions.",
)
@click.option("--until", type=click.IntRange(min=0), metavar="SECOND", help="Stop the clock after this second.")
@click.option("--top", type=click.IntRange(min=1), metavar="LINES", default=8, help="The most rows of each table.")
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=read_new_file,
    metavar="FILE",
    help="Also write the report as an HTML page with plots, in one self-contained file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def simulate_command(  # noqa: PLR0913 - one for each option
    *,
    workload: Path,
    config_file: Path,
    partition_name: str | None,
    cluster: Resource | None,
    group_limits: Literal["always", "unless-user-limited"],
    reclaims: bool,
    until: int | None,
    top: int,
    html_file: Path | None,
    as_json: bool,
    **mapping: Any,  # noqa: ANN401 - the field of `JobMapping` for each further option
) -> None:
    """Replay WORKLOAD under a configuration, and report which limits would have delayed or rejected its jobs.

    WORKLOAD is a log in the Standard Workload Format, plain or gzipped. The placement rules of the configuration choose
    the queue of each job. A job waits only for limits, for queue quotas and, with --cluster, for the size of the
    cluster. A waiting job starts as soon as it fits, the oldest first.
    """
    partition = read_partition(str(config_file), partition_name)
    recorder = Recorder() if html_file else None
    replay = partial(
        simulate,
        config=partition,
        cluster=cluster,
        group_limits=group_limits,
        until=until,
        recorder=recorder,
        reclaims=reclaims,
    )
    report, seconds = _replay(workload, JobMapping(**mapping), replay)
    title = f"{workload.name} under {config_file.name}"
    if html_file and recorder:
        _write(html_file, page(report, recorder, title=title))
    if as_json:
        print_json({"workload": str(workload), "config": str(config_file), **_timed(report, seconds)})
    else:
        render(report, Console(), title=title, seconds=seconds, top=top)
    sys.exit(0 if report.is_clean else PROBLEMS)


def _replay(workload: Path, mapping: JobMapping, replay: Callable[..., Report]) -> tuple[Report, float]:
    """Return the report, and the seconds that the replay took, including reading."""
    began = time.perf_counter()
    with workload.open("rb") as stream, watching(workload, stream) as observer:
        jobs = mapping.jobs(parse_swf(stream, str(workload)))
        report = replay(jobs, observer=observer)
    return report, time.perf_counter() - began


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        exit_with_error(f"{file}: cannot be written: {error.strerror or error}")


def _timed(report: Report, seconds: float) -> dict[str, object]:
    """Return the report for JSON, with the duration, which differs from run to run and is not part of the report."""
    rate = round(report.decisions / seconds) if seconds else 0
    return {**report.to_dict(), "timing": {"seconds": round(seconds, 3), "decisions_per_second": rate}}


@ugm.command("diff", short_help="Compare two configurations.")
@click.argument("old", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("new", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--partition", "partition_name", metavar="NAME", help="Compare only this partition.")
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def diff_command(*, old: str, new: str, partition_name: str | None, as_json: bool) -> None:
    """Print the differences between the queue configurations OLD and NEW: queues, limits and placement rules.

    One of the files may be - for the standard input. The exit status is 0 without differences, 1 with differences, and
    2 if a file has problems or the usage is wrong.
    """
    if old == new == STDIN:
        raise click.UsageError("only one of the configurations can be read from the standard input")
    try:
        found = differences(read_config(old), read_config(new), partition_name)
    except ConfigError as error:
        exit_with_error(error, status=_ERROR)
    except RequestError as error:
        raise click.BadParameter(str(error), param_hint="'--partition'") from None
    if as_json:
        listed = [difference.to_dict() for difference in found]
        print_json({"old": old, "new": new, "changed": any(found), "partitions": listed})
    else:
        render_differences(found, Console(), title=f"{old} -> {new}")
    sys.exit(_DIFFERENT if any(found) else 0)


@ugm.command("validate", short_help="Print all problems of configurations.")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the problems as JSON.")
def validate_command(*, files: tuple[str, ...], as_json: bool) -> None:
    """Print all problems of the queue configurations FILES, one per line, with their places.

    The format is FILE:LINE:COLUMN: PATH: MESSAGE [CODE]. A file - is the standard input.
    A warning is printed for a setting that is allowed but probably a mistake; its message starts with "warning".
    The exit status is 0 without problems, and 1 otherwise.
    """
    reviews = {file: read_review(file) for file in files}
    count = sum(len(review.problems) for review in reviews.values())
    if as_json:
        print_json({"valid": not count, "files": [_review(file, review) for file, review in reviews.items()]})
    else:
        for review in reviews.values():
            for problem in sorted((*review.problems, *map(_as_warning, review.warnings))):
                click.echo(str(problem))
        warnings = sum(len(review.warnings) for review in reviews.values())
        suffix = f" and {counted(warnings, 'warning')}" if warnings else ""
        click.echo(f"{counted(count, 'problem')}{suffix} in {counted(len(reviews), 'file')}", err=True)
    sys.exit(PROBLEMS if count else 0)


def _as_warning(problem: Problem) -> Problem:
    return problem._replace(message=f"warning: {problem.message}")


def _review(file: str, review: Review) -> dict[str, object]:
    problems, warnings = (list(map(_as_dict, found)) for found in (review.problems, review.warnings))
    return {"file": file, "problems": problems, "warnings": warnings}


def _as_dict(problem: Problem) -> dict[str, object]:
    return {name: getattr(problem, name) for name in ("line", "column", "path", "code", "message")}
