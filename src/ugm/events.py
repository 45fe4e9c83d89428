"""Events: what happens in a partition, as values for subscribers.

Pass subscribers to `ugm.Partition` or `ugm.journal.open_partition`.
"""

from ugm.partition import events
from ugm.partition.event_codec import event_name, event_to_dict
from ugm.partition.events import *  # noqa: F403 - all classes of events, listed once

__all__: list[str] = []
__all__ += events.__all__
__all__ += ["event_name", "event_to_dict"]
