"""Addresses of a service: a Unix socket, or a host and a port.

>>> Address.parse("unix:/run/ugm.sock")
Address(path='/run/ugm.sock', host='', port=0, is_encrypted=False)
>>> str(Address.parse("tls://quota.example.org:7411"))
'tls://quota.example.org:7411'
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import cycle
from time import monotonic
from typing import Final, final
from urllib.parse import urlsplit

from ugm.arguments import require_seconds
from ugm.errors import RequestError

__all__ = ["MAX_CLIENT_NAME", "Address", "AddressChoice", "LeaderAccess", "parse_addresses"]

#: The maximum length of the name of a client, in characters.
MAX_CLIENT_NAME: Final = 256
#: The maximum length of a token, in characters. A greeting has 65,536 bytes.
_LARGEST_TOKEN: Final = 4096
#: The time for which an address that did not answer is avoided, in seconds.
_AVOIDED: Final = 2.0
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
        RequestError: *client* or *token* cannot be sent, *deadline* is not a time, *tls* is no context of a client, or
            an address is plain TCP to another machine.
    """

    addresses: str
    client: str
    token: str = field(repr=False)
    tls: ssl.SSLContext | None
    deadline: float

    def __post_init__(self) -> None:
        if not _is_text(self.client) or len(self.client) > MAX_CLIENT_NAME:
            reason = f"expected a text of at most {MAX_CLIENT_NAME} characters that UTF-8 can encode"
            raise RequestError("client", self.client, reason)
        if not _is_text(self.token) or len(self.token) > _LARGEST_TOKEN:
            reason = f"expected a text of at most {_LARGEST_TOKEN} characters that UTF-8 can encode"
            raise RequestError("token", "not shown", reason)
        if self.tls is not None and not _is_client_context(self.tls):
            raise RequestError("tls", self.tls, "expected an SSLContext of a client, or None")
        require_seconds("deadline", self.deadline)
        for address in parse_addresses(self.addresses):
            if not address.is_encrypted and not address.is_local:
                # A token would be sent in clear text.
                reason = "plain TCP is only for addresses of this machine; use tls://"
                raise RequestError("addresses", str(address), reason)


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


@final
class AddressChoice:
    """Chooses the address of the next attempt to connect.

    The addresses take turns. The one that another process names as the leader comes first. An address that accepts
    connections but does not answer, as that of a stopped process, is avoided for a while.

    Args:
        addresses: the addresses of all processes that may lead.
    """

    __slots__ = ("_addresses", "_avoided", "_is_suggested", "_suggested", "_turn")

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        self._addresses: Final = addresses
        self._turn: Final = cycle(addresses)
        self._avoided: Final[dict[Address, float]] = {}
        self._suggested: Address | None = None
        #: Whether the last choice was one that another process had named.
        self._is_suggested = False

    def __str__(self) -> str:
        return ", ".join(map(str, self._addresses))

    @property
    def names(self) -> tuple[str, ...]:
        """The addresses as texts."""
        return tuple(map(str, self._addresses))

    @property
    def has_suggestion(self) -> bool:
        """True if another process has just named the next address, so that it can be tried without a pause."""
        # Two processes that stand by may each take the other for the leader.
        return self._suggested is not None and not self._is_suggested

    def suggest(self, address: str) -> None:
        """Try an address next, unless it is empty or avoided."""
        if address:
            suggested = Address.parse(address)
            self._suggested = None if self._is_avoided(suggested) else suggested

    def avoid(self, address: Address) -> None:
        """Avoid an address that does not answer."""
        self._avoided[address] = monotonic() + _AVOIDED

    def next(self) -> Address:
        """Return the address to try now."""
        suggested, self._suggested = self._suggested, None
        self._is_suggested = suggested is not None
        if suggested is not None:
            return suggested
        for _ in self._addresses:
            address = next(self._turn)
            if not self._is_avoided(address):
                return address
        return next(self._turn)

    def _is_avoided(self, address: Address) -> bool:
        return self._avoided.get(address, 0.0) > monotonic()
