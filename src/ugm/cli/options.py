"""The arguments of the commands: fields of a log, prefixes, quantities, configurations, stores and servers.

Most functions are callbacks of click: they take the text of an option, and return its value. `Server` is a client of a
running server.
"""

from __future__ import annotations

import json
import os.path
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.client import HTTPException
from typing import Annotated, Final, TypeAlias, cast, final, get_args
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

import click

from ugm._documents.loader import MAX_BYTES
from ugm._json_values import Json, JsonMapping
from ugm.config import PartitionConfig, SchedulerConfig, load_config
from ugm.config.text import Review, decode_config, review_bytes, review_file
from ugm.configuration.scheduler import DEFAULT_PARTITION
from ugm.errors import QuantityError, RequestError, UgmError, printable
from ugm.resources import VCORE, Resource, parse_quantity
from ugm.simulation.workload import NameField
from ugm.store.reader import URL_SCHEMES

#: The name that stands for the standard input.
STDIN: Final = "-"
#: Decimal cores, such as 2.5. The syntax of configurations does not allow them.
_DECIMAL_CORES: Final = re.compile(r"([0-9]+)\.([0-9]{1,3})", re.ASCII)
_FIELDS: Final = ", ".join(get_args(NameField))


def read_fields(texts: tuple[str, ...]) -> tuple[NameField, ...]:
    """Parse lists of fields such as ``partition,queue``."""
    return tuple(_field(part.strip()) for text in texts for part in text.split(","))


def read_prefixes(texts: tuple[str, ...]) -> dict[NameField, str]:
    """Parse prefixes such as ``partition=site``, and return them by field."""
    return {_field(field): prefix for field, prefix in _pairs("FIELD=TEXT", texts)}


def read_tags(texts: tuple[str, ...]) -> dict[str, NameField]:
    """Parse tags such as ``team=group``, and return their fields by tag."""
    return {tag: _field(field) for tag, field in _pairs("TAG=FIELD", texts, str.rpartition)}


def read_values(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse texts such as ``namespace=prod``, and return the values by name."""
    return dict(_pairs("NAME=VALUE", texts))


def _read_amounts(texts: tuple[str, ...]) -> Resource:
    amounts: dict[str, int] = {}
    for side, quantity in _pairs("NAME=QUANTITY", (part for text in texts for part in text.split(","))):
        name = side.strip()
        if name in amounts:
            raise click.BadParameter(f"duplicate resource {name!r}")
        amounts[name] = _quantity(quantity.strip(), vcore=name == VCORE)
    return Resource(amounts)


#: Resources such as ``vcore=2.5,memory=4Gi``, in an option that may be repeated; none by default.
Amounts: TypeAlias = Annotated[Resource, "NAME=QUANTITY,...", _read_amounts]


def _pairs(
    form: str, texts: Iterable[str], split: Callable[[str, str], tuple[str, str, str]] = str.partition
) -> Iterator[tuple[str, str]]:
    """Yield the sides of texts of the form ``NAME=VALUE``; the name is not empty."""
    for text in texts:
        name, equals, value = split(text.strip(), "=")
        if not name or not equals:
            raise click.BadParameter(f"expected {form}, found {text.strip()!r}")
        yield name, value


def _field(text: str) -> NameField:
    if text not in get_args(NameField):
        raise click.BadParameter(f"unknown field {text!r} (allowed: {_FIELDS})")
    return cast("NameField", text)


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


def read_partition_config(file: str, name: str | None) -> PartitionConfig:
    """Return a partition of a configuration file, by default the only one; see `read_config`."""
    return chosen_partition(read_config(file), name)


def chosen_partition(config: SchedulerConfig, name: str | None) -> PartitionConfig:
    """Return a partition of a configuration by the value of an option, by default the only one."""
    try:
        return config.partition(name)
    except RequestError as error:
        if name is None:
            raise _unchosen(one.name for one in config.partitions) from None
        raise click.BadParameter(str(error), param_hint="'--partition'") from None


#: A host and a port, with or without a path.
_HOST_AND_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):[0-9]{1,5}(?:/.*)?", re.ASCII)

#: Seconds that a response may take.
_TIMEOUT: Final = 15


class ServerError(UgmError):
    """The server could not be reached, or refused the request."""


def server_url(text: str) -> str | None:
    """Return the URL of a server, also for ``localhost:8080``; None for other texts, such as the name of a file.

    Raises:
        click.UsageError: the URL is not valid.
    """
    if not text.startswith(("http://", "https://")):
        if not _HOST_AND_PORT.fullmatch(text) or os.path.exists(text):  # noqa: PTH110 - false for names that are too long
            return None
        text = f"http://{text}"
    try:
        # The property checks the port.
        _ = urlsplit(text).port
    except ValueError as error:
        raise click.UsageError(f"{text!r} is not the URL of a server: {error}") from None
    return text


@final
class Server:
    """One partition of a running server.

    Args:
        url: the URL of the server, for example ``http://localhost:8080``.
        partition: the name of the partition; None for the only one, or else the one called ``default``.
    """

    def __init__(self, url: str, partition: str | None) -> None:
        self._base: Final = f"{url.rstrip('/')}/api/v1"
        self._partition = partition

    def send(self, path: str, body: Mapping[str, object] | None = None, /, **query: object) -> Json:
        """Send a POST request with a JSON body, or else a GET request, and return the parsed response.

        Args:
            path: the path below that of the partition.
            body: the body.
            query: the query parameters.

        Raises:
            ServerError: the request failed.
        """
        if self._partition is None:
            self._partition = _default_partition(self._send("/health"))
        return self._send(f"/partition/{quote(self._partition, safe='')}{path}?{urlencode(query)}", body)

    def _send(self, path: str, body: Mapping[str, object] | None = None) -> Json:
        content, url = None if body is None else json.dumps(body, default=dict).encode(), f"{self._base}{path}"
        request = Request(url, content, {"Content-Type": "application/json"})  # noqa: S310 - see `server_at`
        try:
            with urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310 - as above
                return json.load(response)
        except HTTPError as error:
            raise ServerError(_error_message(error)) from None
        except (URLError, OSError, HTTPException) as error:
            raise ServerError(f"no response from {self._base}: {getattr(error, 'reason', error)}") from None
        except ValueError:
            raise ServerError(f"the response of {self._base} is not JSON") from None


def _default_partition(health: JsonMapping) -> str:
    """Return the name of the partition that a command uses if none is chosen."""
    names: list[str] = health["partitions"]
    if len(names) == 1:
        return names[0]
    if DEFAULT_PARTITION in names:
        return DEFAULT_PARTITION
    raise _unchosen(names)


def _unchosen(names: Iterable[str]) -> click.UsageError:
    return click.UsageError(printable(f"choose a partition with --partition (defined: {', '.join(map(repr, names))})"))


def _error_message(error: HTTPError) -> str:
    with error:
        try:
            refusal = json.load(error)
            return printable(f"{refusal['detail']} [{refusal['code']}]")
        except (ValueError, LookupError, TypeError):
            return f"the server refused the request with status {error.code}"


def server_at(source: str, partition: str | None) -> Server | None:
    """Return a partition of a server; None if the source is not the address of one."""
    url = server_url(source)
    return None if url is None else Server(url, partition)


def _require_store(_ctx: click.Context, _param: click.Parameter, text: str) -> str:
    if not text.startswith(URL_SCHEMES) and server_url(text) is not None:
        raise click.BadParameter(f"{text} is a server; this command needs its store, a file or postgresql://...")
    return text


#: The store that a command reads: a file, or a URL of PostgreSQL.
STORE: Final = click.argument("store", callback=_require_store)
