"""The command ``ugm export``: a configuration as a file that Apache YuniKorn accepts."""

from __future__ import annotations

import json
import sys

import click

from ugm import ConfigError, load_config
from ugm.config import Exported, dump_config, export_config
from ugm.errors import printable

__all__ = ["export_command"]

#: The file has problems.
_PROBLEMS = 1


@click.command("export", short_help="Write a configuration for Apache YuniKorn.")
@click.argument("file", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the configuration and what was left out as JSON.")
def export_command(*, file: str, as_json: bool) -> None:
    """Write the configuration FILE as Apache YuniKorn accepts it.

    The key "ugm" is left out, with everything that needs it. What was left out is listed on the standard error and in
    comments above the configuration. The exit status is 0, or 1 if FILE has problems.
    """
    try:
        exported = export_config(load_config(file))
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(_PROBLEMS)
    if as_json:
        listed = [part._asdict() for part in exported.left_out]
        click.echo(json.dumps({"file": file, "yaml": dump_config(exported.config), "left_out": listed}, indent=2))
        return
    for part in exported.left_out:
        click.echo(printable(f"{file}: left out: {part}"), err=True)
    click.echo(_yaml(exported), nl=False)


def _yaml(exported: Exported) -> str:
    comments = "".join(f"# left out: {printable(str(part))}\n" for part in exported.left_out)
    return comments + dump_config(exported.config)
