"""``ugm export``: the conversion of a configuration to the format of Apache YuniKorn."""

from __future__ import annotations

import click

from ugm.cli.options import read_config
from ugm.cli.output import print_data, print_json
from ugm.config import Exported, dump_config, export_config
from ugm.errors import printable

__all__ = ["export_command"]


@click.command("export", short_help="Convert a configuration for Apache YuniKorn.")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print the configuration and the omitted settings as JSON.")
def export_command(*, file: str, as_json: bool) -> None:
    """Print the configuration FILE in the format of Apache YuniKorn.

    With - the configuration is read from the standard input. The key "ugm" is omitted, with all settings that depend on
    it. The omitted settings are listed on the standard error and in comments above the configuration. The exit status
    is 0, or 1 if FILE has problems.
    """
    exported = export_config(read_config(file))
    if as_json:
        listed = [part._asdict() for part in exported.left_out]
        print_json({"file": file, "yaml": dump_config(exported.config), "left_out": listed})
        return
    for part in exported.left_out:
        click.echo(printable(f"{file}: {part}"), err=True)
    print_data(_yaml(exported))


def _yaml(exported: Exported) -> str:
    comments = "".join(f"# {printable(str(part))}\n" for part in exported.left_out)
    return comments + dump_config(exported.config)
