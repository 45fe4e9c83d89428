"""REST interface, web page, metrics and event history of partitions.

`create_app` needs the extra ``server``, `PartitionCollector` the extra ``metrics``; both are imported on first use.
`History` needs no extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from ugm.server.history import History, Record

if TYPE_CHECKING:
    from ugm.server.app import create_app
    from ugm.server.metrics.collector import PartitionCollector

__all__ = ["History", "PartitionCollector", "Record", "create_app"]

#: Names that are imported on first use, because they need an extra.
_LAZY: Final = {"PartitionCollector": "ugm.server.metrics.collector", "create_app": "ugm.server.app"}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
