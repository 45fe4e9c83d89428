"""Parsers for the arguments of the commands: fields of a log, prefixes, quantities and configurations.

Most functions are callbacks of click: they take the text of an option, and return its value.
"""

from __future__ import annotations

import os.path
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final, cast, get_args

import click

from ugm._documents.loader import MAX_BYTES
from ugm.config import PartitionConfig, SchedulerConfig, load_config
from ugm.config.text import Review, decode_config, review_bytes, review_file
from ugm.errors import QuantityError, RequestError
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
    "read_partition",
    "read_prefixes",
    "read_review",
    "read_tag_values",
    "read_tags",
]

#: The name that stands for the standard input.
STDIN: Final = "-"
#: Decimal cores, such as 2.5. The syntax of configurations does not allow them.
_DECIMAL_CORES: Final = re.compile(r"([0-9]+)\.([0-9]{1,3})", re.ASCII)
_FIELDS: Final = ", ".join(get_args(NameField))


def read_fields(_ctx: click.Context, _param: click.Parameter, text: str) -> tuple[NameField, ...]:
    """Parse a list of fields such as ``partition,queue``."""
    return tuple(_field(part.strip()) for part in text.split(","))


def read_prefixes(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[NameField, str]:
    """Parse prefixes such as ``partition=site``, and return them by field."""
    prefixes: dict[NameField, str] = {}
    for text in texts:
        field, equals, prefix = text.partition("=")
        if not equals:
            raise click.BadParameter(f"expected FIELD=TEXT, found {text!r}")
        prefixes[_field(field)] = prefix
    return prefixes


def read_tags(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[str, NameField]:
    """Parse tags such as ``team=group``, and return their fields by tag."""
    tags: dict[str, NameField] = {}
    for text in texts:
        tag, equals, field = text.rpartition("=")
        if not tag or not equals:
            raise click.BadParameter(f"expected TAG=FIELD, found {text!r}")
        tags[tag] = _field(field)
    return tags


def _field(text: str) -> NameField:
    if text not in get_args(NameField):
        raise click.BadParameter(f"unknown field {text!r} (allowed: {_FIELDS})")
    return cast("NameField", text)


def read_cluster(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Resource | None:
    """Parse resources such as ``vcore=1000,memory=4Ti``; None without the option."""
    return None if text is None else _amounts([text])


def read_amounts(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> Resource | None:
    """Parse resources from several options such as ``vcore=2.5,memory=4Gi``; None without the option."""
    return _amounts(texts) if texts else None


def _amounts(texts: Iterable[str]) -> Resource:
    amounts: dict[str, int] = {}
    for part in (part for text in texts for part in text.split(",")):
        name, equals, quantity = (side.strip() for side in part.partition("="))
        if not name or not equals:
            raise click.BadParameter(f"expected NAME=QUANTITY, found {part.strip()!r}")
        if name in amounts:
            raise click.BadParameter(f"duplicate resource {name!r}")
        amounts[name] = _quantity(quantity, vcore=name == VCORE)
    return Resource(amounts)


def read_tag_values(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Parse tags such as ``namespace=prod``, and return them by name."""
    tags: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"expected NAME=VALUE, found {text!r}")
        tags[name] = value
    return tags


def read_cores(_ctx: click.Context, _param: click.Parameter, text: str) -> int:
    """Parse a number of cores, and return thousandths of a core."""
    return _quantity(text, vcore=True)


def read_memory(_ctx: click.Context, _param: click.Parameter, text: str) -> int:
    """Parse an amount of memory, and return bytes."""
    return _quantity(text, vcore=False)


def _quantity(text: str, *, vcore: bool) -> int:
    """Parse a quantity as in a configuration; cores may also have decimals, such as ``2.5``."""
    decimal = _DECIMAL_CORES.fullmatch(text) if vcore else None
    try:
        return parse_quantity(f"{decimal[1]}{decimal[2]:0<3}m" if decimal else text, vcore=vcore)
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None


def read_config(file: str) -> SchedulerConfig:
    """Read the configuration in a file, or in the standard input for ``-``.

    Raises:
        ConfigError: as for `ugm.load_config`.
    """
    if file != STDIN:
        return load_config(file)
    return decode_config(sys.stdin.buffer.read(MAX_BYTES + 1), file="<stdin>")


def read_review(file: str) -> Review:
    """Return the problems and warnings of a configuration file, or of the standard input for ``-``."""
    return review_file(file) if file != STDIN else review_bytes(sys.stdin.buffer.read(MAX_BYTES + 1), file="<stdin>")


def read_new_file(_ctx: click.Context, _param: click.Parameter, file: Path | None) -> Path | None:
    """Require that the folder of a new file exists, so that a missing folder is reported before a long replay."""
    if file is not None and not os.path.isdir(file.absolute().parent):  # noqa: PTH112 - false for long names
        raise click.BadParameter(f"the folder {str(file.parent)!r} does not exist")
    return file


def read_partition(file: str, name: str | None) -> PartitionConfig:
    """Return a partition of a configuration file, by default the only one; see `read_config`."""
    config = read_config(file)
    try:
        return config.partition(name)
    except RequestError as error:
        raise click.BadParameter(str(error), param_hint="'--partition'") from None
