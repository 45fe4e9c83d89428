"""Conversions of values to the format of Apache YuniKorn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ugm.resources import Resource

__all__ = ["CLUSTER", "amounts", "nanoseconds", "percentages"]

#: The name of the cluster in responses.
CLUSTER: Final = "ugm"
_NANO: Final = 1_000_000_000


def amounts(resource: Mapping[str, int] | None) -> dict[str, int]:
    """Return amounts in base units; no amounts if there is no limit."""
    return dict(sorted((resource or {}).items()))


def percentages(maximum: Resource | None, usage: Resource) -> dict[str, int]:
    """Return the used percentage of every limited resource, rounded down; 100 if 0 is the limit and it is exceeded."""
    return {
        name: usage.get(name, 0) * 100 // most if most else 100 * (usage.get(name, 0) > 0)
        for name, most in amounts(maximum).items()
    }


def nanoseconds(seconds: float) -> int:
    """Return a time in seconds since 1970 in nanoseconds."""
    return int(seconds * _NANO)
