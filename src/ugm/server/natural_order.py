"""The natural order of names: ``team2`` before ``team10``."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Final

__all__ = ["natural_key"]

_DIGITS: Final = re.compile("([0-9]+)")


def natural_key(name: str) -> tuple[tuple[str, int, str], ...]:
    """Return a sort key that puts ``team2`` before ``team10``."""
    parts = _DIGITS.split(name.casefold())
    # Text and digits alternate. Numbers stay texts, because they may have any length; longer ones are larger.
    numbers = [part.lstrip("0") for part in parts[1::2]]
    return tuple((text, len(number), number) for text, number in zip_longest(parts[::2], numbers, fillvalue=""))
