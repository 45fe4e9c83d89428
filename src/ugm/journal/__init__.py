"""A partition whose acknowledged changes survive a crash, and its usage over time.

The problem: a partition in memory forgets everything when its process ends. A snapshot now and then would lose the
changes since. A record that is written after the answer was given may be lost; one that is written before the decision
may describe a change that never happens.

The idea: the journal is a log of the events of a partition, in one SQLite file or in PostgreSQL. Each operation decides
and changes the state in memory under the lock of the partition, appends its events to the log, and returns when they
have reached the disk. To open a journal is to replay its events. From time to time a compaction replaces them by a
checkpoint of the state.

Invariant: between operations, the state in memory equals the replay of all appended events. An answer is given only
when all events up to it are durable. If a commit fails, the events stay in the queue and are in doubt: they are written
before any other change is accepted, so no decision is based on a change that may be lost. A journal is read as it was
written, or not at all: every row has a checksum, the numbers of the changes have no gaps, and the number of the last
acknowledged change is stored in a second file.

The cost: about 90 bytes per allocation, and one commit for each change or group of changes. Opening takes time
proportional to the events since the last compaction.

The path of a change through the modules:

======================  ===============================================================================================
``transaction_log``     encodes the events of a change, passes them to the queue, and waits until they are durable
``change_queue``        queues encoded changes, commits them alone or in groups, and notifies the waiting callers
``file_writer``         commits rows to a file, and manages a full disk with the help of ``disk_reserve``
``ack_marker``          stores the number of the last acknowledged change of a file
``postgres.writer``     commits rows to a PostgreSQL database, instead of the last two modules
======================  ===============================================================================================

The other modules:

- The two kinds of logs: ``log`` and ``leader_record`` define them, ``file_log`` and ``postgres`` implement them, and
  ``locations`` finds the log of a path or URL.
- Opening: ``opening`` gets the right to write a log and replays it; ``follower`` keeps the state of a log that another
  process writes, and takes over; ``partition`` and ``journal`` are the partition and its journal for programs, and
  ``deferred_results`` passes results to futures and tasks, in a thread of ``result_delivery``; ``threads`` starts
  threads, and ``errors`` has the exceptions.
- The right to write a file: ``writer_lock`` and ``file_use`` give it to one process, ``leader_file`` identifies it, and
  ``open_mark`` ensures that the file is read under the name under which it was written.
- The contents: ``change_data`` defines a change, ``client_sessions`` the clients of a service,
  ``store`` and ``store_reader`` the tables of a file; ``contents`` decodes and replays them.
- The whole log: ``migration`` converts old files, ``inspection`` reads a log, ``new_file`` names a complete backup,
  ``compaction`` computes a checkpoint, and ``background``, ``compaction_process`` and ``file_compaction`` do so while
  the log is in use.
- Usage over time: ``usage_intervals``, ``usage``, ``usage_load`` for decayed usage, ``model_history`` for quota
  models of the program and ``declared_past`` for budgets and fair shares of a configuration, both with
  ``claim_history``; ``pending_intervals`` for pending requests.
"""

from ugm.journal.compaction import Compaction
from ugm.journal.errors import DeposedError, JournalDamagedError, JournalError, JournalHeldError
from ugm.journal.inspection import JournalSummary, backup, compact, export, inspect
from ugm.journal.journal import Journal
from ugm.journal.partition import JournaledPartition, open_partition
from ugm.journal.usage import UsageRow, usage
from ugm.journal.usage_load import load_usage

__all__ = [
    "Compaction",
    "DeposedError",
    "Journal",
    "JournalDamagedError",
    "JournalError",
    "JournalHeldError",
    "JournalSummary",
    "JournaledPartition",
    "UsageRow",
    "backup",
    "compact",
    "export",
    "inspect",
    "load_usage",
    "open_partition",
    "usage",
]
