"""The kinds and the roles of the operations of a partition.

Everything else about an operation follows from its method: the parameters, the types and the description. A service and
a server derive their interfaces from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """The way in which an operation uses the partition."""

    #: It may change the partition.
    CHANGE = "change"
    #: It changes nothing, and takes a short time.
    QUERY = "query"
    #: It changes nothing, and its time grows with the partition.
    SCAN = "scan"


class Role(IntEnum):
    """The rights of a client; each role includes the ones before it."""

    #: Make queries.
    VIEWER = 1
    #: Submit applications, and obtain, change and release their own allocations.
    SCHEDULER = 2
    #: Change the work of others: fence clients, preempt, set quotas and budgets.
    OPERATOR = 3
    #: Change the configuration and the nodes, and repair the ledger.
    ADMIN = 4


class OperationKind(NamedTuple):
    """The facts about an operation that its method does not state."""

    kind: Kind
    #: The least role of a client that may call it.
    role: Role


def _kinds(kind: Kind, role: Role, names: str) -> dict[str, OperationKind]:
    return dict.fromkeys(names.split(), OperationKind(kind, role))


#: The operations of `ugm.partition.AbstractPartition` that another process can call, by name.
OPERATION_KINDS: Final[Mapping[str, OperationKind]] = {
    **_kinds(
        Kind.CHANGE,
        Role.SCHEDULER,
        "allocate allocate_all allocate_evicting allocate_ignoring_reservations release request replace resize renew "
        "preempt adopt expire release_overdue reclaim carry_out submit adopt_application admit end complete fail "
        "remove time_out_gang synchronize reconcile",
    ),
    **_kinds(Kind.CHANGE, Role.OPERATOR, "set_queue_quota change_budget"),
    **_kinds(Kind.CHANGE, Role.ADMIN, "terminate add_node update_node remove_node apply configure"),
    **_kinds(
        Kind.QUERY,
        Role.VIEWER,
        "check headroom pending_headroom limits place application applications_by_id allocation allocations_by_id "
        "config queue_headroom queue_maximum overdue reduction_timers preemption_status",
    ),
    **_kinds(
        Kind.SCAN,
        Role.VIEWER,
        "audit verify explain explain_submission applications application_ids application_report "
        "allocations allocation_ids queue queue_paths pending nodes users user user_names "
        "groups group group_names exceeded_limits snapshot model_utilization model_reports plan_reclaim order "
        "plan_preemption reservations plan_reductions budget_accounts plan scheduled_changes",
    ),
}
