"""Admission: what enters the ledger, changes in it, and leaves it.

====================  =======================================================================================
module                contents
====================  =======================================================================================
`admission`           one allocation: requested, granted, replaced, resized, renewed, released, expired, adopted
`variant_assignment`  amounts of any variant of a resource, assigned to variants
`variant_protection`  the guarantees of variants that an assignment must leave satisfiable
`checked_arguments`   the objects that a call names, and the states that it needs
`applications`        applications: submitted, admitted with their allocations, ended
`gangs`               several allocations that are granted together, or not at all
`running_work`        the running work of a host: audited, repaired, and made equal to the ledger
`trial_charges`       charges that find out what fits; whether a denied request can wait for its limits
====================  =======================================================================================
"""

__all__: list[str] = []
