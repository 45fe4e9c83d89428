"""The places where an adapter finds its partition: in this process, or in a service."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Awaitable, Callable
from os import PathLike
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from ugm import Partition
from ugm.config import load_config
from ugm.errors import RequestError
from ugm.partition import AbstractPartition

if TYPE_CHECKING:
    from ugm.events import Subscriber
    from ugm.server import History
    from ugm.service import AsyncConnectedPartition

__all__ = ["PartitionSource", "quota_source"]

#: Returns the partition. The operations of one of a service return awaitables, see `ugm.integrations.Grants.run`.
PartitionSource: TypeAlias = Callable[[], Awaitable[AbstractPartition]]


def quota_source(
    config: str | PathLike[str] | None = None,
    *,
    store: str | PathLike[str] | None = None,
    service: str | None = None,
    token_file: str | PathLike[str] | None = None,
    partition: str | None = None,
    page: int | None = None,
    deadline: float = 5.0,
) -> PartitionSource:
    """Return the place of the quotas of a host: a configuration in this process, or a service that hosts share.

    A configuration is read, and its store is opened, at once. A service is connected by the first call, and again by
    later calls until it answers.

    Args:
        config: the file of the configuration. It is put in force at the start.
        store: the journal in which grants and used budgets survive a restart; without it, they are lost.
        service: the addresses of a service, as for `ugm.service.connect`, instead of a configuration.
        token_file: the file with the token of the service.
        partition: the name of the partition in the configuration, if there are several.
        page: the port of the loopback interface where the page and the REST interface are served, read-only; None for
            no page. A service has its own, see `ugm.server`.
        deadline: the maximum time of a call to the service, in seconds; less than the host waits for its hook.

    Raises:
        RequestError: both or neither of a configuration and a service are given, or an option of the other one.
        ConfigError: the configuration is invalid.
        JournalError: the store cannot be opened.
        OSError: the port of the page is in use.
    """
    if (config is None) == (service is None):
        raise RequestError("config", config, "expected either a configuration file or a service")
    if service is not None:
        if (store, partition, page) != (None, None, None):
            raise RequestError("service", service, "the service has its own store, partition and page; expected none")
        return _ServiceSource(service, token_file, deadline)
    if token_file is not None:
        raise RequestError("token_file", str(token_file), "expected none without a service")
    subscribers: list[Subscriber] = []
    if page is not None:
        from ugm.server import History  # noqa: PLC0415 - needs an extra

        subscribers.append(History())
    opened = _opened(cast("str | PathLike[str]", config), store, partition, subscribers)
    if page is not None:
        _serve(opened, page, cast("History", subscribers[0]))

    async def source() -> AbstractPartition:
        return opened

    return source


def _opened(
    config: str | PathLike[str], store: str | PathLike[str] | None, name: str | None, subscribers: list[Subscriber]
) -> AbstractPartition:
    loaded = load_config(config)
    chosen = loaded.partition() if name is None else loaded.partition(name)
    if store is None:
        return Partition(chosen, subscribers=subscribers)
    from ugm.journal import open_partition  # noqa: PLC0415 - only this kind needs it

    opened = open_partition(Path(store), chosen, durability="group", subscribers=subscribers)
    atexit.register(opened.close)
    return opened


def _serve(partition: AbstractPartition, port: int, history: History) -> None:
    """Serve the page of a partition in a thread."""
    import uvicorn  # noqa: PLC0415 - needs an extra

    from ugm.server import create_app  # noqa: PLC0415 - as above
    from ugm.server.serving import listen, uvicorn_config  # noqa: PLC0415 - as above

    listener = listen("127.0.0.1", port)
    name = partition.config.name if partition.config else "default"
    app = create_app({name: partition}, history={name: history})
    server = uvicorn.Server(uvicorn_config(app))
    Thread(target=server.run, kwargs={"sockets": [listener]}, name="ugm page", daemon=True).start()


class _ServiceSource:
    """Connects to a service once."""

    __slots__ = ("_addresses", "_deadline", "_lock", "_partition", "_token_file")

    def __init__(self, addresses: str, token_file: str | PathLike[str] | None, deadline: float) -> None:
        self._addresses: Final = addresses
        self._token_file: Final = token_file
        self._deadline: Final = deadline
        self._lock: Final = asyncio.Lock()
        self._partition: AsyncConnectedPartition | None = None

    async def __call__(self) -> AbstractPartition:
        async with self._lock:
            if self._partition is None:
                self._partition = await self._connected()
        return cast("AbstractPartition", self._partition)

    async def _connected(self) -> AsyncConnectedPartition:
        from ugm.service import connect_async  # noqa: PLC0415 - needs an extra

        token = "" if self._token_file is None else await asyncio.to_thread(Path(self._token_file).read_text, "utf-8")
        return await connect_async(self._addresses, token=token.strip(), deadline=self._deadline)
