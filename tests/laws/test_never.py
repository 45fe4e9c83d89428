"""Waiting can help a denied request unless an empty partition denies it at every time that its limits distinguish.

Each world has random limits of users, groups and queues, schedules, elastic groups, quota trees and budgets. Something
runs and something is pending. Each denial is compared with the answers of partitions with the same configuration in
which nothing runs, at every hour at which a schedule may change a limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

import pytest

from support.examples import seeds
from support.failing_models import Failing
from ugm import (
    AllocationRequest,
    Claim,
    ConfigError,
    Decision,
    Partition,
    Resource,
    UserGroup,
    UserInQueue,
    Violation,
    parse_config,
)
from ugm.config import PartitionConfig

NAMES: Final = ("gpu", "disk")
USERS: Final = {"ana": UserGroup("ana", ("red",)), "ben": UserGroup("ben", ("blue", "red")), "eve": UserGroup("eve")}
QUEUES: Final = ("root.p.x", "root.p.y", "root.q")
DAY: Final = 86_400
#: A Monday.
NOW: Final = 1_795_996_800
#: Long before, so that everything that budgets carry over has been carried.
START: Final = NOW - 800 * DAY
HOURS: Final = ("01:00-09:00", "03:00-04:00", "08:00-12:00", "20:00-02:00")
DAYS: Final = {"": range(7), "mon": [0], "sat,sun": [5, 6], "tue-thu": [1, 2, 3]}


def applies(days: str, hours: str, at: int) -> bool:
    """Return whether an entry of a schedule applies at a second."""
    begin, end = (int(text[:2]) for text in hours.split("-"))
    length = (end - begin) % 24
    day, hour = (at - NOW) // DAY, (at - NOW) % DAY // 3600
    return any((day - back) % 7 in DAYS[days] and begin <= hour + 24 * back < begin + length for back in (0, 1))


#: The seconds of a week at which other entries may apply, by those that apply.
TIMES: Final = {
    tuple(applies(days, hours, at) for days in DAYS for hours in HOURS): at
    for day in range(7)
    for hour in (0, 1, 2, 3, 4, 8, 9, 12, 20)
    for at in [NOW + day * DAY + hour * 3600]
}


class World:
    """A configuration that something uses, and its questions."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        while True:
            document = {"partitions": [self._partition()]}
            try:
                self.config: PartitionConfig = parse_config(json.dumps(document)).partition()
                break
            except ConfigError:
                continue
        self.cluster = self._amounts(14) if self.random.random() < 0.3 else None
        self.times = self._times(json.dumps(document))
        #: Empty partitions by the second of their clock.
        self.emptied: dict[int, Partition] = {}
        self.partition = self.empty(NOW)
        self._run()

    # Configurations

    def _amounts(self, most: int, least: int = 1) -> Resource:
        names = self.random.sample(NAMES, self.random.randint(1, 2))
        return Resource({name: self.random.randint(least, most) for name in names})

    def _text(self, most: int, names: Sequence[str] = NAMES, least: int = 0) -> dict[str, str]:
        return {name: str(self.random.randint(least, most)) for name in names}

    def _maybe(self, chance: float, **more: object) -> dict[str, Any]:
        return more if self.random.random() < chance else {}

    def _schedule(self) -> dict[str, Any]:
        if self.random.random() < 0.6:
            return {}
        entries = []
        for _ in range(self.random.randint(1, 2)):
            entry: dict[str, object] = {"hours": self.random.choice(HOURS)}
            entry |= self._maybe(0.3, days=self.random.choice(["mon", "sat,sun", "tue-thu"]))
            entry["maxresources"] = {name: str(amount) for name, amount in self._amounts(14).items()}
            entry |= self._maybe(0.2, maxapplications=self.random.randint(1, 3))
            entries.append(entry)
        return {"ugm": {"schedule": entries}}

    def _queue(self, name: str, queues: Sequence[object] = ()) -> dict[str, object]:
        most = {one: str(amount) for one, amount in self._amounts(12).items()}
        queue: dict[str, object] = {"name": name, **self._schedule(), **self._maybe(0.5, resources={"max": most})}
        queue |= self._maybe(0.2, maxapplications=self.random.randint(1, 3))
        limits = [
            {**who, **self._maybe(0.9, maxresources=self._text(12, NAMES[: self.random.randint(1, 2)], 1)),
             **self._maybe(0.2, maxapplications=self.random.randint(1, 2)), **self._schedule()}
            for who in ({"users": ["ana"]}, {"users": ["*"]}, {"groups": ["red"]}, {"groups": ["*"]})
            if self.random.random() < 0.25
        ]  # fmt: skip
        return {**queue, **self._maybe(1, limits=limits), **({"queues": list(queues)} if queues else {})}

    def _partition(self) -> dict[str, object]:
        queues = [self._queue("p", [self._queue("x"), self._queue("y")]), self._queue("q")]
        models: dict[str, object] = {}
        if self.random.random() < 0.5:
            models["elastic"] = self._elastic()
        if self.random.random() < 0.4:
            models["quotatrees"] = [self._tree(name) for name in ("s", "t")[: self.random.randint(1, 2)]]
        if self.random.random() < 0.4:
            models["budgets"] = [self._budget(number) for number in range(self.random.randint(1, 2))]
        return {"name": "default", "queues": queues, **({"ugm": models} if models else {})}

    def _elastic(self) -> dict[str, object]:
        def group(name: str, **more: object) -> dict[str, object]:
            least = self._text(4)
            most = {one: str(self.random.randint(int(amount), 14)) for one, amount in least.items()}
            lends = self._maybe(0.3, allowlent=False)
            weight = self._maybe(0.3, sharedweight=self._text(3))
            return {"name": name, "min": least, "max": most, **lends, **weight, **more}

        groups = [
            group("a", isparent=True),
            group("a1", parent="a", forceupdate=True),
            group("a2", parent="a", forceupdate=True),
            group("b"),
        ]
        names = {"root.p.x": "a1", "root.p.y": "a2", "root.q": "b"}
        flags = ("scalemin", "checkparents", "ignoreruntime")
        switches = {name: self.random.random() < 0.5 for name in flags if self.random.random() < 0.3}
        source = {"groupby": [{"source": "queue", "names": names}]}
        return {**self._maybe(0.8, total=self._text(16, least=1)), **switches, "groups": groups, **source}

    def _tree(self, name: str) -> dict[str, object]:
        def node(parent: str, *, hard: bool = False) -> dict[str, object]:
            return {"parent": parent, "hard": str(hard).lower(), "quota": self._text(12)}

        nodes = {"all": node("nil"), "m": node("all", hard=self.random.random() < 0.3)}
        nodes |= {leaf: node("m", hard=self.random.random() < 0.3) for leaf in ("x", "y")}
        nodes["z"] = node("all", hard=self.random.random() < 0.3)
        spec = {"resourceNames": list(NAMES), "nodes": nodes}
        document = {"kind": "QuotaTree", "metadata": {"name": name}, "spec": spec}
        names = {"root.p.x": "x", "root.p.y": "y", "root.q": "z"}
        return {"tree": document, "forest": "f", "groupby": [{"source": "queue", "names": names}]}

    def _budget(self, number: int) -> dict[str, object]:
        owner = self.random.choice([{}, {"user": "*"}, {"user": "ana"}, {"group": "red"}])
        amounts = {name: str(amount * 60) for name, amount in self._amounts(12, 0).items()}
        budget: dict[str, object] = {"name": f"b{number}", **owner, "amounts": amounts}
        period = self.random.choice(["none", "day", "week", "month"])
        budget |= {"period": period, "mode": self.random.choice(["safe", "safe", "admit"])}
        if period != "none":
            carry = self.random.choice(["none", "all", "capped"])
            budget |= {"carry": carry}
            if carry == "capped":
                budget["cap"] = {name: str(self.random.randint(0, 300)) for name in amounts}
        return budget

    def _times(self, text: str) -> list[int]:
        """Return a second for each combination of entries of the schedules that may apply together."""
        used = [hours in text and f'"{days}"' in text + '""' for days in DAYS for hours in HOURS]
        found = {tuple(one for one, is_used in zip(key, used, strict=True) if is_used): at for key, at in TIMES.items()}
        return list(found.values())

    # Partitions

    def empty(self, now: int) -> Partition:
        """Return a partition in which nothing runs, at a second, with all applications."""
        clock = [START]
        partition = Partition(self.config, cluster=self.cluster, clock=lambda: clock[0])
        partition.exceeded_limits()
        clock[0] = now
        for user in USERS.values():
            for queue in QUEUES:
                partition.submit(f"{user.name} {queue}", user, queue)
        return partition

    def _run(self) -> None:
        for number in range(self.random.randint(0, 8)):
            self.partition.allocate(**self._request(f"held-{number}", 4)._asdict())
        for number in range(self.random.randint(0, 3)):
            self.partition.request(**self._request(f"pending-{number}", 6)._asdict())

    def _request(self, name: str, most: int, application: str = "") -> AllocationRequest:
        application = application or self.random.choice([one.application_id for one in self.partition.applications()])
        return AllocationRequest(
            name,
            application,
            self._amounts(most),
            preemptible=self.random.random() < 0.8,
            duration=self.random.choice([60, 60, 60, None]),
        )

    def can_wait(self, requests: Sequence[AllocationRequest]) -> bool:
        """Return whether an empty partition allows some requests together at some time."""
        for at in self.times:
            # A denial changes nothing.
            emptied = self.emptied.pop(at, None) or self.empty(at)
            if emptied.allocate_all(requests):
                return True
            self.emptied[at] = emptied
        return False

    def denials(self) -> Iterator[tuple[str, Decision, list[AllocationRequest]]]:
        """Yield denials of all kinds, each with the requests that were denied."""
        for number in range(4):
            one = self._request(f"one-{number}", self.random.choice([4, 16]))
            arguments: Mapping[str, Any] = one._asdict()
            query = {name: arguments[name] for name in ("usage", "preemptible", "duration")}
            application = self.partition.application(one.application_id)
            assert application is not None
            subject = UserInQueue(application.user, application.queue_path)
            yield "check", self.partition.check(one.application_id, **query), [one]
            yield "explain", self.partition.explain(one.application_id, **query).decision, [one]
            yield "user", self.partition.check(subject, **query), [one]
            yield "allocate", self.partition.allocate(**arguments), [one]
        applications = [one.application_id for one in self.partition.applications()]
        for number in range(3):
            few = self.random.sample(applications, self.random.randint(1, 2))
            gang = [
                self._request(f"gang-{number}-{position}", self.random.choice([2, 4, 8]), self.random.choice(few))
                for position in range(self.random.randint(2, 4))
            ]
            yield "gang", self.partition.allocate_all(gang), gang
        for held in self.partition.allocations()[:3]:
            if held.state != "pending":
                more = held.usage + Resource({name: self.random.randint(1, 9) for name in held.usage})
                again = AllocationRequest("new", held.application_id, more, preemptible=held.preemptible)
                duration = None if held.until is None else held.until - NOW
                yield "resize", self.partition.resize(held.allocation_id, more), [again._replace(duration=duration)]


