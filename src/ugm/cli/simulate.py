"""``ugm simulate``: replay a workload under configurations and orders, and report or compare the effects."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TextIO, TypedDict, Unpack, cast

import click
from rich.console import Console
from rich.progress import open as open_with_progress

from ugm.cli.options import STDIN, Amounts, read_fields, read_partition_config, read_prefixes, read_tags, read_values
from ugm.cli.output import PROBLEMS, instant, print_json
from ugm.cli.report.page import comparison_page, page
from ugm.cli.report.terminal import render, render_comparison
from ugm.cli.signature import JsonFlag, PartitionName, options
from ugm.config import PartitionConfig
from ugm.simulation import (
    JobMapping,
    JobOrderName,
    Recorder,
    ReplayComparison,
    Report,
    SwfHeader,
    parse_swf,
    simulate,
)
from ugm.simulation.workload import NameField


class _Case(NamedTuple):
    """One replay of several."""

    name: str
    config_file: Path
    config: PartitionConfig
    order: JobOrderName
    reserves: bool


class _Result(NamedTuple):
    case: _Case
    report: Report
    recorder: Recorder
    #: The duration of the replay in seconds, including reading.
    seconds: float
    #: The start of the log; None if it has no date.
    start: int | None


class _MappingOptions(TypedDict):
    """The fields of a `JobMapping`; None or empty for its defaults."""

    queue_levels: Annotated[tuple[NameField, ...], "FIELDS", read_fields]
    default_queue: Annotated[str, "NAME"] | None
    prefixes: Annotated[dict[NameField, str], "--prefix", "FIELD=TEXT", read_prefixes]
    tags: Annotated[dict[str, NameField], "--tag", "TAG=FIELD", read_tags]
    per_processor: Amounts
    variants: Annotated[dict[str, str], "--variant", "NAME=FAMILY:VARIANT", read_values]


@click.command("simulate", short_help="Replay a workload under a configuration.")
@options
@click.argument("workload", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
def simulate_command(  # noqa: PLR0913 - one for each option
    *,
    workload: Path,
    config_files: Annotated[
        tuple[Path, ...], "--config", click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
    ],
    cluster: Amounts,
    orders: Annotated[tuple[JobOrderName, ...], "--order"] = ("fifo",),
    reserves: Annotated[bool, "--reserve"] = False,
    partition_name: PartitionName | None = None,
    group_limits: Literal["always", "unless-user-limited"] = "always",
    reclaims: Annotated[bool, "--reclaim/--no-reclaim"] = True,
    until: Annotated[int, "SECOND", click.IntRange(min=0)] | None = None,
    top: Annotated[int, "N", click.IntRange(min=1)] = 8,
    html_file: Annotated[TextIO, "--html", "FILE", click.File("a", "utf-8", lazy=False)] | None = None,
    as_json: JsonFlag = False,
    **fields: Unpack[_MappingOptions],
) -> None:
    """Replay WORKLOAD under a configuration, and report which limits would have delayed or rejected its jobs.

    WORKLOAD is a log in the Standard Workload Format, plain or gzipped; - for the standard input. The placement rules
    of the configuration choose the queue of each job. A job waits only for limits, for queue quotas and, with
    --cluster, for the size of the cluster. A waiting job starts as soon as it fits, in the order of --order.

    With several configurations or orders, each of them is replayed, and the results are compared with the first one.
    With --reserve, each is replayed without and with reservations.

    Args:
        workload: the log.
        config_files: The queue configuration; - for the standard input; several to compare them.
        cluster: Resources of the cluster, such as vcore=1000,memory=4Ti; resources that are not listed are unavailable.
            [default: unlimited]
        orders: The order of waiting jobs: by submission, by the usage of their queues, by both this and the shares of
            their users, or by the priority of their queues; several to compare them.
        reserves: Also replay with reservations: free capacity is kept for the first job that is delayed only by queue
            quotas.
        partition_name: The partition, if the configuration has several.
        group_limits: Whether group limits also apply to users with a limit of their own.
        reclaims: Whether groups and queues take back what they are guaranteed, by evictions.
        until: Stop the replay after this second of the log.
        top: The maximum number of rows of each table.
        html_file: Also write the report as an HTML page with plots, in one self-contained file.
        as_json: Print all numbers as JSON.
        fields: the fields of the mapping of jobs.
        queue_levels: Fields of the log that form the path of the requested queue below the root, from the top; fields
            with an unknown value are left out. [default: partition,queue]
        default_queue: The requested queue of jobs for which all these fields are unknown; empty for none.
            [default: default]
        prefixes: The prefix that turns the numbers of a field into names; may be repeated. [default: user=user,
            group=group, queue=queue, partition=site, executable=executable]
        tags: A tag of each job with the name of a field, for quota models and placement rules; may be repeated.
        per_processor: Resources per processor of the log, such as vcore=500m,gpu=1; may be repeated. The memory is that
            of jobs with unknown memory in the log; 0 for none. [default: vcore=1,memory=2Gi]
        variants: The variant that jobs of a queue, group, site, user or executable request, such as queue2=gpu:a100;
            others request any; may be repeated.
    """
    if str(workload) == STDIN and STDIN in map(str, config_files):
        raise click.UsageError("only one of the files can be read from the standard input")
    cases = list(_cases(config_files, orders, partition_name, reserves=reserves))
    if len(cases) > 1 and not workload.is_file():
        raise click.UsageError("a pipe can be read only once; to compare replays, pass a file")
    arguments = {"cluster": cluster or None, "group_limits": group_limits, "until": until, "reclaims": reclaims}
    mapping = _mapping(**fields)
    results = [_replay(case, workload, mapping, arguments, is_recorded=html_file is not None) for case in cases]
    show = _show_report if len(results) == 1 else _show_comparison
    show(results, workload, html_file, top=top, as_json=as_json)
    sys.exit(0 if all(one.report.is_clean for one in results) else PROBLEMS)


def _mapping(**fields: Any) -> JobMapping:  # noqa: ANN401 - of `_MappingOptions`
    """Return the mapping of the options that are given."""
    given = {name: value for name, value in fields.items() if value is not None and value != ()}
    return JobMapping(**given)


def _cases(
    files: Sequence[Path], orders: Sequence[JobOrderName], partition_name: str | None, *, reserves: bool
) -> Iterator[_Case]:
    """Yield the replays of each configuration and each order, with names that distinguish them."""
    if len(set(files)) < len(files) or len(set(orders)) < len(orders):
        raise click.UsageError("a configuration or an order is given twice")
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        names = list(map(str, files))
    for name, file in zip(names, files, strict=True):
        config = read_partition_config(str(file), partition_name)
        for order in orders:
            parts = (name if len(files) > 1 else "", order if len(orders) > 1 or reserves else "")
            case = " ".join(filter(None, parts))
            yield _Case(case, file, config, order, reserves=False)
            if reserves:
                yield _Case(f"{case} reserve", file, config, order, reserves=True)


def _replay(
    case: _Case, workload: Path, mapping: JobMapping, arguments: Mapping[str, Any], *, is_recorded: bool
) -> _Result:
    began, header, recorder = time.perf_counter(), SwfHeader(), Recorder()
    with _opened(workload) as stream:
        jobs = mapping.jobs(parse_swf(stream, str(workload), header))
        # The header is known once the first job has been read.
        first = list(islice(jobs, 1))
        report = simulate(
            chain(first, jobs),
            case.config,
            recorder=recorder if is_recorded else None,
            order=case.order,
            reserves=case.reserves,
            start=header.start_time or 0,
            **arguments,
        )
    return _Result(case, report, recorder, time.perf_counter() - began, header.start_time)


@contextmanager
def _opened(workload: Path) -> Iterator[BufferedReader]:
    """Open the log, or the standard input. On a terminal, the standard error shows how much of a file has been read."""
    if str(workload) == STDIN:
        # With a reader of its own, because not every one can be read ahead.
        yield BufferedReader(cast("RawIOBase", sys.stdin.buffer))
        return
    console = Console(stderr=True)
    with open_with_progress(
        workload, "rb", description="replaying", console=console, transient=True, disable=not console.is_terminal
    ) as stream:
        yield BufferedReader(cast("RawIOBase", stream))


def _replace(file: TextIO, text: str) -> None:
    """Write a file that was opened before the replay, which may have failed, so that it kept its content until now."""
    file.truncate(0)
    file.write(text)


def _show_report(
    results: Sequence[_Result], workload: Path, html_file: TextIO | None, *, top: int, as_json: bool
) -> None:
    [one] = results
    case, report = one.case, one.report
    title = f"{workload.name} under {case.config_file.name}"
    if case.order != "fifo":
        title += f", order {case.order}"
    if html_file is not None:
        _replace(html_file, page(report, one.recorder, title=title, start=one.start))
    if as_json:
        print_json({"workload": str(workload), **_to_dict(one)})
    else:
        render(report, Console(), title=title, seconds=one.seconds, start=one.start, top=top)


def _show_comparison(
    results: Sequence[_Result], workload: Path, html_file: TextIO | None, *, top: int, as_json: bool
) -> None:
    compared = ReplayComparison({one.case.name: one.report for one in results})
    title = f"{workload.name} under {', '.join(dict.fromkeys(one.case.config_file.name for one in results))}"
    recorders = [one.recorder for one in results]
    if html_file is not None:
        _replace(html_file, comparison_page(compared, recorders, title=title, start=results[0].start))
    if as_json:
        replays = [{"name": one.case.name, "reserve": one.case.reserves, **_to_dict(one)} for one in results]
        print_json({"workload": str(workload), "replays": replays, "comparison": compared.to_dict()})
    else:
        render_comparison(compared, Console(), title=title, top=top)


def _to_dict(one: _Result) -> dict[str, object]:
    """Return the report for JSON, with the duration, which differs from run to run and is not part of the report."""
    report, seconds = one.report, one.seconds
    rate = round(report.decisions / seconds) if seconds else 0
    return {
        "config": str(one.case.config_file),
        "order": one.case.order,
        "start_time": None if one.start is None else instant(one.start),
        **report.to_dict(),
        "timing": {"seconds": round(seconds, 3), "decisions_per_second": rate},
    }
