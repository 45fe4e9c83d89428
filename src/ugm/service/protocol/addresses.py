"""Addresses of a service: a Unix socket, or a host and a port.

>>> Address.parse("unix:/run/ugm.sock")
Address(path='/run/ugm.sock', host='', port=0, is_encrypted=False)
>>> str(Address.parse("tls://quota.example.org:7411"))
'tls://quota.example.org:7411'
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from ugm.arguments import require_seconds
from ugm.errors import RequestError
from ugm.service.errors import UnavailableError

#: The maximum length of the name of a client, in characters.
MAX_CLIENT_NAME: Final = 256
#: The maximum length of a token, in characters. A greeting has 65,536 bytes.
_LARGEST_TOKEN: Final = 4096
_EXPECTED: Final = "expected unix:/path/of/socket, tcp://host:port or tls://host:port"
_EXPECTED_HOST: Final = "expected a host name with labels of 1 to 63 valid characters, or an IP address"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a service.

    Attributes:
        path: the path of a Unix socket; empty for TCP.
        host: the host name or IP address.
        port: the port.
        is_encrypted: whether the connection uses TLS.
    """

    path: str
    host: str = ""
    port: int = 0
    is_encrypted: bool = False

    @classmethod
    def parse(cls, text: str) -> Address:
        """Return the address of a text.

        Raises:
            RequestError: the text is not an address.
        """
        if text.startswith("unix:") and len(text) > len("unix:"):
            return cls(text.removeprefix("unix:").removeprefix("//"))
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise RequestError("address", text, _EXPECTED) from error
        if parts.scheme not in ("tcp", "tls") or not host or port is None or parts.path.strip("/"):
            raise RequestError("address", text, _EXPECTED)
        if not _is_host(host):
            raise RequestError("address", text, _EXPECTED_HOST)
        return cls("", host, port, parts.scheme == "tls")

    @property
    def is_local(self) -> bool:
        """True if only processes of this machine can reach the address."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.is_encrypted else 'tcp'}://{host}:{self.port}"


def _is_host(host: str) -> bool:
    """Return whether the system can look up a host. Otherwise the look-up raises an error that is not an OSError."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return "\0" not in host


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Return the addresses of a list that is separated by commas.

    Raises:
        RequestError: the list is empty or is not a text, or an item is not an address.
    """
    if not _is_text(text):
        raise RequestError("addresses", text, _EXPECTED)
    return tuple(Address.parse(item.strip()) for item in text.split(","))


@dataclass(frozen=True, slots=True)
class LeaderAccess:
    """The arguments with which a client connects to the leader; see `ugm.connect`.

    Raises:
        RequestError: *client* or *token* cannot be sent, *deadline* is not a time, *tls* is no context of a client,
            *read_only* is not a bool, or an address is plain TCP to another machine.
    """

    addresses: str
    client: str
    token: str = field(repr=False)
    tls: ssl.SSLContext | None
    deadline: float
    read_only: bool = False
    #: The addresses of all processes that may lead.
    parsed: tuple[Address, ...] = field(init=False)
    _process: int = field(init=False, default_factory=os.getpid)

    def __post_init__(self) -> None:
        if not _is_text(self.client) or len(self.client) > MAX_CLIENT_NAME:
            reason = f"expected a text of at most {MAX_CLIENT_NAME} characters that UTF-8 can encode"
            raise RequestError("client", self.client, reason)
        if not _is_text(self.token) or len(self.token) > _LARGEST_TOKEN:
            reason = f"expected a text of at most {_LARGEST_TOKEN} characters that UTF-8 can encode"
            raise RequestError("token", "not shown", reason)
        if self.tls is not None and not _is_client_context(self.tls):
            raise RequestError("tls", self.tls, "expected an SSLContext of a client, or None")
        if type(self.read_only) is not bool:
            raise RequestError("read_only", self.read_only, "expected True or False")
        require_seconds("deadline", self.deadline)
        object.__setattr__(self, "parsed", parse_addresses(self.addresses))
        for address in self.parsed:
            if not address.is_encrypted and not address.is_local:
                # A token would be sent in clear text.
                reason = "plain TCP is only for addresses of this machine; use tls://"
                raise RequestError("addresses", str(address), reason)

    def error(self, reason: str, kind: type[UnavailableError] = UnavailableError) -> UnavailableError:
        """Return the error that no leader can be reached."""
        return kind(tuple(map(str, self.parsed)), reason)

    def require_own_process(self) -> None:
        """Check that the connection was opened by this process.

        Raises:
            UnavailableError: this is a forked child.
        """
        if os.getpid() != self._process:
            raise self.error("the connection was opened before this process was forked")


def _is_client_context(value: object) -> bool:
    return isinstance(value, ssl.SSLContext) and value.protocol is not ssl.PROTOCOL_TLS_SERVER


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
