"""How the arguments of the command are read: fields of a log, prefixes of names, quantities, configurations, servers.

Most functions are callbacks of click: they take the text that was given, and return the value of the option.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final, cast, get_args

import click

from ugm.config import SchedulerConfig, load_config
from ugm.config.loader import MAX_BYTES
from ugm.config.text import Review, decode_config, review_bytes, review_file
from ugm.errors import QuantityError
from ugm.resources import VCORE, Resource, parse_quantity
from ugm.simulation.mapping import NameField

__all__ = [
    "STDIN",
    "read_amounts",
    "read_cluster",
    "read_config",
    "read_cores",
    "read_fields",
    "read_memory",
    "read_new_file",
    "read_prefixes",
]

#: In the place of a file: the standard input.
STDIN: Final = "-"
#: Cores as people write them.
_DECIMAL_CORES: Final = re.compile(r"([0-9]+)\.([0-9]{1,3})", re.ASCII)
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
    return None if text is None else _amounts([text])


def read_amounts(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> Resource | None:
    """Return the resources of several ``vcore=2.5,memory=4Gi``; None if nothing is given."""
    return _amounts(texts) if texts else None


def _amounts(texts: Iterable[str]) -> Resource:
    amounts: dict[str, int] = {}
    for part in (part for text in texts for part in text.split(",")):
        name, equals, quantity = (side.strip() for side in part.partition("="))
        if not name or not equals:
            raise click.BadParameter(f"{part.strip()!r} is not NAME=QUANTITY")
        if name in amounts:
            raise click.BadParameter(f"{name!r} is given twice")
        amounts[name] = _quantity(quantity, vcore=name == VCORE)
    return Resource(amounts)


def read_cores(_ctx: click.Context, _param: click.Parameter, text: str) -> int:
    """Return thousandths of a core."""
    return _quantity(text, vcore=True)


def read_memory(_ctx: click.Context, _param: click.Parameter, text: str) -> int:
    """Return bytes."""
    return _quantity(text, vcore=False)


def _quantity(text: str, *, vcore: bool) -> int:
    """Return the amount of a quantity of a configuration; of cores also that of ``2.5``, as the page takes them."""
    decimal = _DECIMAL_CORES.fullmatch(text) if vcore else None
    try:
        return parse_quantity(f"{decimal[1]}{decimal[2]:0<3}m" if decimal else text, vcore=vcore)
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None


def read_config(file: str) -> SchedulerConfig:
    """Return the configuration of a file, or of the standard input for ``-``.

    Raises:
        ConfigError: as for `ugm.load_config`.
    """
    if file != STDIN:
        return load_config(file)
    return decode_config(sys.stdin.buffer.read(MAX_BYTES + 1), file="<stdin>")


def read_review(file: str) -> Review:
    """Return what is to be said about a configuration file, or about the standard input for ``-``."""
    return review_file(file) if file != STDIN else review_bytes(sys.stdin.buffer.read(MAX_BYTES + 1), file="<stdin>")


def read_new_file(_ctx: click.Context, _param: click.Parameter, file: Path | None) -> Path | None:
    """Return a file that is to be written, if its folder is there: better said before a long replay than after it."""
    if file is not None and not file.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(file.parent)!r}")
    return file
