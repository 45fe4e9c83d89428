"""Tests of the addresses of a service: reachable, encrypted where other machines can listen, and refused at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.certificates import Certificate
from ugm import RequestError, parse_config
from ugm.service import ProtocolError, Security, Service, ServiceSettings, connect, connect_async

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
