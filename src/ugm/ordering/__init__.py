"""The order in which the pending requests of queues are scheduled, by priorities, ratios and ranks.

`ugm.ordering.request_order` finds the next request of a tree of queues, and `ugm.ordering.sort_settings` reads the
settings of a configuration.
"""

from ugm.ordering.request_order import Comparison, SortKeys

__all__ = ["Comparison", "SortKeys"]
