"""A certificate for ``localhost``, and services and clients that use it."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from support.service_fixtures import CONFIG
from ugm.service import ConnectedPartition, Security, Service, ServiceSettings, connect

_OPENSSL: Final = shutil.which("openssl")
#: The token of the services.
_TOKEN: Final = "of a test"  # noqa: S105 - not secret


class Certificate:
    """A certificate for ``localhost`` that is its own authority.

    Args:
        folder: the folder for its files.
    """

    def __init__(self, folder: Path) -> None:
        assert _OPENSSL is not None
        self.file: Final = folder / "certificate.pem"
        self.key: Final = folder / "key.pem"
        made = ("req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2")
        names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        files = ("-keyout", str(self.key), "-out", str(self.file))
        subprocess.run((_OPENSSL, *made, *names, *files), check=True, capture_output=True)  # noqa: S603 - of this test

    def of_server(self) -> ssl.SSLContext:
        """Return the context of a service."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self.key)
        return context

    def of_client(self) -> ssl.SSLContext:
        """Return the context of a client that trusts the certificate."""
        return ssl.create_default_context(cafile=self.file)

    @contextmanager
    def running(self, settings: ServiceSettings | None = None) -> Iterator[Service]:
        """Run a service that listens on a ``tls`` address."""
        security = Security(_TOKEN, self.of_server(), self.of_client())
        service = Service(None, "tls://127.0.0.1:0", config=CONFIG, security=security, settings=settings)
        service.start()
        try:
            yield service
        finally:
            service.stop()

    def connected(self, address: str, **options: Any) -> ConnectedPartition:  # noqa: ANN401 - as `connect`
        """Return a client of a service."""
        return connect(address, token=_TOKEN, tls=self.of_client(), **options)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Return a certificate that the tests of this process share."""
    if _OPENSSL is None:
        pytest.skip("no openssl makes a certificate")
    return Certificate(tmp_path_factory.mktemp("certificate"))


def encrypted(service: Service) -> str:
    """Return the address of a service with the name in its certificate."""
    return f"tls://localhost:{service.addresses[0].port}"
