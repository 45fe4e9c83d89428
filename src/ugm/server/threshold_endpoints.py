"""Thresholds of limits: their periodic evaluation, with one line of the log for each crossing, and their endpoint."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ugm.partition import ThresholdCrossed, ThresholdWatch
from ugm.server.background import SAMPLE_SECONDS, PeriodicWork
from ugm.server.cooperative import cooperatively
from ugm.server.state import RequestContext, ServedPartition

__all__ = ["thresholds", "watching"]

_LOGGER: Final = logging.getLogger(__name__)
#: The maximum number of crossings that are logged one by one when a server starts.
_MAX_LINES: Final = 10
#: The default number of crossed thresholds in a response.
_DEFAULT_PAGE: Final = 100


def watching(watches: Mapping[str, ThresholdWatch]) -> Iterator[PeriodicWork]:
    """Return the work that evaluates thresholds, as often as usage is sampled."""
    for name, watch in watches.items():
        yield PeriodicWork(SAMPLE_SECONDS, _logged(name, watch))


def _logged(name: str, watch: ThresholdWatch) -> Callable[[], None]:
    is_first = True

    def update() -> None:
        nonlocal is_first
        found, was_first = watch.update(cooperatively), is_first
        is_first = False
        if was_first and len(found) > _MAX_LINES:
            # The first update reports the state, and not changes.
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(Counter(one.kind for one in found).items()))
            _LOGGER.warning("partition %s: %d thresholds are crossed at the start: %s", name, len(found), kinds)
            return
        for crossing in found:
            _LOGGER.log(logging.WARNING if crossing.rising else logging.INFO, "partition %s: %s", name, crossing)

    return update


def thresholds(served: ServedPartition, request: RequestContext) -> object:
    """List the thresholds that usage is above, those with the largest used part of their limit first."""
    watch, query = served.thresholds, request.query
    text, kind = query.get("search", "").lower(), query.get("kind")
    found = [one for one in watch.crossed if text in one.name.lower() and kind in (None, one.kind)]
    offset = query.get("offset", 0)
    page = sorted(found, key=_rank)[offset : offset + query.get("limit", _DEFAULT_PAGE)]
    return {"shares": list(watch.shares), "total": len(found), "crossed": [one.to_dict() for one in page]}


def _rank(one: ThresholdCrossed) -> tuple[object, ...]:
    return -one.share, one.kind, one.name, one.place, one.resource or "", -one.threshold
