"""Times in the output of the commands: ISO 8601 in UTC for programs, and local time for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

__all__ = ["instant", "local", "with_instants"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant(milliseconds: int) -> str:
    """Format a time for JSON and CSV.

    >>> instant(1_793_484_000_250)
    '2026-10-31T22:00:00.250Z'
    """
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(milliseconds: int, zone: ZoneInfo) -> str:
    """Format a time in a time zone.

    >>> local(1_793_484_000_250, ZoneInfo("Europe/Berlin"))
    '2026-10-31 23:00:00.250+01:00'
    """
    moment = (_EPOCH + timedelta(milliseconds=milliseconds)).astimezone(zone)
    return moment.isoformat(sep=" ", timespec="milliseconds")


def with_instants(fields: Mapping[str, Any], *names: str, unit: int = 1) -> dict[str, Any]:
    """Format the times of an object for JSON; a time of 0 stands for none and becomes null.

    Args:
        fields: the object.
        names: the fields that are times; they may be missing.
        unit: the number of milliseconds in a unit of these fields.
    """
    texts = {name: instant(round(fields[name] * unit)) if fields[name] else None for name in names if name in fields}
    return {**fields, **texts}
