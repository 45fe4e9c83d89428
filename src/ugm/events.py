"""Events: what happens in a partition, as values for subscribers.

Pass subscribers to `ugm.Partition` or `ugm.store.open_partition`.
"""

from ugm.partition import events
from ugm.partition.events import *  # noqa: F403 - all classes of events, listed once

__all__: list[str] = []
__all__ += events.__all__
