"""One partition for many processes: a leader decides, and all other processes are its clients.

The problem: many schedulers share limits. Each decision must see all earlier ones, be durable before its answer, and
happen once, although processes and connections fail at any time.

The idea: one process, the *leader*, has the partition in memory and executes the operations of all clients in the order
of their arrival. The changes of all operations that arrive during a commit share the next one. The store (see
`ugm.store`) decides which process leads. A *standby* follows the store, and leads when the leader has failed. Clients
number their operations, so that a repeated one is not executed again.

Invariant: an answer is sent when everything that its operation has read or changed is durable. So a client never sees a
state that the next leader does not have. The exception is a query while the store is unavailable: it is answered from
memory.

The cost: a round trip between two processes, and a wait for at most two commits.

It needs the extra ``service``. The documentation describes the path of a call through
the modules: "Architecture", "A call to a service".
"""

from ugm.partition.interface.operation_kinds import Role
from ugm.service.client import (
    AsyncConnectedPartition,
    AsyncSubscription,
    ConnectedPartition,
    Subscription,
    connect,
    connect_async,
    join,
    join_async,
)
from ugm.service.errors import DeadlineError, FencedError, ProtocolError, ServiceError, UnavailableError
from ugm.service.protocol.status import Durations, ServiceStatus, SessionAllocation, SessionReport
from ugm.service.protocol.wire import Staleness
from ugm.service.remote import AsyncRemotePartition, RemotePartition, RemoteSessions
from ugm.service.server import ClientLimits, ClientToken, Security
from ugm.service.service import Service, ServiceSettings, tune_interpreter

__all__ = [
    "AsyncConnectedPartition",
    "AsyncRemotePartition",
    "AsyncSubscription",
    "ClientLimits",
    "ClientToken",
    "ConnectedPartition",
    "DeadlineError",
    "Durations",
    "FencedError",
    "ProtocolError",
    "RemotePartition",
    "RemoteSessions",
    "Role",
    "Security",
    "Service",
    "ServiceError",
    "ServiceSettings",
    "ServiceStatus",
    "SessionAllocation",
    "SessionReport",
    "Staleness",
    "Subscription",
    "UnavailableError",
    "connect",
    "connect_async",
    "join",
    "join_async",
    "tune_interpreter",
]
