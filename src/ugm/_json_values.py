"""The types of values that the module `json` reads and writes.

They are as loose as `json` itself: a precise recursive type would not accept most lists and dicts, because lists of a
narrower type are not lists of a wider one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = ["Json", "JsonMapping", "JsonObject"]

#: None, a bool, a number, a text, a list of such values, or a dict of them with texts as keys.
Json: TypeAlias = Any

#: A dict of such values.
JsonObject: TypeAlias = dict[str, Any]

#: The same, to read only.
JsonMapping: TypeAlias = Mapping[str, Any]
