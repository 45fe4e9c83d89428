"""The protocol: what both sides of a connection know.

==============  =====================================================================
module          contents
==============  =====================================================================
`addresses`     addresses, and the way of a client to the leader
`wire`          the messages, and one end of a connection
`operations`    the operations, derived from the methods of a partition
`values`        arguments, results and errors as JSON
`status`        the status of a service, and the interface to its sessions
==============  =====================================================================
"""

__all__: list[str] = []
