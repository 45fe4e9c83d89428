"""Partitions seen and operated from outside: REST, metrics, a page, and the newest events.

`create_app` needs the extra ``server``, `PartitionCollector` the extra ``metrics``; both are loaded when they are first
used. `History` and `DecisionTimes` need neither.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from ugm.server.history import History, Record
from ugm.server.timing import DecisionTimes

if TYPE_CHECKING:
    from ugm.server.app import create_app
    from ugm.server.metrics import PartitionCollector

__all__ = ["DecisionTimes", "History", "PartitionCollector", "Record", "create_app"]

#: What is loaded on first use, because it needs an extra.
_LATER: Final = {"PartitionCollector": "ugm.server.metrics", "create_app": "ugm.server.app"}


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
