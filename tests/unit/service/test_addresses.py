"""Addresses of a service."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from ugm import RequestError, connect
from ugm.service import connect_async
from ugm.service.protocol.addresses import Address, parse_addresses


@pytest.mark.parametrize(
    "text", ["unix:/run/ugm.sock", "tcp://127.0.0.1:7411", "tls://host.example:1", "tcp://[::1]:7"]
)
def test_addresses_survive(text: str) -> None:
    """The text of an address is the text that it was parsed from."""
    assert str(Address.parse(text)) == text


def test_lists() -> None:
    """A list is separated by commas."""
    assert [str(each) for each in parse_addresses("unix:a, tcp://b:1")] == ["unix:a", "tcp://b:1"]


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
    "host", ["a" * 63, "example.org.", "b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example", "a_b"]
)
def test_host_names_that_can_be_looked_up(host: str) -> None:
    """Long labels, a dot at the end and letters of other languages are allowed."""
    assert Address.parse(f"tls://{host}:80").host == host


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("unix:a", True),
        ("tcp://127.0.0.1:1", True),
        ("tcp://[::1]:1", True),
        ("tcp://localhost:1", True),
        ("tcp://0.0.0.0:1", False),
        ("tls://example.org:1", False),
    ],
)
def test_local(text: str, local: bool) -> None:  # noqa: FBT001 - a parameter
    """Only loopback addresses and Unix sockets are local."""
    assert Address.parse(text).is_local is local


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("client", "n" * 257),
        ("client", "\ud800"),
        ("client", 5),
        ("token", None),
        ("token", "\udfff"),
        ("deadline", float("nan")),
        ("deadline", -1),
        ("deadline", "10"),
        ("deadline", True),
        ("deadline", 10**400),
        ("token", "t" * 5000),
        ("tls", 5),
        ("tls", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)),
        ("addresses", None),
        ("addresses", "unix:\ud800"),
        ("read_only", None),
        ("read_only", "x"),
        ("read_only", 1),
    ],
)
def test_unusable_arguments(argument: str, value: Any) -> None:  # noqa: ANN401 - invalid on purpose
    """What no service would accept is refused at once, and a token is not shown."""
    arguments = {"addresses": "unix:nowhere", argument: value}
    for call in (lambda: connect(**arguments), lambda: asyncio.run(_connect_async(**arguments))):
        with pytest.raises(RequestError) as caught:
            call()
        assert caught.value.argument == argument
        assert argument != "token" or caught.value.value == "not shown"


async def _connect_async(**arguments: Any) -> None:  # noqa: ANN401 - invalid on purpose
    await connect_async(**arguments)
