"""``ugm simulate --preempt``: replays with preemption next to those without, in the terminal, as JSON and as a page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

import ugm.cli.wording as texts
from ugm._json_values import JsonObject
from ugm.cli.files import opened, write_page
from ugm.cli.html.preemption import preemption_page
from ugm.cli.output import counted, instant, print_json, section, shown, table
from ugm.cli.progress import watching
from ugm.config import PartitionConfig
from ugm.resources import Resource
from ugm.simulation import JobMapping, PreemptionReport, SwfHeader, VictimWork, parse_swf, simulate_preemption

__all__ = ["PreemptionCase", "PreemptionSource", "replay_preemption", "show_preemption"]


class PreemptionCase(NamedTuple):
    """One replay of several."""

    #: Distinguishes it from the others.
    name: str
    config_file: Path
    config: PartitionConfig
    #: The fate of the work of victims; None for a replay without preemption.
    victims: VictimWork | None


class PreemptionSource(NamedTuple):
    """The log and the options that all replays share."""

    workload: Path
    mapping: JobMapping
    cluster: Resource
    #: The seconds that a victim takes to stop.
    stop_time: int


class PreemptionResult(NamedTuple):
    """The report of a replay."""

    case: PreemptionCase
    report: PreemptionReport
    #: The duration of the replay in seconds, including reading.
    seconds: float
    #: The start of the log in seconds since 1970; None if it has no date.
    start: int | None


def replay_preemption(case: PreemptionCase, source: PreemptionSource) -> PreemptionResult:
    """Replay the log once."""
    began, header = time.perf_counter(), SwfHeader()
    with opened(source.workload) as stream, watching(stream) as observer:
        report = simulate_preemption(
            source.mapping.jobs(parse_swf(stream, str(source.workload), header)),
            case.config,
            cluster=source.cluster,
            preempts=case.victims is not None,
            victims=case.victims or VictimWork.RESTART,
            stop_time=source.stop_time,
            observer=observer,
        )
    return PreemptionResult(case, report, time.perf_counter() - began, header.start_time)


def show_preemption(
    results: Sequence[PreemptionResult], source: PreemptionSource, html_file: Path | None, *, top: int, as_json: bool
) -> None:
    """Print the replays side by side, and write the page."""
    reports = {one.case.name: one.report for one in results}
    files = dict.fromkeys(one.case.config_file.name for one in results)
    title = f"{source.workload.name} under {', '.join(files)}, with preemption"
    if html_file:
        write_page(html_file, preemption_page(reports, title=title))
    if as_json:
        replays = [_values(one) for one in results]
        print_json({"workload": str(source.workload), "stop_time": source.stop_time, "replays": replays})
    else:
        _render(reports, Console(), title, top)


def _values(one: PreemptionResult) -> JsonObject:
    return {
        "name": one.case.name,
        "config": str(one.case.config_file),
        "preempt": one.case.victims and one.case.victims.value,
        "start_time": None if one.start is None else instant(one.start),
        **one.report.to_dict(),
        "timing": {"seconds": round(one.seconds, 3)},
    }


def _render(reports: Mapping[str, PreemptionReport], console: Console, title: str, top: int) -> None:
    console.print(f"\n[bold]{shown(title)}[/bold]\n")
    console.print(table("", *reports, rows=texts.preemption_rows(reports.values()), right=reports))
    for heading, rows in texts.guarantee_tables(reports.values()):
        listed = table("queue", "guaranteed", *reports, rows=rows[:top], right=reports, folded=("queue", "guaranteed"))
        note = counted(len(rows) - top, "more queue") if len(rows) > top else ""
        section(console, heading, listed, note)
    for name, report in reports.items():
        for finding in report.findings:
            console.print(f"[red]{shown(f'{name}: {finding}')}[/red]")
    console.print()
