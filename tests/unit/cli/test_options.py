"""The options of all commands: the same name has the same form and meaning everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import pytest

from support.commands import run
from ugm import Resource, UserGroup
from ugm.cli.commands import ugm
from ugm.configuration import BudgetConfig, Extensions, PartitionConfig, QueueConfig
from ugm.store import open_partition

CONFIG: Final = "partitions: [{queues: [{name: a, resources: {max: {memory: 8}}}]}]"
WORKLOAD: Final = "; UnixStartTime: 1000000000\n1 0 -1 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n"
#: Files that are written, and files with one secret or key.
NOT_FROM_STDIN: Final = frozenset(
    ("--token-file", "--decide-token-file", "--client-token-file", "--certificate", "--key", "--html", "target")
)
#: The names of times in JSON. Others, such as the seconds of a replay, are durations since the beginning of a log.
TIMES: Final = frozenset(
    ("at", "first_at", "last_at", "start_time", "since", "until", "begin", "end", "renews", "exhausted")
)


def commands(found: click.Command = ugm, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all commands that are no groups, with their names."""
    if isinstance(found, click.Group):
        for name, child in found.commands.items():
            yield from commands(child, (*path, name))
    else:
        yield path, found


ALL: Final = dict(commands())


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_options_of_a_command(path: tuple[str, ...]) -> None:
    """Every command can print JSON, options of one name have one form, and files may be the standard input."""
    options = {name: option for option in ALL[path].params for name in option.opts}
    forms = {
        "--json": (None, "boolean"),
        "--partition": ("NAME", "text"),
        "--usage": ("NAME=QUANTITY,...", "text"),
        "--quota": ("NAME=QUANTITY,...", "text"),
        "--cluster": ("NAME=QUANTITY,...", "text"),
    }
    assert "--json" in options
    for name, form in forms.items():
        if name in options:
            assert (options[name].metavar, options[name].type.name) == form
    for name, option in options.items():
        if type(option.type) is click.Path and name not in NOT_FROM_STDIN:
            assert option.type.allow_dash, name


def json_outputs(tmp_path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the output of all commands that end by themselves, as JSON."""
    store, config = tmp_path / "quota.db", tmp_path / "queues.yaml"
    config.write_text(CONFIG)
    budget = BudgetConfig("each", user="*", amounts=Resource(vcore=10_000), unit="hour", period="month")
    with open_partition(store, PartitionConfig(queues=(QueueConfig("a"),), ugm=Extensions(budgets=(budget,)))) as one:
        one.submit("app", UserGroup("ana"), "root.a")
        one.allocate("x", "app", Resource(vcore=1000), duration=3600)
        one.request("y", "app", Resource(vcore=1000))
    backup = tmp_path / "copy.db"
    for line, text in (
        (f"budgets {store}", ""),
        ("explain - --user ana --queue root.a --usage memory=4", CONFIG),
        ("export -", CONFIG),
        (f"store verify {store}", ""),
        (f"store info {store}", ""),
        (f"store changes {store}", ""),
        (f"store backup {store} {backup}", ""),
        (f"usage {store} --by user --per day", ""),
        (f"order {store}", ""),
        (f"simulate - --config {config}", WORKLOAD),
        (f"diff - {config}", CONFIG.replace("8", "9")),
        ("validate -", CONFIG),
    ):
        result = run(*line.split(), "--json", text=text)
        yield line, json.loads(result.stdout)


def times(value: object) -> Iterator[tuple[str, object]]:
    """Yield the times in JSON, with their names."""
    if isinstance(value, dict):
        for name, one in value.items():
            if name in TIMES and not isinstance(one, dict | list):
                yield name, one
            yield from times(one)
    elif isinstance(value, list):
        for one in value:
            yield from times(one)


@pytest.mark.ci
def test_one_format_of_times(tmp_path: Path) -> None:
    """Every command prints JSON, in which times are ISO 8601 in UTC with milliseconds, or null."""
    found = [(line, *one) for line, value in json_outputs(tmp_path) for one in times(value)]
    wrong = [
        (line, name, one)
        for line, name, one in found
        if not (one is None or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(one)))
    ]
    assert wrong == []
    assert {line.split()[0] for line, _, _ in found} >= {"budgets", "store", "simulate", "usage"}
