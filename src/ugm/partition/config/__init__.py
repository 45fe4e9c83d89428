"""The configuration of a partition: compiled, compared, planned, put in force and followed through its schedule.

================  =========================================================================================
module            contents
================  =========================================================================================
`compiled`        the configuration as the engine uses it: limits, also of pending work, and their schedule
`changes`         the differences between two configurations, and the limits that fall considerably
`plan`            the effects that another configuration would have
`administration`  the changes of nodes, queue quotas, budgets and the configuration; limits follow their schedule
================  =========================================================================================
"""

__all__: list[str] = []
