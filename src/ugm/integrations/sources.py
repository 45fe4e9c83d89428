"""The places where an adapter finds its partition: in this process, or in a service."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Awaitable, Callable
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias, cast

from ugm import Partition
from ugm.config import load_config
from ugm.errors import RequestError
from ugm.partition import AbstractPartition

if TYPE_CHECKING:
    from ugm.configuration import PartitionConfig
    from ugm.events import Subscriber
    from ugm.server import History

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

    A configuration is read at once. Its store is opened, and a service is connected, when the host first needs it, so
    commands that only read the configuration of the host work while it runs.

    Args:
        config: the file of the configuration. It is put in force at the start.
        store: the store in which grants and used budgets survive a restart; without it, they are lost.
        service: the addresses of a service, as for `ugm.service.connect`, instead of a configuration.
        token_file: the file with the token of the service.
        partition: the name of the partition in the configuration, if there are several.
        page: the port of the loopback interface where the page and the REST interface are served, read-only; None for
            no page. A service has its own, see `ugm.server`.
        deadline: the maximum time of a call to the service, in seconds; less than the host waits for its hook.

    Raises:
        RequestError: both or neither of a configuration and a service are given, or an option of the other one.
        ConfigError: the configuration is invalid.
    """
    if (config is None) == (service is None):
        raise RequestError("config", config, "expected either a configuration file or a service")
    if service is not None:
        if (store, partition, page) != (None, None, None):
            raise RequestError("service", service, "the service has its own store, partition and page; expected none")
        return _opening(partial(_connected, service, token_file, deadline))
    if token_file is not None:
        raise RequestError("token_file", str(token_file), "expected none without a service")
    loaded = load_config(cast("str | PathLike[str]", config))
    chosen = loaded.partition() if partition is None else loaded.partition(partition)
    return _opening(partial(_opened, chosen, None if store is None else Path(store).absolute(), page))


async def _opened(config: PartitionConfig, store: Path | None, page: int | None) -> AbstractPartition:
    """Open a partition in this process, and serve its page."""
    if page is None:
        return _partition(config, store)
    from ugm.server import History  # noqa: PLC0415 - needs an extra

    history = History()
    opened = _partition(config, store, history)
    _serve(opened, config.name, page, history)
    return opened


def _partition(config: PartitionConfig, store: Path | None, *subscribers: Subscriber) -> AbstractPartition:
    if store is None:
        return Partition(config, subscribers=subscribers)
    from ugm.store import open_partition  # noqa: PLC0415 - only this kind needs it

    opened = open_partition(store, config, subscribers=subscribers)
    atexit.register(opened.close)
    return opened


def _serve(partition: AbstractPartition, name: str, port: int, history: History) -> None:
    """Serve the page of a partition in a thread."""
    import uvicorn  # noqa: PLC0415 - needs an extra

    from ugm.server import create_app  # noqa: PLC0415 - as above
    from ugm.server.serving import listen, uvicorn_config  # noqa: PLC0415 - as above

    listener = listen("127.0.0.1", port)
    app = create_app({name: partition}, history={name: history})
    server = uvicorn.Server(uvicorn_config(app))
    Thread(target=server.run, kwargs={"sockets": [listener]}, name="ugm page", daemon=True).start()


async def _connected(addresses: str, token_file: str | PathLike[str] | None, deadline: float) -> AbstractPartition:
    """Connect to a service."""
    from ugm.service import connect_async  # noqa: PLC0415 - needs an extra

    token = "" if token_file is None else await asyncio.to_thread(Path(token_file).read_text, "utf-8")
    return cast("AbstractPartition", await connect_async(addresses, token=token.strip(), deadline=deadline))


def _opening(open_partition: PartitionSource) -> PartitionSource:
    """Return a function that opens a partition with the first call, and with later ones until it succeeds."""
    lock, opened = asyncio.Lock(), list[AbstractPartition]()

    async def source() -> AbstractPartition:
        async with lock:
            if not opened:
                opened.append(await open_partition())
        return opened[0]

    return source
