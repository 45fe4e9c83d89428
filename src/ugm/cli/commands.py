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
from difflib import ndiff
from typing import Final, NamedTuple

import click

from ugm import ConfigError, UgmError
from ugm._json_values import JsonObject
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
from ugm.errors import printable
from ugm.partition import changes
from ugm.partition.config.changes import lowered_limits
from ugm.partition.config.compiled import CompiledConfig
from ugm.server.http.payloads import ApiError, problem_to_dict

_COLOURS: Final = {"+": "green", "-": "red", "~": "yellow", "r": "red", "w": "yellow"}


class _Difference(NamedTuple):
    """The difference of one partition."""

    partition: str
    #: ``added``, ``removed``, ``changed`` or ``none``.
    change: str
    #: The differences for JSON.
    fields: JsonObject
    #: A line for each change with its sign, and for each risk and warning.
    lines: list[str]


def _differences(old: SchedulerConfig, new: SchedulerConfig, name: str | None) -> list[_Difference]:
    """Compare all partitions of two configurations, or one by its name; those of the old configuration come first."""
    before, after = ({one.name: one for one in side.partitions} for side in (old, new))
    names = {**before, **after}
    if name is not None and name.lower() not in names:
        existing = ", ".join(map(repr, names)) or "none"
        raise click.BadParameter(f"no such partition in either file (existing: {existing})", param_hint="'--partition'")
    chosen = names if name is None else [name.lower()]
    return [_difference(one, before.get(one), after.get(one)) for one in chosen]


def _difference(name: str, before: PartitionConfig | None, after: PartitionConfig | None) -> _Difference:
    changed = changes(before, after)
    change = "added" if before is None else "removed" if after is None else "changed" if changed else "none"
    # A plan has to be confirmed if it has any.
    risks = list(lowered_limits(CompiledConfig.of(before), CompiledConfig.of(after)))
    warnings = list(map(str, unmapped_queues(after)))
    lines = str(changed).splitlines() if changed else []
    if changed.placement_rules:
        # All of them, because their order matters.
        lines += [f"    {line}" for line in ndiff(_rules(before), _rules(after)) if line[0] != "?"]
    lines += [*(f"risk: {risk}" for risk in risks), *(f"warning: {warning}" for warning in warnings)]
    fields = {**changed.to_dict(), "risks": [risk.to_dict() for risk in risks], "warnings": warnings}
    return _Difference(name, change, fields, lines)


def _rules(config: PartitionConfig | None) -> list[str]:
    return [json.dumps(to_data(rule), ensure_ascii=False) for rule in (config.placement_rules if config else ())]


def _render_differences(found: list[_Difference], title: str) -> None:
    """Print the differences for people."""
    click.secho(f"\n{printable(title)}", bold=True)
    for one in found:
        change = "" if one.change == "changed" else f" ({one.change})"
        click.echo(f"\npartition {printable(one.partition)}{change}")
        for line in one.lines:
            click.secho(printable(line), fg=_COLOURS.get(line[0]))
    click.echo("" if found else "\n  no changes\n")


# The commands

#: Exit statuses of ``diff``: the files differ, or could not be compared.
_DIFFERENT: Final = 1
_ERROR: Final = 2


class _Group(click.Group):
    """Prints an error of a command, and exits with status 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (UgmError, ApiError, OSError) as error:
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
        found = _differences(read_config(old), read_config(new), partition_name)
    except ConfigError as error:
        exit_with_error(error, status=_ERROR)
    differing = [one for one in found if one.change != "none"]
    if as_json:
        listed = [{"partition": one.partition, "change": one.change, **one.fields} for one in found]
        print_json({"old": old, "new": new, "changed": bool(differing), "partitions": listed})
    else:
        _render_differences(differing, f"{old} -> {new}")
    sys.exit(_DIFFERENT if differing else 0)


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
            warnings = (one._replace(message=f"warning: {one.message}") for one in review.warnings)
            for problem in sorted((*review.problems, *warnings)):
                click.echo(problem.for_people())
        warned = sum(len(review.warnings) for review in reviews.values())
        suffix = f" and {counted(warned, 'warning')}" if warned else ""
        click.echo(f"{counted(count, 'problem')}{suffix} in {counted(len(reviews), 'file')}", err=True)
    sys.exit(PROBLEMS if count else 0)


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
