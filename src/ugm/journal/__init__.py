"""A partition whose acknowledged changes survive a crash, and its usage over time.

**The problem.** A partition in memory forgets everything when its process ends. A snapshot now and then would lose the
changes since. A record that is written after the answer was given may be lost; one that is written before the decision
may describe a change that never happens.

**The idea.** The journal is a log of the events of a partition, in one SQLite file. Each operation decides and changes
the state in memory under the lock of the partition, appends its events to the log, and returns when they have reached
the disk. To open a journal is to replay its events. From time to time a compaction replaces them by a checkpoint of the
state.

**The invariant.** Between operations, the state in memory equals the replay of all appended events. An answer is given
only when all events up to it are durable. If a commit fails, the events stay in the queue and are in doubt: they are
written before any other change is accepted, so no decision is based on a change that may be lost. A journal is read as
it was written, or not at all: every row has a checksum, the numbers of the changes have no gaps, and the number of the
last acknowledged change is stored in a second file.

**The cost.** About 90 bytes per allocation, and one commit for each change or group of changes. An open takes time in
proportion to the events since the last compaction.

The path of a change through the modules:

======================  ===============================================================================================
``outlet``              connects the partition with the writer: encodes events, and waits until they are durable
``writer``              queues encoded changes, commits them alone or in groups, and notifies the waiting callers
``change_log``          commits rows, and manages a full disk with the help of ``disk_reserve``
``ack_marker``          stores the number of the last acknowledged change
======================  ===============================================================================================

The other modules open, read and maintain the file. ``writer_lock``, ``file_use`` and ``session`` ensure that it has one
writer, under one name. ``store`` and ``store_reader`` access the tables, and ``contents`` decodes them. ``migration``,
``compaction`` and ``inspection`` process the whole file. ``usage_intervals`` and ``usage`` compute usage over time.
"""

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
