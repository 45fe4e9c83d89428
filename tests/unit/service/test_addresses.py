"""Addresses of a service."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from typing import Any

import pytest

from ugm import RequestError, connect
from ugm.service import connect_async
from ugm.service.protocol.addresses import Address, parse_addresses


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("unix:/run/ugm.sock", True),
        ("tcp://127.0.0.1:7411", True),
        ("tcp://[::1]:7", True),
        ("tcp://localhost:1", True),
        ("tcp://0.0.0.0:1", False),
        ("tls://host.example:1", False),
        (f"tls://{'a' * 63}:80", False),
        ("tls://b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example.:80", False),
        ("tls://a_b:80", False),
    ],
)
def test_addresses(text: str, local: bool) -> None:  # noqa: FBT001 - a parameter
    """The text of an address is the text that it was parsed from; loopback addresses and Unix sockets are local."""
    [one, other] = parse_addresses(f"{text}, unix:b")
    assert (str(one), str(other)) == (text, "unix:b")
    assert one.is_local is local


@pytest.mark.parametrize(
    "text", ["", "unix:", "host:1", "tcp://host", "tcp://:1", "tcp://h:99999", "tcp://h:1/x", "http://h:1"]
)
def test_other_texts(text: str) -> None:
    """Anything else is refused with the allowed forms."""
    with pytest.raises(RequestError, match="expected unix:"):
        Address.parse(text)


@pytest.mark.parametrize(
    "host", ["a..b", ".", ".a", "a" * 64, f"a.{'b' * 70}.example", "a\N{LEFT-TO-RIGHT MARK}b", "a\0b"]
)
def test_host_names_that_cannot_be_looked_up(host: str) -> None:
    """A host whose labels are empty, too long or contain invalid characters is refused with its address."""
    with pytest.raises(RequestError, match="expected a host name with labels of 1 to 63 valid characters") as caught:
        Address.parse(f"tcp://{host}:80")
    assert caught.value.value == f"tcp://{host}:80"


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("client", ["n" * 257, "\ud800", 5]),
        ("token", [None, "\udfff", "t" * 5000]),
        ("deadline", [float("nan"), -1, "10", True, 10**400]),
        ("tls", [5, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)]),
        ("addresses", [None, "unix:\ud800"]),
        ("read_only", [None, "x", 1]),
    ],
)
def test_unusable_arguments(argument: str, values: list[Any]) -> None:
    """What no service would accept is refused at once, and a token is not shown."""
    for value in values:
        arguments = {"addresses": "unix:nowhere", argument: value}
        for call in (partial(connect, **arguments), lambda: asyncio.run(_connect_async(**arguments))):  # noqa: B023 - called here
            with pytest.raises(RequestError) as caught:
                call()
            assert caught.value.argument == argument
            assert argument != "token" or caught.value.value == "not shown"


async def _connect_async(**arguments: Any) -> None:  # noqa: ANN401 - invalid on purpose
    await connect_async(**arguments)
