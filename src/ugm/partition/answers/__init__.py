"""Answers: queries that change nothing, and the values that they return.

=================  =============================================================================
module             contents
=================  =============================================================================
`queries`          lists; and the answer that a request of a subject would get, with the reasons
`model_queries`    the limits, headroom and state of other quota models
`reports`          values that combine several facts of one moment
`owner_usage`      sums of usage by user, group and queue; the limits of one user or group
`snapshot`         a partition at one moment, as plain data
`thresholds`       reports of usage that crosses configured shares of a limit
`audit`            the differences between the ledger and the allocations that really run
=================  =============================================================================
"""

__all__: list[str] = []
