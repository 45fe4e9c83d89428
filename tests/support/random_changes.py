"""Random changes of a partition: the same seed makes the same changes wherever the partition is in the same state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final

from support.partition_fixtures import config
from ugm import AllocationRequest, Partition, RequestError, Resource, UserGroup
from ugm.configuration import PartitionConfig
from ugm.partition import RunningAllocation

_RULES: Final = "{name: provided, create: true}"
_LIMIT: Final = "{limit: l, groups: [dev], maxresources: {memory: 60}, maxapplications: 5}"
#: Configurations that take turns: queues come and go, and limits of users and groups change.
CONFIGS: Final = (
    config("{name: a}, {name: p, parent: true, childtemplate: {resources: {max: {memory: 40}}}}", _RULES, _LIMIT),
    config(
        "{name: a, resources: {max: {memory: 50}}}, {name: b}", _RULES, "{limit: l, users: [sue], maxapplications: 3}"
    ),
    config("{name: p, queues: [{name: q, resources: {guaranteed: {gpu: 2}}}]}", _RULES, _LIMIT.replace("dev", "ops")),
)
_USERS: Final = (UserGroup("sue", ("dev", "ops")), UserGroup("bob", ("ops",)), UserGroup("eve"))
_QUEUES: Final = ("root.a", "root.b", "root.p.q", "root.p.r", "root.new.one")


class Actor:
    """Somebody who changes a partition at random."""

    def __init__(self, seed: object, *, closing: bool = False, configs: Sequence[PartitionConfig] = CONFIGS) -> None:
        self._configs = configs
        self._random = Random(str(seed))
        self._names = 0
        self._seed = seed
        self._kinds: Sequence[tuple[Callable[[Partition], object], int]] = (
            (self._submit, 12),
            (self._adopt_application, 3),
            (self._ask, 6),
            (self._allocate, 30),
            (self._allocate_all, 6),
            (self._allocate_evicting, 6),
            (self._adopt, 4),
            (self._replace, 5),
            (self._resize, 5),
            (self._release, 18),
            (self._end, 4),
            (self._node, 3),
            (self._configure, 2),
            (self._reconcile, 2),
            (self._give_quota, 3),
            (self._close, 1 if closing else 0),
        )

    def step(self, partition: Partition) -> None:
        """Make one change, or one attempt at it; misuse is a part of life."""
        kinds, weights = zip(*self._kinds, strict=True)
        with suppress(RequestError):
            self._random.choices(kinds, weights)[0](partition)

    def _new(self) -> str:
        self._names += 1
        return f"{self._seed}-{self._names}"

    def _application(self, partition: Partition) -> str:
        return self._one([application.application_id for application in partition.applications()])

    def _allocation(self, partition: Partition) -> str:
        return self._one([allocation.allocation_id for allocation in partition.allocations()])

    def _one(self, names: Sequence[str]) -> str:
        return self._random.choice(names) if names else "nobody"

    def _usage(self) -> Resource:
        amounts = {
            "memory": self._random.randrange(12),
            "vcore": self._random.randrange(3),
            "gpu": self._random.choice([0, 1]),
        }
        return (
            Resource(amounts) if self._random.random() < 0.8 else Resource({"memory": 1, f"odd{amounts['memory']}": 2})
        )

    def _traits(self) -> dict[str, Any]:
        if self._random.random() < 0.6:
            return {}
        return {"placeholder": self._random.random() < 0.7, "priority": self._random.randrange(3), "preemptible": True}

    def _submit(self, partition: Partition) -> None:
        quota = Resource(memory=self._random.randrange(1, 60)) if self._random.random() < 0.3 else None
        style = self._random.choice(["soft", "hard"])
        user, queue = self._random.choice(_USERS), self._random.choice(_QUEUES)
        partition.submit(self._new(), user, queue, tags={"tier": "\u00e9"}, quota=quota, gang_style=style)

    def _give_quota(self, partition: Partition) -> None:
        partition.set_queue_quota(self._random.choice(_QUEUES), Resource(memory=self._random.randrange(1, 60)))

    def _adopt_application(self, partition: Partition) -> None:
        group = self._random.choice(["", None, "ops", "elsewhere"])
        user, queue = self._random.choice(_USERS), self._random.choice(_QUEUES)
        partition.adopt_application(self._new(), user, queue, group=group)

    def _ask(self, partition: Partition) -> None:
        partition.request(self._new(), self._application(partition), self._usage(), **self._traits())

    def _allocate(self, partition: Partition) -> None:
        pending = [allocation for allocation in partition.allocations() if allocation.state == "pending"]
        if pending and self._random.random() < 0.4:
            partition.allocate(self._random.choice(pending).request)
        else:
            partition.allocate(self._new(), self._application(partition), self._usage(), **self._traits())

    def _allocate_all(self, partition: Partition) -> None:
        count = self._random.randrange(1, 4)
        partition.allocate_all(
            [AllocationRequest(self._new(), self._application(partition), self._usage()) for _ in range(count)]
        )

    def _allocate_evicting(self, partition: Partition) -> None:
        priority = self._random.randrange(3)
        partition.allocate_evicting(self._new(), self._application(partition), self._usage(), priority=priority)

    def _adopt(self, partition: Partition) -> None:
        partition.adopt(self._new(), self._application(partition), self._usage())

    def _replace(self, partition: Partition) -> None:
        partition.replace(self._allocation(partition), self._new(), self._usage())

    def _resize(self, partition: Partition) -> None:
        partition.resize(self._allocation(partition), self._usage())

    def _release(self, partition: Partition) -> None:
        name = self._allocation(partition)
        (partition.release if self._random.random() < 0.8 else partition.preempt)(name)

    def _end(self, partition: Partition) -> None:
        ways = partition.complete, partition.fail, partition.remove, partition.time_out_gang
        self._random.choice(ways)(self._application(partition))

    def _node(self, partition: Partition) -> None:
        name, kind = self._random.choice("xyz"), self._random.randrange(3)
        offers = Resource(memory=self._random.randrange(200), gpu=self._random.randrange(9))
        if kind == 2:
            partition.remove_node(name)
        else:
            (partition.add_node, partition.update_node)[kind](name, offers)

    def _configure(self, partition: Partition) -> None:
        partition.configure(self._random.choice(self._configs))

    def _reconcile(self, partition: Partition) -> None:
        running = [
            RunningAllocation(
                allocation.allocation_id,
                allocation.application_id,
                allocation.usage if self._random.random() < 0.9 else self._usage(),
            )
            for allocation in partition.allocations()
            if allocation.state != "pending" and self._random.random() < 0.9
        ]
        partition.reconcile(partition.audit(running))

    def _close(self, partition: Partition) -> None:
        partition.terminate(confirm=True)


def state_of(partition: Partition) -> tuple[dict[str, list[tuple[str, Any]]], object, object]:
    """Return the rows of a partition, the past of its models, and what follows from the rows.

    The names of the models of the program are left out, because the partitions that are compared have different ones.
    """
    partition.verify()
    rows = dict(partition._state.tables.copy().by_name)
    # A compiled configuration depends on the time; an entry of a removed request has no effect.
    rows["configuration"] = {"": rows["configuration"][""].compiled.config}
    rows["partition"] = {
        "": rows["partition"][""]._replace(added_models=(), reservations=partition._state.current_reservations())
    }
    # Numbers only say which is earlier.
    for table in ("request", "application"):
        numbered = sorted(rows[table].items(), key=lambda item: item[1].number)
        rows[table] = {key: row._replace(number=place) for place, (key, row) in enumerate(numbered)}
    ordered = {name: list(table.items()) for name, table in rows.items()}
    # Queries let time pass for the models.
    answers = partition.users(), partition.groups(), partition.queue(), partition.exceeded_limits()
    past = partition._models.save()
    for key, saved in [*past.items()]:
        # A tree that was reset after a refused charge has its consumers in another order.
        for tree in saved.get("homes", {}).values():
            tree.sort()
        # A refused charge leaves an account in which nothing was used.
        # Shares also know what came before the last change, in case that it is taken back in the same second.
        if "usage" in saved:
            used = [(*one[:3], one[3] if isinstance(one[3], str) else one[3][0]) for one in saved["usage"]]
            past[key] = {**saved, "usage": used}
        if "accounts" in saved:
            past[key] = {**saved, "accounts": [one for one in saved["accounts"] if any(one[-2:])]}
    return ordered, answers, past
