"""The sources of a command: a store, or a running server, whose client is here."""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final, final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

import click

from ugm._json_values import Json
from ugm.errors import UgmError, printable
from ugm.store.reader import URL_SCHEMES

__all__ = ["STORE", "LocationType", "Server", "ServerError", "is_store", "server_url"]

#: A host and a port, with or without a path.
_HOST_AND_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):[0-9]{1,5}(?:/.*)?", re.ASCII)

#: Seconds that a response may take.
_TIMEOUT: Final = 15


class ServerError(UgmError):
    """The server could not be reached, or refused the request."""


def _is_url(text: str) -> bool:
    """Return whether a text is the URL of a server."""
    return text.startswith(("http://", "https://"))


def server_url(text: str) -> str | None:
    """Return the URL of a server, also for ``localhost:8080``; None for other texts, such as the name of a file.

    Raises:
        click.UsageError: the URL is not valid.
    """
    if not _is_url(text):
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
        partition: the name of the partition.
    """

    __slots__ = ("_base", "_partition")

    def __init__(self, url: str, partition: str) -> None:
        self._base: Final = f"{url.rstrip('/')}/api/v1"
        self._partition: Final = quote(partition, safe="")

    def get(self, path: str = "", /, **query: object) -> Json:
        """Send a GET request, and return the parsed response.

        Args:
            path: the path below that of the partition.
            query: the query parameters.

        Raises:
            ServerError: the request failed.
        """
        return self._send(f"{path}?{urlencode(query)}" if query else path, None)

    def post(self, path: str, body: Mapping[str, object]) -> Json:
        """Send a POST request with a JSON body, and return the parsed response.

        Raises:
            ServerError: the request failed.
        """
        return self._send(path, json.dumps(body).encode())

    def _send(self, path: str, content: bytes | None) -> Json:
        url = f"{self._base}/partition/{self._partition}{path}"
        if not _is_url(url):
            raise ServerError(f"{url!r} is not the URL of a server")
        request = Request(url, content, {"Content-Type": "application/json"})  # noqa: S310 - checked above
        try:
            with urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310 - as above
                return json.load(response)
        except HTTPError as error:
            raise ServerError(_error_message(error)) from None
        except (URLError, OSError, HTTPException) as error:
            raise ServerError(f"no response from {self._base}: {getattr(error, 'reason', error)}") from None
        except ValueError:
            raise ServerError(f"the response of {self._base} is not JSON") from None


def _error_message(error: HTTPError) -> str:
    with error:
        try:
            refusal = json.load(error)
            return printable(f"{refusal['detail']} [{refusal['code']}]")
        except (ValueError, LookupError, TypeError):
            return f"the server refused the request with status {error.code}"


def is_store(text: str) -> bool:
    """Return whether a text is the name of an existing file, or a URL of PostgreSQL."""
    return text.startswith(URL_SCHEMES) or os.path.isfile(text)  # noqa: PTH113 - false for names that are too long


@final
class LocationType(click.Path):
    """The path of a file, or a URL of PostgreSQL."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as in the base class
        """Return the text."""
        if isinstance(value, str) and value.startswith(URL_SCHEMES):
            return value
        if isinstance(value, str) and server_url(value) is not None:
            self.fail(f"{value} is a server; this command needs its store, a file or postgresql://...", param, ctx)
        return super().convert(value, param, ctx)


#: The store that a command reads.
STORE: Final = click.argument("store", type=LocationType(exists=True, dir_okay=False))
