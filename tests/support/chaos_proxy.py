"""Proxies between clients and the processes that may lead, which delay, stall and cut connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final

__all__ = ["Network", "Proxies"]


class Network:
    """The condition of all connections of one client."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._passes: Final = asyncio.Event()
        self._passes.set()
        self._delay = 0.0
        self._is_cut = False
        self._writers: Final[set[asyncio.StreamWriter]] = set()

    # Called by the loop

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: Path) -> None:
        """Pass the data of a connection on in both directions until one side ends."""
        self._writers.add(writer)
        try:
            if not self._is_cut:
                other_reader, other_writer = await asyncio.open_unix_connection(target)
                self._writers.add(other_writer)
                await asyncio.wait(
                    [
                        asyncio.create_task(self._pass_on(reader, other_writer)),
                        asyncio.create_task(self._pass_on(other_reader, writer)),
                    ],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                self._abort(other_writer)
        except OSError:
            # The process does not run; the client is disconnected.
            pass
        finally:
            self._abort(writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await asyncio.sleep(self._delay)
                await self._passes.wait()
                writer.write(data)
                await writer.drain()

    def _abort(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.transport.abort()

    def _abort_all(self) -> None:
        for writer in tuple(self._writers):
            self._abort(writer)

    # Called by any thread

    def delay(self, seconds: float) -> None:
        """Delay everything that is passed on from now on."""
        self._delay = seconds

    def stall(self) -> None:
        """Pass nothing on."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def resume(self) -> None:
        """Pass everything on again, and accept connections."""
        self._delay, self._is_cut = 0.0, False
        self._loop.call_soon_threadsafe(self._passes.set)

    def cut(self) -> None:
        """End all connections, and accept none."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(self._abort_all)


class Proxies:
    """All proxies, in one thread."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._servers: Final[list[asyncio.Server]] = []

    def open(self, paths: dict[Path, Path]) -> Network:
        """Listen on sockets that lead to other ones, and return the network of the client that uses them."""
        network = Network(self._loop)
        for listen, target in paths.items():
            accept = self._accepting(network, target)
            server = asyncio.run_coroutine_threadsafe(asyncio.start_unix_server(accept, listen), self._loop)
            self._servers.append(server.result())
        return network

    @staticmethod
    def _accepting(
        network: Network, target: Path
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        return lambda reader, writer: network.connect(reader, writer, target)

    def close(self) -> None:
        """End all proxies."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
