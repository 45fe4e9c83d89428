"""The periodic work of a server while it runs: watching the configuration file, and sampling usage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from ugm import UgmError
from ugm.journal import JournalError
from ugm.journal.locations import LogLocation
from ugm.server.configurations import Configurations
from ugm.server.series import TIERS
from ugm.server.usage_history import UsageHistory

__all__ = ["SAMPLE_SECONDS", "PeriodicWork", "running", "sampling"]

_LOGGER: Final = logging.getLogger(__name__)

#: Seconds between two attempts to take a sample: less than the distance of samples, so that none is missed.
SAMPLE_SECONDS: Final = TIERS[0].step / 3


class PeriodicWork(NamedTuple):
    """A function that is called in a thread again and again."""

    #: Seconds between two calls.
    interval: float
    function: Callable[[], object]
    #: Called once, before the first call; None for nothing.
    prepare: Callable[[], object] | None = None


def sampling(
    histories: Mapping[str, UsageHistory], journals: Mapping[str, LogLocation], configurations: Configurations
) -> Iterable[PeriodicWork]:
    """Return the work that samples the usage of partitions, beginning with the contents of their journals."""
    for name, history in histories.items():
        prepare = _loading(name, history, journals[name], configurations) if name in journals else None
        yield PeriodicWork(SAMPLE_SECONDS, history.take, prepare)


def _loading(
    name: str, history: UsageHistory, location: LogLocation, configurations: Configurations
) -> Callable[[], None]:
    def load() -> None:
        try:
            configurations.add_earlier(name, history.load(location))
        except JournalError as error:
            _LOGGER.warning("the usage history begins now, because the journal cannot be read: %s", error)

    return load


@asynccontextmanager
async def running(work: Iterable[PeriodicWork]) -> AsyncIterator[None]:
    """Do periodic work during the block."""
    tasks = [asyncio.create_task(_repeat(one)) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def _repeat(work: PeriodicWork) -> None:
    if work.prepare is not None:
        await asyncio.to_thread(work.prepare)
    has_failed = False
    while True:
        try:
            await asyncio.to_thread(work.function)
            has_failed = False
        except Exception as error:
            # For example, the leader of a service cannot be reached. Only the first of several failures is logged.
            if not has_failed:
                _LOGGER.warning("periodic work failed: %s", error, exc_info=not isinstance(error, UgmError))
            has_failed = True
        await asyncio.sleep(work.interval)