def check(seed: int) -> int:
    """Compare all denials of a world, and return their number."""
    world, count = World(seed), 0
    for call, decision, requests in world.denials():
        if not decision:
            count += 1
            assert decision.can_wait is world.can_wait(requests), (seed, call, str(decision), requests)
            assert decision.can_wait is ("waiting can help" in str(decision))
    world.partition.verify()
    return count


@pytest.mark.parametrize("block", seeds(1, 3, 1000))
def test_never(block: int) -> None:
    """Every denial in a block of ten worlds states exactly whether waiting can help."""
    assert sum(check(seed) for seed in range(10 * block, 10 * block + 10)) > 20


class Shelf(Failing):
    """Three licences, which also knows what several claims need together."""

    def never(self, claims: Sequence[Claim]) -> Iterator[Violation]:
        """Return the limit if the claims need more than it."""
        amount = sum(claim.usage["licence"] for claim in claims)
        if amount > self.limit:
            yield Violation("licence", "solver", "", "", "licence", self.limit, 0, amount)


@pytest.mark.parametrize(
    ("model", "amounts", "denied"),
    [
        (Failing, (3, 4, 5), [(3, 4, 4)]),
        (Failing, (3, 3), [(3, 1, 3)]),
        (Shelf, (1, 2), [(3, 2, 2)]),
        (Shelf, (2, 2), [(3, 0, 4)]),
    ],
)
def test_denial_of_a_gang_keeps_what_never_fits(
    model: type[Failing], amounts: Sequence[int], denied: list[tuple[int, int, int]]
) -> None:
    """Of several denials by one limit of a model, the first counts, or the first for which waiting cannot help."""
    partition = Partition(models=[model(3)])
    partition.adopt_application("app", USERS["eve"], "root.q")
    partition.adopt("held", "app", Resource(licence=1))
    gang = [AllocationRequest(f"{number}", "app", Resource(licence=amount)) for number, amount in enumerate(amounts)]

    assert [violation[5:] for violation in partition.allocate_all(gang).violations] == denied
