"""The rules of schedules: days, hours, dates, time zones, and the maxima that an entry sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ugm._documents.places import Path
from ugm.config.findings import Finding, LocatedQueue
from ugm.configuration import ScheduledLimit
from ugm.errors import RequestError, quote

__all__ = ["SCHEDULE_RULES"]

#: The keys of attributes that are called differently in a file.
_KEYS: Final = {"start": "from"}


def schedule_entries_have_times(located: LocatedQueue) -> Iterator[Finding]:
    """Every entry of a schedule has valid days, hours, dates and a known time zone, and ends after its beginning."""
    for path, entry in _entries(located):
        # Imported late: most configurations have no schedules.
        from ugm._schedule_entries import parse_entry  # noqa: PLC0415 - as above

        try:
            parse_entry(entry)
        except RequestError as error:
            key = _KEYS.get(error.argument, error.argument)
            sources = tuple((*path, name) for name in ("from", "until")) if key == "until" else ()
            yield Finding((*path, key), "schedule-time-invalid", f"{quote(str(error.value))}: {error.reason}", sources)


def schedule_entries_set_something(located: LocatedQueue) -> Iterator[Finding]:
    """Every entry of a schedule sets a maximum of resources or of applications."""
    for path, entry in _entries(located):
        if not entry.max_resources and not entry.max_applications:
            sources = ((*path, "maxresources"), (*path, "maxapplications"))
            message = "the entry sets no maximum (required: maxresources or maxapplications)"
            yield Finding(path, "schedule-sets-nothing", message, sources)
        elif entry.max_resources and not any(entry.max_resources.values()):
            message = "every resource of the entry is 0 (allowed: at least one above 0)"
            yield Finding((*path, "maxresources"), "schedule-resources-zero", message)


def _entries(located: LocatedQueue) -> Iterator[tuple[Path, ScheduledLimit]]:
    """Yield the entries of all schedules of a queue with their paths."""
    places = [((*located.path, "ugm"), located.queue.ugm)]
    places += [((*located.limits_path, index, "ugm"), limit.ugm) for index, limit in enumerate(located.queue.limits)]
    for path, extensions in places:
        for index, entry in enumerate(extensions.schedule):
            yield (*path, "schedule", index), entry


SCHEDULE_RULES: Final[tuple[Callable[[LocatedQueue], Iterator[Finding]], ...]] = (
    schedule_entries_have_times,
    schedule_entries_set_something,
)
