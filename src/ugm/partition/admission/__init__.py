"""Admission: what enters the ledger, changes in it, and leaves it.

====================  =======================================================================================
module                contents
====================  =======================================================================================
`admission`           one allocation: requested, granted, replaced, resized, renewed, released, expired, adopted
`checked_arguments`   the objects that a call names, and the states that it needs
`applications`        applications: submitted, admitted with their allocations, ended; gangs
`running_work`        the ledger made equal to the running work of a host; the repair of differences
`trial_charges`       the requests that count as granted during a search
====================  =======================================================================================
"""

__all__: list[str] = []
