"""A journal on SQLite: a partition whose every acknowledged change survives a crash, and usage over time."""

from ugm.journal.compaction import Compaction
from ugm.journal.errors import JournalDamagedError, JournalError, JournalHeldError
from ugm.journal.inspection import JournalSummary, compact, export, inspect
from ugm.journal.journal import Journal
from ugm.journal.partition import JournaledPartition, open_partition
from ugm.journal.usage import UsageRow, usage

__all__ = [
    "Compaction",
    "Journal",
    "JournalDamagedError",
    "JournalError",
    "JournalHeldError",
    "JournalSummary",
    "JournaledPartition",
    "UsageRow",
    "compact",
    "export",
    "inspect",
    "open_partition",
    "usage",
]
