"""Addresses of a service."""

from __future__ import annotations

from typing import Any

import pytest

from ugm import RequestError, connect
from ugm.service.addresses import Address, parse_addresses


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
        ("addresses", None),
        ("addresses", "unix:\ud800"),
    ],
)
def test_unusable_arguments(argument: str, value: Any) -> None:  # noqa: ANN401 - invalid on purpose
    """What no service would accept is refused at once, and a token is not shown."""
    with pytest.raises(RequestError) as caught:
        connect(**{"addresses": "unix:nowhere", argument: value})
    assert caught.value.argument == argument
    assert argument != "token" or caught.value.value == "not shown"
