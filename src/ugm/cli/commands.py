"""The command ``ugm``, and its subcommands ``diff``, ``export`` and ``validate``.

Each other subcommand has a module of its own in `ugm.cli`. All subcommands write reports to the standard output, and
progress and errors to the standard error. Their exit statuses are:

- 0 for success, 1 if a file has problems or a self-check fails, and 2 for invalid arguments or if the output cannot be
  written;
- ``diff``, like the Unix tool: 0 without differences, 1 with differences, and 2 for an error;
- ``explain``: also 3 if the request would be denied.
"""

from __future__ import annotations

import sys
from typing import Final

import click
from rich.console import Console

from ugm import ConfigError, Problem, RequestError, UgmError
from ugm.cli.demo import demo_command
from ugm.cli.differences import differences, render_differences
from ugm.cli.explain import explain_command, order_command
from ugm.cli.options import (
    STDIN,
    read_config,
    read_review,
)
from ugm.cli.output import PROBLEMS, counted, exit_with_error, print_data, print_json
from ugm.cli.serve import serve_command
from ugm.cli.simulate import simulate_command
from ugm.cli.store import store_commands
from ugm.cli.usage import budgets_command, usage_command
from ugm.config import Review, dump_config, export_config
from ugm.errors import printable
from ugm.server.http.payloads import ApiError, problem_to_dict

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
@click.argument("old", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("new", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--partition", "partition_name", metavar="NAME", help="Compare only this partition.")
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def diff_command(*, old: str, new: str, partition_name: str | None, as_json: bool) -> None:
    """Print the differences between the queue configurations OLD and NEW: queues, limits and placement rules.

    One of the files may be - for the standard input. The exit status is 0 without differences, 1 with differences, and
    2 if a file has problems or an argument is invalid.
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
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print the problems as JSON.")
def validate_command(*, files: tuple[str, ...], as_json: bool) -> None:
    """Print all problems of the queue configurations FILES with their places.

    The format is FILE:LINE:COLUMN: PATH: MESSAGE [CODE]. The line of the file follows, with a mark under the place.
    A file may also be a ConfigMap of Kubernetes or the values of Helm that contain a configuration. Use - for the
    standard input.
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
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print the configuration and the omitted settings as JSON.")
def export_command(*, file: str, as_json: bool) -> None:
    """Print the configuration FILE in the format of Apache YuniKorn.

    With - the configuration is read from the standard input. The key "ugm" is omitted, with all settings that depend on
    it. The omitted settings are listed on the standard error and in comments above the configuration. The exit status
    is 0, or 1 if FILE has problems.
    """
    exported = export_config(read_config(file))
    yaml = dump_config(exported.config)
    if as_json:
        print_json({"file": file, "yaml": yaml, "left_out": [part._asdict() for part in exported.left_out]})
        return
    for part in exported.left_out:
        click.echo(printable(f"{file}: {part}"), err=True)
    print_data("".join(f"# {printable(str(part))}\n" for part in exported.left_out) + yaml)
