"""The command ``ugm``, and its subcommands ``diff``, ``export`` and ``validate``.

Each other subcommand has a module of its own in `ugm.cli`. All subcommands write reports to the standard output, and
progress and errors to the standard error. Their exit statuses are:

- 0 for success, 1 if a file has problems or a self-check fails, and 2 for invalid arguments;
- ``diff``, like the Unix tool: 0 without differences, 1 with differences, and 2 for an error;
- ``explain``: also 3 if the request would be denied.

The comparison of two configurations covers the settings that ``ugm`` enforces: queues with their quotas, templates and
access lists, limits, and placement rules. It ignores comments, formatting, and settings that only a scheduler uses.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from difflib import ndiff
from typing import Final, NamedTuple

import click

from ugm import ConfigError, Problem, UgmError
from ugm.cli.demo import demo_command
from ugm.cli.explain import explain_command, order_command
from ugm.cli.options import STDIN, read_config, read_review
from ugm.cli.output import PROBLEMS, counted, exit_with_error, print_data, print_json
from ugm.cli.serve import serve_command
from ugm.cli.signature import JsonFlag, PartitionName, options
from ugm.cli.simulate import simulate_command
from ugm.cli.store import budgets_command, store_commands, usage_command
from ugm.config import PartitionConfig, Review, SchedulerConfig, dump_config, export_config
from ugm.configuration.fields import to_data
from ugm.configuration.model_kinds import unmapped_queues
from ugm.errors import RequestError, printable
from ugm.partition import Changes, LimitRisk, changes
from ugm.partition.config.changes import lowered_limits
from ugm.partition.config.compiled import CompiledConfig
from ugm.server.http.payloads import ApiError, problem_to_dict

__all__ = ["PartitionDifference", "differences", "render_differences", "ugm"]

_COLOURS: Final = {"+": "green", "-": "red", "~": "yellow", "r": "red", "w": "yellow"}


class PartitionDifference(NamedTuple):
    """The difference of one partition; false if there is none."""

    name: str
    before: PartitionConfig | None
    after: PartitionConfig | None
    changes: Changes

    @property
    def change(self) -> str:
        """The kind of the change: ``added``, ``removed``, ``changed`` or ``none``."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        return "changed" if self.changes else "none"

    @property
    def risks(self) -> tuple[LimitRisk, ...]:
        """The limits that fall by more than 10 %; a plan has to be confirmed if it has any."""
        return tuple(lowered_limits(CompiledConfig.of(self.before), CompiledConfig.of(self.after)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The queues in which a declared quota model of the new configuration denies every request."""
        return tuple(map(str, unmapped_queues(self.after)))

    def __bool__(self) -> bool:
        return self.change != "none"

    def to_dict(self) -> dict[str, object]:
        """Return the difference for JSON."""
        risks = [risk.to_dict() for risk in self.risks]
        found = {"risks": risks, "warnings": list(self.warnings)}
        return {"partition": self.name, "change": self.change, **self.changes.to_dict(), **found}


def differences(old: SchedulerConfig, new: SchedulerConfig, name: str | None = None) -> list[PartitionDifference]:
    """Compare all partitions of two configurations, or one by its name; those of the old configuration come first.

    Raises:
        RequestError: neither configuration has a partition with that name.
    """
    before = {partition.name: partition for partition in old.partitions}
    after = {partition.name: partition for partition in new.partitions}
    names = list({**before, **after}) if name is None else [name.lower()]
    if not before.keys() | after.keys() >= set(names):
        existing = ", ".join(repr(each) for each in {**before, **after})
        raise RequestError(
            "partition", name, f"no such partition in either file (existing: {existing or 'none'})", "partition-unknown"
        )
    return [
        PartitionDifference(each, before.get(each), after.get(each), changes(before.get(each), after.get(each)))
        for each in names
    ]


def render_differences(found: list[PartitionDifference], title: str) -> None:
    """Print differences for people: a line for each change with its sign, and for each risk and warning."""
    click.secho(f"\n{printable(title)}", bold=True)
    for difference in filter(None, found):
        change = "" if difference.change == "changed" else f" ({difference.change})"
        click.echo(f"\npartition {printable(difference.name)}{change}")
        for line in _lines(difference):
            click.secho(printable(line), fg=_COLOURS.get(line[0]))
    click.echo("" if any(found) else "\n  no changes\n")


def _lines(difference: PartitionDifference) -> Iterator[str]:
    changed = difference.changes
    yield from str(changed).splitlines() if changed else ()
    if changed.placement_rules:
        # All of them, because their order matters.
        before, after = (
            [json.dumps(to_data(rule), ensure_ascii=False) for rule in (side.placement_rules if side else ())]
            for side in (difference.before, difference.after)
        )
        yield from (f"    {line}" for line in ndiff(before, after) if line[0] != "?")
    yield from (f"risk: {risk}" for risk in difference.risks)
    yield from (f"warning: {warning}" for warning in difference.warnings)


# The commands

#: Exit statuses of ``diff``: the files differ, or could not be compared.
_DIFFERENT: Final = 1
_ERROR: Final = 2


class _Group(click.Group):
    """Prints an error of a command, and exits with status 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (UgmError, ApiError) as error:
            exit_with_error(error)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="ugm", message="ugm %(version)s", help="Show the version.")
def ugm() -> None:
    """Hierarchical quotas for users, groups and queues."""


for _command in (
    budgets_command,
    demo_command,
    explain_command,
    order_command,
    serve_command,
    simulate_command,
    store_commands,
    usage_command,
):
    ugm.add_command(_command)


@ugm.command("diff", short_help="Compare two configurations.")
@options
@click.argument("old", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("new", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
def diff_command(*, old: str, new: str, partition_name: PartitionName | None = None, as_json: JsonFlag = False) -> None:
    """Print the differences between the queue configurations OLD and NEW: queues, limits and placement rules.

    One of the files may be - for the standard input. The exit status is 0 without differences, 1 with differences, and
    2 if a file has problems or an argument is invalid.

    Args:
        old: the first configuration.
        new: the second configuration.
        partition_name: Compare only this partition.
        as_json: Print the differences as JSON.
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
        render_differences(found, f"{old} -> {new}")
    sys.exit(_DIFFERENT if any(found) else 0)


@ugm.command("validate", short_help="Print all problems of configurations.")
@options
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True))
def validate_command(*, files: tuple[str, ...], as_json: JsonFlag = False) -> None:
    """Print all problems of the queue configurations FILES with their places.

    The format is FILE:LINE:COLUMN: PATH: MESSAGE [CODE]. The line of the file follows, with a mark under the place.
    A file may also be a ConfigMap of Kubernetes or the values of Helm that contain a configuration. Use - for the
    standard input.
    A warning is printed for a setting that is allowed but probably a mistake; its message starts with "warning".
    The exit status is 0 without problems, and 1 otherwise.

    Args:
        files: the configurations.
        as_json: Print the problems as JSON.
    """
    reviews = {file: read_review(file) for file in files}
    count = sum(len(review.problems) for review in reviews.values())
    if as_json:
        print_json({"valid": not count, "files": [_review(file, review) for file, review in reviews.items()]})
    else:
        for review in reviews.values():
            for problem in sorted((*review.problems, *map(_as_warning, review.warnings))):
                click.echo(problem.for_people())
        warnings = sum(len(review.warnings) for review in reviews.values())
        suffix = f" and {counted(warnings, 'warning')}" if warnings else ""
        click.echo(f"{counted(count, 'problem')}{suffix} in {counted(len(reviews), 'file')}", err=True)
    sys.exit(PROBLEMS if count else 0)


def _as_warning(problem: Problem) -> Problem:
    return problem._replace(message=f"warning: {problem.message}")


def _review(file: str, review: Review) -> dict[str, object]:
    problems, warnings = (list(map(problem_to_dict, found)) for found in (review.problems, review.warnings))
    return {"file": file, "problems": problems, "warnings": warnings}


@ugm.command("export", short_help="Convert a configuration for Apache YuniKorn.")
@options
@click.argument("file", type=click.Path(allow_dash=True))
def export_command(*, file: str, as_json: JsonFlag = False) -> None:
    """Print the configuration FILE in the format of Apache YuniKorn.

    With - the configuration is read from the standard input. The key "ugm" is omitted, with all settings that depend on
    it. The omitted settings are listed on the standard error and in comments above the configuration. The exit status
    is 0, or 1 if FILE has problems.

    Args:
        file: the configuration.
        as_json: Print the configuration and the omitted settings as JSON.
    """
    exported = export_config(read_config(file))
    yaml = dump_config(exported.config)
    if as_json:
        print_json({"file": file, "yaml": yaml, "left_out": [part._asdict() for part in exported.left_out]})
        return
    for part in exported.left_out:
        click.echo(printable(f"{file}: {part}"), err=True)
    print_data("".join(f"# {printable(str(part))}\n" for part in exported.left_out) + yaml)
