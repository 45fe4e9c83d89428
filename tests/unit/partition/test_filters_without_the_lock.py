"""Filters of placement rules are matched before the lock of the partition is taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.partition_fixtures import memory
from ugm import Partition, UserGroup, parse_config
from ugm.queues.patterns import Matcher

CONFIG = """
partitions:
- queues: [{name: a}]
  placementrules:
  - {name: fixed, value: b, create: true, filter: {users: ["^x+$"], groups: ["^(y|z)+$"]}}
  - name: user
    create: true
    filter: {type: deny, users: ["^s+$"]}
    parent: {name: fixed, value: c, create: true, filter: {groups: ["(g)+"]}}
  - {name: fixed, value: a}
"""
SUE = UserGroup("sue", ("ops", "lab"))


@pytest.mark.parametrize(
    "operation",
    [
        lambda partition: partition.submit("app", SUE),
        lambda partition: partition.place(SUE),
        lambda partition: partition.explain_submission(SUE, "", memory(1)),
    ],
    ids=["submit", "place", "explain_submission"],
)
def test_patterns_are_matched_first(operation: Callable[[Partition], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads do not wait for long patterns and many groups."""
    search, locked = Matcher.search, list[bool]()

    def noted(matcher: Matcher, text: str) -> bool:
        locked.append(partition._lock.is_owned())
        return search(matcher, text)

    monkeypatch.setattr(Matcher, "search", noted)
    partition = Partition(parse_config(CONFIG).partition())
    operation(partition)

    assert len(locked) >= 5
    assert not any(locked)
