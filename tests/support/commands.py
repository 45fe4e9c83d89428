"""The command as a user runs it."""

from __future__ import annotations

from click.testing import CliRunner, Result

from ugm.cli.commands import ugm


def run(*arguments: object, columns: int = 160, text: str | bytes | None = None) -> Result:
    """Run the command in a terminal of some width, with a text as its standard input."""
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(ugm, list(map(str, arguments)), input=text)
