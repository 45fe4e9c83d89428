"""Answers: queries that change nothing, and the values that they return.

=================  =============================================================================
module             contents
=================  =============================================================================
`queries`          lists; and the answer that a request of a subject would get, with the reasons
`model_queries`    the limits, headroom and state of other quota models
`reports`          values that combine several facts of one moment
`snapshot`         a partition at one moment: sums of usage by user, group and queue, and the limits of one of them
`thresholds`       reports of usage that crosses configured shares of a limit
=================  =============================================================================
"""

__all__: list[str] = []
