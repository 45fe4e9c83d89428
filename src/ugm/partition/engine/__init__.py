"""The engine: the state of a partition, and the transaction that changes it.

==================  =======================================================================================
module              contents
==================  =======================================================================================
`ledger`            the rows, and their indexes by application and allocation
`state`             everything else that follows from the rows; making it again; timers of reductions
`application`       one application with its allocations; pending work, promised ends, and marks of changes
`transaction`       the steps of every change: decide, write, finish, wait, notify; the clock
`self_check`        the comparison of the state with what follows from its rows
`model_set`         the quota models of a partition, used as one
`model_calls`       the calls that change models, as values; the models that the configuration declares
`row_follower`      brings a state and its models up to date with changes that were made elsewhere
==================  =======================================================================================
"""

__all__: list[str] = []
