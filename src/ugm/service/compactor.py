"""Regular compaction of the log of a leader.

The problem: a log grows with every change, and so does the time to open it. Only the leader may compact a journal file.

The idea: the leader counts the changes that it decides. When there are enough since its last compaction, another
process computes the checkpoint (`ugm.journal.Journal.compact_in_background`), and changes go on meanwhile. A failed
compaction is logged, and tried again after as many changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ugm.errors import UgmError
from ugm.journal.journal import Journal

__all__ = ["compact_regularly"]

_LOGGER: Final = logging.getLogger(__name__)

#: The time between two checks of the number of changes, in seconds.
_PAUSE: Final = 0.5


async def compact_regularly(journal: Journal, decided: Callable[[], int], live: Callable[[], int], after: int) -> None:
    """Compact a log whenever a number of changes was decided since the last compaction, until the task is cancelled.

    Args:
        journal: the log.
        decided: returns the number of changes that this leader has decided.
        live: returns the number of live allocations. A compaction takes time proportional to it, so it waits until
            there are also twice as many changes.
        after: the number of changes; 0 for no compaction.
    """
    compacted = decided()
    while after:
        await asyncio.sleep(_PAUSE)
        if decided() - compacted >= max(after, 2 * live()):
            compacted = decided()
            try:
                result = await asyncio.wrap_future(await asyncio.to_thread(journal.compact_in_background))
            except Exception as error:
                # Without another attempt the log would grow until the leader ends.
                _LOGGER.warning(
                    "the log was not compacted: %s", error, exc_info=None if isinstance(error, UgmError) else error
                )
            else:
                _LOGGER.info("%d changes of the log were compacted into %d rows", result.changes, result.snapshot_rows)
