"""Lists: the natural order of names (``team2`` before ``team10``), searches and pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest
from typing import Final

__all__ = ["contains", "first_page", "natural_key"]

_DIGITS: Final = re.compile("([0-9]+)")


def natural_key(name: str) -> tuple[tuple[str, int, str], ...]:
    """Return a sort key that puts ``team2`` before ``team10``."""
    parts = _DIGITS.split(name.casefold())
    # Text and digits alternate. Numbers stay texts, because they may have any length; longer ones are larger.
    numbers = [part.lstrip("0") for part in parts[1::2]]
    return tuple((text, len(number), number) for text, number in zip_longest(parts[::2], numbers, fillvalue=""))


def contains(text: str, names: Iterable[str | None]) -> bool:
    """Return whether one of several names contains a text, in any case."""
    return not text or any(text.lower() in name.lower() for name in names if name is not None)


def first_page(names: Iterator[str], size: int) -> tuple[list[str], str | None]:
    """Return the names of a page, and the last of them if more names follow."""
    page = list(islice(names, size))
    return page, page[-1] if next(names, None) is not None else None
