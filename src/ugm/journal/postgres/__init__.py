"""The log in a PostgreSQL database, for processes on several machines.

The problem: a process that leads may be stopped, cut off from the database or restarted at any time, and so may the
database. Two processes may believe that they lead. A commit may reach the database although its answer is lost.

The idea: one row contains the *term* of the leader and the number of the last change. A candidate raises the term, if
it is still the one that the candidate has read. One function appends changes: it locks this row, compares the term and
the number, and inserts the changes. A commit in doubt is simply repeated: rows that the same term has stored already
are accepted once.

Invariant: the numbers of the changes have no gaps, and each was written in the term that was in force. After a term was
raised, no change of an earlier term is accepted.

The cost: one call of a function for each group of changes, and an update of one row.

``layout`` has the tables and the function, ``connection`` the connection with its time limits, ``reader`` the reading
side, ``log`` leadership, ``writer`` the writing side, and ``sent_append`` changes that wait for the answer of the
database. The package needs psycopg, the extra ``postgres``.
"""

from ugm.journal.postgres.log import PostgresLog

__all__ = ["PostgresLog"]
