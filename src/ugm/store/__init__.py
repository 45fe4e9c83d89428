"""The rows and the changes of a partition in SQLite or PostgreSQL, and its usage over time.

The problem: a partition in memory forgets everything when its process ends. A decision may be answered only when it
cannot be lost any more, although the disk is much slower than the decision; and a restart may not take long, however
long the history is.

The idea: a change is written once, as one row of the table ``change``, by a group commit. The leader folds the
changes into tables of rows later, with the number up to which it has folded. Opening reads these tables and the few
changes after that number. Old changes are deleted by age. So there is no replay of the history, no compaction and no
checkpoint.

Invariant: only one process leads, and its *term* is compared in the same statement as each append. Numbers of changes
have no gaps, and every change has a checksum. A commit in doubt is repeated by number: the same checksum means that it
was done.

The tables of rows are for SQL users as well, who may read them at any time. They lag behind the changes by about a
second.

====================  ================================================================================================
``store``             the store, open for writing by its leader, with its group commit
``fold``              brings the tables of rows up to date with the changes
``partition``         `open_partition` and `read_partition`, and the partitions that they return
``reader``            reads a store: all rows, new changes, the leader, usage over time; copies it
``usage``             turns changes into intervals of usage, and intervals into reports
``row_tables``        the tables of rows, derived from the types of the rows
``database``          the SQL that is common to both databases, the interface of their dialects, and the errors
``sqlite``            the dialect of SQLite, for the processes of one machine
``postgres``          the dialect of PostgreSQL, for the processes of many machines
====================  ================================================================================================
"""

from ugm.store.database import LeaderRecord, StoreDamagedError, StoreDeposedError, StoreError, StoreHeldError
from ugm.store.fold import CapturedModels
from ugm.store.partition import FollowingPartition, StoredPartition, open_partition, read_partition
from ugm.store.reader import Loaded, PostgresLocation, StoreReader, Transaction, copy_store, delete_usage, usage_of
from ugm.store.store import Store, open_store
from ugm.store.usage import UsageQuery, UsageRow

__all__ = [
    "CapturedModels",
    "FollowingPartition",
    "LeaderRecord",
    "Loaded",
    "PostgresLocation",
    "Store",
    "StoreDamagedError",
    "StoreDeposedError",
    "StoreError",
    "StoreHeldError",
    "StoreReader",
    "StoredPartition",
    "Transaction",
    "UsageQuery",
    "UsageRow",
    "copy_store",
    "delete_usage",
    "open_partition",
    "open_store",
    "read_partition",
    "usage_of",
]
