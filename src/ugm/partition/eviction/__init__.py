"""Eviction: the choice of the allocations that have to end, so that a request fits or a queue shrinks.

==================  ===================================================================================================
module              contents
==================  ===================================================================================================
`preemption`        plans for requests that are entitled to more, and for queues above their maximum; carrying them out
`reclaim`           what groups have to return to a group that asks within its guarantee, and the search for it
`reclaim_plan`      plans and their reasons, as values
==================  ===================================================================================================

`ugm.preemption` searches for the victims of preemptions.
"""

__all__: list[str] = []
