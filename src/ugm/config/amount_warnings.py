"""Warnings about amounts in the units of Apache YuniKorn before version 1.0.

Those files count memory in units of 10^6 bytes and ``vcore`` in thousandths, without suffixes. Today the same numbers
are bytes and cores, so a limit of memory denies nearly everything, and one of cores nothing.

A mapping is reported if it has at least 1,000 cores and less than 100 kB of memory for each of them, and its numbers
are plausible in the old units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ugm.config.findings import Finding
from ugm.configuration import SchedulerConfig
from ugm.configuration.vectors import resource_vectors
from ugm.resources import MEMORY, VCORE, Resource, format_amount

__all__ = ["old_units"]

#: In thousandths.
_LEAST_CORES: Final = 1_000_000
_LEAST_MEMORY: Final = 100
#: In the old unit, 10 PB.
_LARGEST_MEMORY: Final = 10**10
#: In bytes for each core.
_MOST_MEMORY: Final = 100_000
_OLD_UNIT: Final = 10**6


def old_units(config: SchedulerConfig) -> Iterator[Finding]:
    """Yield a warning for the first amounts that look like those of old files."""
    vectors = resource_vectors(config)
    found = [(path, amounts) for path, amounts in vectors if isinstance(amounts, Resource) and _is_old(amounts)]
    if found:
        path, amounts = found[0]
        yield Finding((*path, MEMORY), "units-old", _message(amounts, len(found)))


def _is_old(amounts: Resource) -> bool:
    vcore, memory = amounts.get(VCORE, 0), amounts.get(MEMORY, 0)
    return vcore >= _LEAST_CORES and _LEAST_MEMORY <= memory <= _LARGEST_MEMORY and memory * 1000 < _MOST_MEMORY * vcore


def _message(amounts: Resource, count: int) -> str:
    vcore, memory = amounts[VCORE] // 1000, amounts[MEMORY]
    places = f" (in {count} places)" if count > 1 else ""
    old_memory, old_vcore = format_amount(MEMORY, memory * _OLD_UNIT), format_amount(VCORE, vcore)
    return (
        f"memory {memory} is {memory:,} bytes and vcore {vcore} is {vcore:,} cores{places}; "
        f"before version 1.0 of Apache YuniKorn, the same numbers meant {old_memory} and {old_vcore} cores"
    )
