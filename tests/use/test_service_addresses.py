"""Tests of the addresses of a service: reachable, encrypted where other machines can listen, and refused at once."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.certificates import Certificate
from ugm import RequestError, parse_config
from ugm.service import ProtocolError, Security, Service, ServiceSettings, connect, connect_async
from ugm.service.protocol.addresses import Address, parse_addresses

CONFIG = parse_config("partitions: [{queues: [{name: q}]}]").partition()
TOKEN = "of a test"  # noqa: S105 - not secret


async def _open_async(addresses: str, **options: Any) -> None:  # noqa: ANN401 - as `connect_async`
    async with await connect_async(addresses, **options) as partition:
        await partition.queue_paths()


def _open(addresses: str, **options: Any) -> None:  # noqa: ANN401 - as `connect`
    with connect(addresses, **options) as partition:
        partition.queue_paths()


def _asynchronously(addresses: str, **options: Any) -> None:  # noqa: ANN401 - as `connect_async`
    asyncio.run(_open_async(addresses, **options))


@pytest.mark.parametrize("opened", [_open, _asynchronously])
@pytest.mark.parametrize("addresses", ["tcp://quota.example:7411", "tcp://10.0.0.1:7411", "unix:/s, tcp://host:1"])
def test_plain_tcp_to_other_machines(opened: Callable[..., None], addresses: str) -> None:
    """A client refuses to send a token in clear text to another machine."""
    with pytest.raises(RequestError, match="plain TCP is only for addresses of this machine; use tls://"):
        opened(addresses, token=TOKEN, deadline=5)


@pytest.mark.parametrize("opened", [_open, _asynchronously])
def test_an_untrusted_certificate(opened: Callable[..., None], tmp_path: Path) -> None:
    """A client that does not trust the certificate fails at once, with the reason."""
    with Certificate(tmp_path).running() as service:
        began = time.monotonic()
        with pytest.raises(ProtocolError, match=r"no encrypted connection to tls://.*certificate") as caught:
            opened(str(service.addresses[0]), token=TOKEN, deadline=30)
        assert time.monotonic() - began < 5
        assert caught.value.problem == "tls"


def secured(folder: Path, listen: str, announce: str = "") -> Service:
    """Return a service for other machines."""
    certificate = Certificate(folder)
    security = Security(TOKEN, certificate.of_server(), certificate.of_client())
    settings = ServiceSettings(announce=announce)
    return Service(folder / "store", listen, config=CONFIG, security=security, settings=settings)


@pytest.mark.parametrize("listen", ["tls://0.0.0.0:0", "tls://[::]:0"])
def test_all_addresses_without_an_announced_one(tmp_path: Path, listen: str) -> None:
    """A service that listens on all addresses of a machine needs an address to announce."""
    with pytest.raises(RequestError, match="clients cannot connect to it; announce the name of this host"):
        secured(tmp_path, listen)
    with pytest.raises(RequestError, match="announce"):
        ServiceSettings(announce=listen)


def test_the_announced_address(tmp_path: Path) -> None:
    """Clients and other processes are sent to the announced address."""
    service = secured(tmp_path, "tls://127.0.0.1:0", "tls://localhost:7411")
    service.start()
    try:
        assert service.status().address == "tls://localhost:7411"
        assert str(service.announced) == "tls://localhost:7411"
    finally:
        service.stop()


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
        for call in (partial(connect, **arguments), partial(_asynchronously, **arguments)):
            with pytest.raises(RequestError) as caught:
                call()
            assert caught.value.argument == argument
            assert argument != "token" or caught.value.value == "not shown"
