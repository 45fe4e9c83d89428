"""The order in which the pending requests of queues are scheduled, by priorities, ratios and ranks.

`ugm.ordering.order_tree` finds the next request of a tree of queues, and `ugm.ordering.sort_settings` reads the
settings of a configuration.
"""

from ugm.ordering.comparison import Comparison, SortKeys

__all__ = ["Comparison", "SortKeys"]
