"""The partition in memory.

`Partition` has the operations of `ugm.partition.interface`. They check the arguments that need no state and call the
parts of the engine, which check the rest:

======================================  ==========================================================================
`ugm.partition.admission.admission`     grant, replace, resize, renew, release and expire allocations
`ugm.partition.ordering.reservations`   grant allocations in queues that keep capacity for a request
`ugm.partition.admission.applications`  submit, admit and end applications
`ugm.partition.admission.gangs`         grant several allocations together
`ugm.partition.admission.running_work`  make the ledger equal to the running work of a host
`ugm.partition.config.administration`   change nodes, quotas, budgets and the configuration
`ugm.partition.answers.queries`         list objects; answer what a request would get, and why
`ugm.partition.answers.model_queries`   collect the answers of other quota models
`ugm.partition.eviction.reclaim`        choose and evict what groups have to return
`ugm.partition.eviction.preemption`     choose and mark the victims of a request
======================================  ==========================================================================

A change runs as a transaction (`ugm.partition.engine.transaction`), a query runs under the lock. One lock guards
everything. Foreign code runs under the lock only in quota models and in the clock.

Source: Apache YuniKorn, resource quota management; user based resource usage tracking.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from ugm.arguments import require_group_limits, require_items
from ugm.configuration import PartitionConfig
from ugm.engine_lock import EngineLock
from ugm.model import QuotaModel
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.model_calls import row_calls
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.engine.transaction import Clock, EventOutbox, PartitionClock, seconds
from ugm.partition.events import Subscriber
from ugm.partition.interface import AbstractPartition
from ugm.partition.rows import AllocationRequest
from ugm.resources import Resource

if TYPE_CHECKING:
    from ugm.partition.ordering.pending_order import ApplicationKey
    from ugm.partition.ordering.scheduling_pass import SchedulingPass
    from ugm.partition.ordering.waiting_list import WaitingList

#: The only node of a cluster whose nodes are not registered.
_CLUSTER: Final = "cluster"


class Partition(AbstractPartition):
    """A partition in memory.

    Args:
        config: the partition of a configuration, from `ugm.load_config`; None for a root without queues or limits.
        cluster: the resources of the cluster, for a program that registers no nodes. It counts as one node, called
            ``cluster``. Without it, and until a first node is registered, the size of the cluster limits nothing.
        models: other quota models. They are checked and charged in this order, after users, groups, queues and the
            models that the configuration declares. An exception of a model goes to the caller, and changes neither the
            partition nor another model. A model that raises in a call that changes it is reset, or suspended until
            `replace_model` replaces it.
        subscribers: functions that are called with every event, after the lock has been released; see
            `ugm.events.Subscriber`. A partition with subscribers takes longer for each allocation.
        group_limits: as for a `ugm.Manager`.
        clock: a function that returns whole seconds since 1970. Operations that depend on the time read it once in
            each call: promised durations, schedules, reduction timers, plans, and quota models with a clock. If it goes
            back, the time stands still until it has caught up.

    Raises:
        RequestError: an argument is invalid.

    >>> from ugm import UserGroup, parse_config
    >>> config = parse_config("partitions: [{name: default, queues: [{name: prod, resources: {max: {memory: 4Gi}}}]}]")
    >>> partition = Partition(config.partition())
    >>> partition.submit("app-1", UserGroup("sue"), "root.prod").queue_path
    'root.prod'
    >>> partition.allocate("app-1-0", "app-1", Resource.parse(memory="3Gi")).allowed
    True
    >>> print(partition.allocate("app-1-1", "app-1", Resource.parse(memory="2Gi")))
    denied, waiting can help:
      queue root.prod: 2Gi memory requested, 3Gi of 4Gi used, 1Gi too much
    >>> partition.release("app-1-0"), partition.release("app-1-0")
    (True, False)
    """

    def __init__(
        self,
        config: PartitionConfig | None = None,
        *,
        cluster: Resource | None = None,
        models: Iterable[QuotaModel] = (),
        subscribers: Iterable[Subscriber] = (),
        group_limits: Literal["always", "unless-user-limited"] = "always",
        clock: Clock = seconds,
    ) -> None:
        user_limits_win = require_group_limits(group_limits)
        callbacks, lock = require_items("subscribers", subscribers), EngineLock()
        outbox = EventOutbox(callbacks) if callbacks else None
        state = PartitionState(CompiledConfig.of(config), user_limits_win=user_limits_win, lock=lock)
        model_set = ModelSet(models, lock, PartitionClock(clock))
        model_set.restore(state.compiled.models, None, list, {})
        state.change_partition(added_models=model_set.added_names)
        self._assemble(state, model_set, outbox)
        if outbox is not None:
            self._start_recording()
        if cluster is not None:
            self.add_node(_CLUSTER, cluster)

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        name: str | None = None,
        *,
        cluster: Resource | None = None,
        models: Iterable[QuotaModel] = (),
        subscribers: Iterable[Subscriber] = (),
        group_limits: Literal["always", "unless-user-limited"] = "always",
        clock: Clock = seconds,
    ) -> Partition:
        """Return a partition in memory with the configuration in a file.

        Args:
            path: the file.
            name: the partition of the configuration; None if it has only one.
            cluster: as for the class.
            models: as for the class.
            subscribers: as for the class.
            group_limits: as for the class.
            clock: as for the class.

        Raises:
            ConfigError: the file cannot be read, or the configuration is not valid.
            RequestError: there is no such partition, or an argument is invalid.
        """
        from ugm.config import load_config  # noqa: PLC0415 - it imports yaml

        config = load_config(path).partition(name)
        return Partition(
            config, cluster=cluster, models=models, subscribers=subscribers, group_limits=group_limits, clock=clock
        )

    def replace_model(self, old: QuotaModel, new: QuotaModel) -> None:
        """Replace a quota model by another one, which is charged with everything that is held and pending.

        This ends the suspension of a model that failed in the middle of a call and cannot be reset. Until then every
        request is denied with its name. Pass the same model twice if the program has repaired it.

        Raises:
            RequestError: *old* is not a model of this partition, or is declared by the configuration, or *new* is not a
                quota model.
        """
        self._transactions.run(self._replace_model, old, new)

    def _replace_model(self, old: QuotaModel, new: QuotaModel) -> None:
        self._models.replace(old, new, row_calls(self._state.tables))
        self._state.change_partition(added_models=self._models.added_names)
        # A plan of reservations depends on the answers of the models.
        self._state.mark_everything()

    def scheduling_pass(
        self,
        requests: Mapping[str, Iterable[AllocationRequest]] | None = None,
        *,
        keys: Mapping[str, ApplicationKey] | None = None,
        tree: str = "",
    ) -> SchedulingPass:
        """Return an iterator over the pending requests in scheduling order, each to be granted or skipped.

        From the first pass on, the partition records which applications change, so an allocation takes longer.

        Args:
            requests: the requests by application that take part; None for the pending ones.
            keys: a function by queue path that returns the key of an application of the queue or of one below it. The
                smallest key comes first. It replaces the policy of the configuration; see `ugm.partition.by_share`.
            tree: the groups that are traversed instead of the queues: ``elastic groups``, or the name of a quota tree.
                They are compared by the largest part that they use of their runtime or quota; see
                `ugm.model.TreeOrderModel`. Applications without a group are in one group whose ratio is 0. In a group,
                applications are ordered by the policy of the root queue.

        Raises:
            RequestError: an argument is invalid, or there is no such tree.
        """
        from ugm.partition.ordering.scheduling_pass import (  # noqa: PLC0415 - see `_Part`
            PassCalls,
            SchedulingPass,
            require_keys,
            require_requests_by_application,
        )

        groups = self._groups(tree)
        passed, functions = require_requests_by_application(requests), require_keys(keys)
        marks = self._lock.run(self._start_marking)
        calls = PassCalls(self.allocate, self.reservations)
        return SchedulingPass(calls, self._state, self._lock, marks, passed, functions, groups)

    def waiting_list(self) -> WaitingList:
        """Return the waiting list of the pending requests; all calls return the same one.

        From the first call on, the partition records which applications change, so an allocation takes longer.
        """
        if self._waiting is None:
            self._lock.run(self._start_waiting)
        assert self._waiting is not None  # noqa: S101 - it was made
        return self._waiting

    def wake(self) -> tuple[AllocationRequest, ...]:
        """Return the pending requests that can fit now, in scheduling order: those that a pass would grant.

        For a scheduler that polls; see `ugm.partition.WaitingList.wake`. Threads and tasks that wait use
        `waiting_list`.
        """
        return self.waiting_list().wake()
