"""Checks before admission: the answer to a new application is the one that its first allocation gets.

Every scene has queues of the configuration, queues of namespaces with and without a quota of their own, templates,
limits of users and groups, nodes, and an additional quota model.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from support.examples import seeds
from ugm import Decision, Partition, Resource, UserGroup, UserInQueue, parse_config
from ugm.decision import Violation
from ugm.model import Claim

NAMES: Final = ("vcore", "memory", "gpu", "disk")
USERS: Final = (UserGroup("ana", ("red",)), UserGroup("ben", ("blue", "red")), UserGroup("eve"))
QUEUES: Final = ("root.fixed", "root.spaces.one", "root.spaces.two", "root.plain.one", "root.spaces.deep.three")


class Gate:
    """Limits the units of `disk` in one allocation."""

    def check(self, claim: Claim) -> Iterator[Violation]:
        """Deny what asks for too much."""
        if claim.usage.get("disk", 0) > 5:
            yield Violation("gate", "disk", "", "", "disk", 5, 0, claim.usage["disk"])

    def charge(self, _: Claim) -> None:
        """Count nothing."""

    def refund(self, _: Claim) -> None:
        """Count nothing."""


def some(random: Random, most: int, names: tuple[str, ...] = NAMES) -> Resource:
    """Return amounts of some resources, zeros included."""
    chosen = random.sample(names, random.randint(1, len(names)))
    return Resource({name: random.randint(0, most) for name in chosen})


def scene(random: Random) -> Partition:
    """Return a partition in which something runs."""
    template = random.choice(["{}", "{maxapplications: 3}", "{resources: {max: {memory: 9, gpu: 4}}}"])
    config = parse_config(
        f"""
        partitions:
        - placementrules: [{{name: provided, create: true}}]
          limits:
          - {{users: [ana], maxresources: {{memory: 20}}, maxapplications: 3}}
          - {{groups: [red], maxresources: {{gpu: 8}}}}
          queues:
          - {{name: fixed, resources: {{max: {{memory: 10}}}}}}
          - {{name: spaces, parent: true, childtemplate: {template}, resources: {{max: {{memory: 30}}}}}}
          - {{name: plain, parent: true}}
        """
    )
    mode = random.choice(["always", "unless-user-limited"])
    models = [Gate()] if random.random() < 0.3 else []
    partition = Partition(config.partition(), models=models, group_limits=mode)  # type: ignore[arg-type]
    for count in range(random.randint(0, 2)):
        partition.add_node(f"node-{count}", some(random, 25, NAMES[: random.randint(1, 4)]))
    for count in range(random.randint(0, 6)):
        quota = some(random, 12) if random.random() < 0.5 else None
        name = f"old-{count}"
        if partition.submit(name, random.choice(USERS), random.choice(QUEUES), quota=quota):
            partition.adopt(name, name, some(random, 6))
    return partition


def sorted_violations(decision: Decision) -> list[str]:
    """Return what is in the way, in an order of its own."""
    return sorted(map(str, decision.violations))


@pytest.mark.parametrize("seed", seeds(40, 160, 400))
def test_check_of_a_user_is_submit_and_allocate(seed: int) -> None:
    """`check` of a user in a queue answers what `submit` with the same quota and the first `allocate` then answer."""
    random = Random(seed)
    partition = scene(random)
    for count in range(5):
        user, usage = random.choice(USERS), some(random, 8)
        quota = some(random, 12) if random.random() < 0.6 else None
        tags = {"team": "red"} if random.random() < 0.5 else None
        path = partition.place(user, random.choice(QUEUES), tags).queue_path
        assert path is not None
        before = partition.queue(), partition.applications(), partition.users()
        subject = UserInQueue(user, path, tags, quota)
        decision_found, explained = partition.check(subject, usage), partition.explain(subject, usage)
        limits, headroom = partition.limits(subject), partition.headroom(subject)
        report = partition.explain_submission(user, path, usage, tags, quota=quota)
        assert (partition.queue(), partition.applications(), partition.users()) == before

        name = f"new-{count}"
        assert partition.submit(name, user, path, tags=tags, quota=quota).queue_path == path
        assert (limits, headroom) == (partition.limits(name), partition.headroom(name))
        assert (explained.limits, explained.headroom) == (limits, headroom)
        decision = partition.allocate(name, name, usage)
        assert decision_found.allowed is explained.decision.allowed is decision.allowed
        assert sorted_violations(decision_found) == sorted_violations(decision)
        assert explained.decision == decision_found
        if report.explanation.queue_path == path:
            assert report.explanation == explained
    partition.verify()
