"""Adapters that make other programs ask ugm before they start work.

Every adapter is a module of its own, which imports the program that it extends, and which only the configuration of
that program imports. All of them do the same few things over a partition in memory, with a store, or of a service:
these are `Grants`, for asyncio, and `BlockingGrants`, for threads.
"""

from ugm.integrations.grants import BlockingGrants, GrantDeniedError, Grants, Remedy, Work
from ugm.integrations.sources import PartitionSource, quota_source

__all__ = ["BlockingGrants", "GrantDeniedError", "Grants", "PartitionSource", "Remedy", "Work", "quota_source"]
