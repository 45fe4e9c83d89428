"""Output of the commands: JSON on the standard output, and errors on the standard error with an exit status."""

from __future__ import annotations

import json
import sys
from typing import Final, NoReturn

import click

__all__ = ["PROBLEMS", "exit_with_error", "print_json"]

#: The exit status if a file has problems, or a server does not answer.
PROBLEMS: Final = 1


def exit_with_error(error: object, *, status: int = PROBLEMS) -> NoReturn:
    """Print an error, and end the process."""
    click.echo(str(error), err=True)
    sys.exit(status)


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    click.echo(json.dumps(value, indent=2))
