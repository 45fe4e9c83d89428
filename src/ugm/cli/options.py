"""How the options of the command are read: fields of a log, prefixes of names, quantities.

Each function is a callback of click: it takes the text that was given, and what it returns is the value of the option.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast, get_args

import click

from ugm.errors import QuantityError
from ugm.resources import Resource, parse_quantity
from ugm.simulation.mapping import NameField

__all__ = ["read_cluster", "read_cores", "read_fields", "read_memory", "read_new_file", "read_prefixes"]

_FIELDS: Final = ", ".join(get_args(NameField))


def read_fields(_ctx: click.Context, _param: click.Parameter, text: str) -> tuple[NameField, ...]:
    """Return the fields of ``partition,queue``."""
    return tuple(_field(part.strip()) for part in text.split(","))


def read_prefixes(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[NameField, str]:
    """Return the fields of several ``partition=site`` and the text that belongs to each."""
    prefixes: dict[NameField, str] = {}
    for text in texts:
        field, equals, prefix = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r} is not FIELD=TEXT")
        prefixes[_field(field)] = prefix
    return prefixes


def _field(text: str) -> NameField:
    if text not in get_args(NameField):
        raise click.BadParameter(f"{text!r} is none of {_FIELDS}")
    return cast("NameField", text)


def read_cluster(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Resource | None:
    """Return the resources of ``vcore=1000,memory=4Ti``; None if nothing is given."""
    if text is None:
        return None
    quantities: dict[str, str] = {}
    for part in text.split(","):
        name, equals, quantity = (side.strip() for side in part.partition("="))
        if not name or not equals:
            raise click.BadParameter(f"{part.strip()!r} is not NAME=QUANTITY")
        if name in quantities:
            raise click.BadParameter(f"{name!r} is given twice")
        quantities[name] = quantity
    try:
        return Resource.parse(quantities)
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None


def read_cores(_ctx: click.Context, _param: click.Parameter, text: str) -> int:
    """Return thousandths of a core."""
    return _quantity(text, vcore=True)


def read_memory(_ctx: click.Context, _param: click.Parameter, text: str) -> int:
    """Return bytes."""
    return _quantity(text, vcore=False)


def _quantity(text: str, *, vcore: bool) -> int:
    try:
        return parse_quantity(text, vcore=vcore)
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None


def read_new_file(_ctx: click.Context, _param: click.Parameter, file: Path | None) -> Path | None:
    """Return a file that is to be written, if its folder is there: better said before a long replay than after it."""
    if file is not None and not file.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(file.parent)!r}")
    return file
