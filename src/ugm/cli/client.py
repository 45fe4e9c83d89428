"""Questions to a running server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from ugm.errors import UgmError, printable

__all__ = ["Server", "ServerError", "is_url", "server_url"]

#: A host and a port, with or without a path.
_HOST_AND_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):[0-9]{1,5}(?:/.*)?", re.ASCII)

#: Seconds that an answer may take.
_PATIENCE: Final = 15


class ServerError(UgmError):
    """A server did not answer, or refused."""


def is_url(text: str) -> bool:
    """Return whether a text is the address of a server."""
    return text.startswith(("http://", "https://"))


def server_url(text: str) -> str | None:
    """Return the address of a server, also for ``localhost:8080``; None for anything else, such as a file."""
    if is_url(text):
        return text
    return f"http://{text}" if _HOST_AND_PORT.fullmatch(text) and not Path(text).exists() else None


@final
class Server:
    """A running server.

    Args:
        url: its address, for example ``http://localhost:8080``.
        partition: the partition that is asked about.
    """

    __slots__ = ("_base", "_partition")

    def __init__(self, url: str, partition: str) -> None:
        self._base: Final = f"{url.rstrip('/')}/ws/v1"
        self._partition: Final = quote(partition, safe="")

    def ask(self, path: str = "", /, **query: object) -> Any:  # noqa: ANN401 - JSON
        """Return what is told of the partition.

        Args:
            path: what follows the partition in the path.
            query: what is asked for besides.

        Raises:
            ServerError: there is no answer.
        """
        return self._send(f"{path}?{urlencode(query)}" if query else path, None)

    def post(self, path: str, body: Mapping[str, object]) -> Any:  # noqa: ANN401 - JSON
        """Return the answer to a question that comes with a body.

        Raises:
            ServerError: there is no answer.
        """
        return self._send(path, json.dumps(body).encode())

    def _send(self, path: str, content: bytes | None) -> Any:  # noqa: ANN401 - JSON
        url = f"{self._base}/partition/{self._partition}{path}"
        if not is_url(url):
            raise ServerError(f"{url!r} is no address of a server")
        request = Request(url, content, {"Content-Type": "application/json"})  # noqa: S310 - looked at above
        try:
            with urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310 - as above
                return json.load(answer)
        except HTTPError as error:
            raise ServerError(_refusal(error)) from None
        except (URLError, OSError, HTTPException) as error:
            raise ServerError(f"no answer from {self._base}: {getattr(error, 'reason', error)}") from None
        except ValueError:
            raise ServerError(f"{self._base} answers something else than JSON") from None


def _refusal(error: HTTPError) -> str:
    with error:
        try:
            told = json.load(error)
            return printable(f"{told['message']} [{told['code']}]")
        except (ValueError, LookupError, TypeError):
            return f"the server refuses with status {error.code}"
