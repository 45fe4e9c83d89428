"""REST interface, web page, metrics and event history of partitions.

`create_app` needs the extra ``server``, `PartitionCollector` the extra ``metrics``; both are imported on first use.
`History` needs no extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ugm._lazy import on_first_use
from ugm.server.history import History, Record

if TYPE_CHECKING:
    from ugm.server.app import create_app
    from ugm.server.metrics.collector import PartitionCollector

__all__ = ["History", "PartitionCollector", "Record", "create_app"]

# Names that are imported on first use, because they need an extra.
__getattr__, __dir__ = on_first_use(
    __name__, {"ugm.server.app": "create_app", "ugm.server.metrics.collector": "PartitionCollector"}
)
