"""The reports of a standby: it states its position to the leader, and gets the status of the service as the answer.

The reports use a read-only connection, so they are not in the log. They serve monitoring only: if they fail, the
service does not change.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Final, final

from ugm.service.addresses import Address
from ugm.service.errors import ProtocolError
from ugm.service.status import ServiceStatus
from ugm.service.wire import (
    VERSION,
    FrameReader,
    Hello,
    LeaderMessage,
    Moved,
    Refused,
    StandbyReport,
    StatusMessage,
    decode_leader_message,
    frame,
)

__all__ = ["StandbyReporter"]

#: The time between two reports, and the maximum time to wait for an answer, in seconds.
_INTERVAL: Final = 0.5
_PATIENCE: Final = 2.0
_RECEIVE: Final = 1 << 16


@final
class StandbyReporter:
    """Reports to the leader, whichever process it is, and keeps the status of the service.

    Args:
        name: the name of this process.
        token: the secret of the service.
        tls: the context for ``tls`` addresses; None for the certificates of the system.
    """

    __slots__ = ("_name", "_received_at", "_status", "_tls", "_token")

    def __init__(self, name: str, token: str, tls: ssl.SSLContext | None) -> None:
        self._name: Final = name
        self._token: Final = token
        self._tls: Final = tls
        self._status = ServiceStatus(name)
        self._received_at = monotonic()

    @property
    def status(self) -> ServiceStatus:
        """The last status that a leader has stated."""
        return replace(self._status, name=self._name, is_leading=False, age=monotonic() - self._received_at)

    async def run(self, leader: Callable[[], str], report: Callable[[], StandbyReport]) -> None:
        """Report until this task is cancelled.

        Args:
            leader: returns the address of the leader; empty if it is unknown.
            report: returns the position of this process.
        """
        while True:
            with suppress(OSError, ProtocolError, TimeoutError):
                if address := leader():
                    await self._report_to(address, leader, report)
            await asyncio.sleep(_INTERVAL)

    async def _report_to(self, address: str, leader: Callable[[], str], report: Callable[[], StandbyReport]) -> None:
        """Report to one process while it leads.

        Raises:
            OSError: the connection was lost.
            TimeoutError: the leader does not answer.
            ProtocolError: the leader refuses this process.
        """
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await self._dial(Address.parse(address))
        try:
            writer.write(frame(Hello(VERSION, self._name, self._token, "", 0, is_reader=True)))
            frames = FrameReader()
            while leader() == address:
                writer.write(frame(report()))
                async with asyncio.timeout(_PATIENCE):
                    self._status = await _receive_status(reader, frames)
                self._received_at = monotonic()
                await asyncio.sleep(_INTERVAL)
        finally:
            writer.close()

    async def _dial(self, address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if address.path:
            return await asyncio.open_unix_connection(address.path)
        tls = (self._tls or ssl.create_default_context()) if address.is_encrypted else None
        return await asyncio.open_connection(address.host, address.port, ssl=tls)


async def _receive_status(reader: asyncio.StreamReader, frames: FrameReader) -> ServiceStatus:
    """Return the next status; messages of other types before it are ignored."""
    while data := await reader.read(_RECEIVE):
        for message in map(decode_leader_message, frames.feed(data)):
            if type(message) is StatusMessage and message.status.is_leading:
                return message.status
            _require_leader(message)
    raise ConnectionResetError("the leader closed the connection")


def _require_leader(message: LeaderMessage) -> None:
    if type(message) is Moved:
        raise ConnectionResetError(message.reason)
    if type(message) is StatusMessage:
        raise ConnectionResetError("another process leads")
    if type(message) is Refused:
        raise ProtocolError(message.code, message.reason)
