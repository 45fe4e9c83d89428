"""Instants as the command prints them: ISO 8601 in UTC for programs, the time of a zone for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

__all__ = ["instant", "local", "with_instants"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant(milliseconds: int) -> str:
    """Return an instant in the one format of JSON and CSV.

    >>> instant(1_793_484_000_250)
    '2026-10-31T22:00:00.250Z'
    """
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(milliseconds: int, zone: ZoneInfo) -> str:
    """Return an instant for people.

    >>> local(1_793_484_000_250, ZoneInfo("Europe/Berlin"))
    '2026-10-31 23:00:00.250+01:00'
    """
    moment = (_EPOCH + timedelta(milliseconds=milliseconds)).astimezone(zone)
    return moment.isoformat(sep=" ", timespec="milliseconds")


def with_instants(told: Mapping[str, Any], *names: str, unit: int = 1) -> dict[str, Any]:
    """Return an object for JSON with its instants as texts, and null for an instant of 0, which stands for none.

    Args:
        told: the object.
        names: the fields that are instants, if they are there.
        unit: how many milliseconds one of their units has.
    """
    texts = {name: instant(round(told[name] * unit)) if told[name] else None for name in names if name in told}
    return {**told, **texts}
