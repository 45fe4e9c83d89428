"""The rules of limits: each with its place, its code and its sentence."""

from __future__ import annotations

import pytest

from support.config_cases import problems_of, table
from ugm.config import LimitConfig, PartitionConfig, QueueConfig, parse_config
from ugm.config.findings import LocatedPartition
from ugm.config.validation_limits import _name_sets, limit_resources_fit_ancestors
from ugm.resources import Resource

LIMITS = table("""
a limit for nobody
partitions:
- queues:
  - name: root
    limits:
    - maxapplications: 1
----
5:7 limit-names-nobody
partitions[0].queues[0].limits[0]
the limit names no user and no group
====
names that are none
partitions:
- queues:
  - name: root
    limits:
    - users: [9ana, '', ana$, 'a b', ana$b]
      groups: [dev#1, dev.1]
      maxapplications: 1
----
5:15 limit-user-name-invalid
partitions[0].queues[0].limits[0].users[0]
'9ana' NO USER
5:21 limit-user-name-invalid
partitions[0].queues[0].limits[0].users[1]
'' NO USER AT ALL
5:31 limit-user-name-invalid
partitions[0].queues[0].limits[0].users[3]
'a b' NO USER
5:38 limit-user-name-invalid
partitions[0].queues[0].limits[0].users[4]
'ana$b' NO USER
6:16 limit-group-name-invalid
partitions[0].queues[0].limits[0].groups[0]
'dev#1' NO GROUP
====
names given twice, in one limit and in two
partitions:
- queues:
  - name: root
    limits:
    - users: [ana, bob, ana]
      groups: [dev]
      maxapplications: 1
    - groups: [dev]
      maxapplications: 1
----
5:25 limit-user-duplicate
partitions[0].queues[0].limits[0].users[2]
user 'ana' already has a limit in root (limits[0])
8:16 limit-group-duplicate
partitions[0].queues[0].limits[1].groups[0]
group 'dev' already has a limit in root (limits[0])
====
the wildcard given twice
partitions:
- queues:
  - name: root
    limits:
    - users: ['*']
      maxapplications: 1
    - users: ['*']
      maxapplications: 2
----
7:15 limit-user-duplicate
partitions[0].queues[0].limits[1].users[0]
user '*' already has a limit in root (limits[0])
====
names after the wildcard of their kind
partitions:
- queues:
  - name: root
    limits:
    - users: ['*', ana]
      groups: [dev, '*']
      maxapplications: 1
    - users: [bob]
      groups: [test]
      maxapplications: 1
----
5:20 limit-user-after-wildcard
partitions[0].queues[0].limits[0].users[1]
user 'ana' follows the user wildcard (limits[0]) and has no effect
8:15 limit-user-after-wildcard
partitions[0].queues[0].limits[1].users[0]
user 'bob' follows the user wildcard (limits[0]) and has no effect
9:16 limit-group-after-wildcard
partitions[0].queues[0].limits[1].groups[0]
group 'test' follows the group wildcard (limits[0]) and has no effect
====
a group wildcard without named groups
partitions:
- queues:
  - name: root
    limits:
    - groups: ['*']
      maxapplications: 1
----
5:16 limit-group-wildcard-alone
partitions[0].queues[0].limits[0].groups[0]
no named group precedes the group wildcard in the limits of root
====
limits that set nothing
partitions:
- queues:
  - name: root
    limits:
    - users: [ana]
    - users: [bob]
      maxresources: {}
    - users: [eve]
      maxapplications: 0
----
5:7 limit-sets-nothing
partitions[0].queues[0].limits[0]
the limit sets no maximum (required: maxresources, maxapplications or ugm)
6:7 limit-sets-nothing
partitions[0].queues[0].limits[1]
the limit sets no maximum (required: maxresources, maxapplications or ugm)
8:7 limit-sets-nothing
partitions[0].queues[0].limits[2]
the limit sets no maximum (required: maxresources, maxapplications or ugm)
====
a limit whose resources are all 0
partitions:
- queues:
  - name: root
    limits:
    - users: [ana]
      maxresources: {memory: 0, vcore: 0m}
      maxapplications: 1
----
6:7 limit-resources-zero
partitions[0].queues[0].limits[0].maxresources
every resource of the limit is 0 (allowed: at least one above 0)
====
a limit above the maxima of its queue
partitions:
- queues:
  - name: a
    maxapplications: 3
    resources: {max: {memory: 1Gi}}
    limits:
    - users: [ana]
      maxresources: {memory: 1025Mi, vcore: 9}
      maxapplications: 4
----
8:30 limit-resources-above-queue
partitions[0].queues[0].limits[0].maxresources.memory
the limit allows memory 1025Mi, but root.a only 1Gi
9:24 limit-applications-above-queue
partitions[0].queues[0].limits[0].maxapplications
the limit allows 4 applications, but root.a only 3
====
more resources than the nearest queue above that sets them
partitions:
- queues:
  - name: prod
    limits:
    - {users: [ana], maxresources: {memory: 20Gi}}
    queues:
    - name: web
      limits: [{users: [ana], maxresources: {vcore: 1}}]
      queues:
      - name: front
        limits: [{users: [bob, ana], maxresources: {memory: 30Gi}}]
----
11:61 limit-user-above-ancestor
partitions[0].queues[0].queues[0].queues[0].limits[0].maxresources.memory
user 'ana' may use memory 30Gi here, but only 20Gi in root.prod (limits[0])
====
more resources than the wildcards above
partitions:
- queues:
  - name: prod
    limits:
    - {users: [ana], groups: [dev, '*'], maxresources: {memory: 2}}
    - {users: ['*'], maxresources: {memory: 5}}
    queues:
    - name: web
      limits: [{users: [bob], groups: [test], maxresources: {memory: 6}}]
----
9:70 limit-group-above-wildcard
partitions[0].queues[0].queues[0].limits[0].maxresources.memory
group 'test' may use memory 6 here, but only 2 in the wildcard of root.prod (limits[0])
9:70 limit-user-above-wildcard
partitions[0].queues[0].queues[0].limits[0].maxresources.memory
user 'bob' may use memory 6 here, but only 5 in the wildcard of root.prod (limits[1])
====
a wildcard above the wildcard of the queue above
partitions:
- queues:
  - name: prod
    limits: [{users: ['*'], maxresources: {memory: 5}}]
    queues:
    - name: web
      limits: [{users: ['*'], maxresources: {memory: 6}}]
----
7:54 limit-user-above-ancestor
partitions[0].queues[0].queues[0].limits[0].maxresources.memory
user '*' may use memory 6 here, but only 5 in root.prod (limits[0])
====
more applications than an entry above
partitions:
- queues:
  - name: prod
    limits: [{users: [ana], groups: [dev], maxapplications: 2}]
    queues:
    - name: web
      limits: [{users: [ana], groups: [dev], maxapplications: 3}]
----
7:63 limit-group-applications-above-ancestor
partitions[0].queues[0].queues[0].limits[0].maxapplications
group 'dev' may run 3 applications here, but only 2 in root.prod (limits[0])
7:63 limit-user-applications-above-ancestor
partitions[0].queues[0].queues[0].limits[0].maxapplications
user 'ana' may run 3 applications here, but only 2 in root.prod (limits[0])
====
more applications than the wildcard above
partitions:
- queues:
  - name: prod
    limits: [{users: ['*'], maxapplications: 2}]
    queues:
    - name: web
      limits: [{users: [ana], maxapplications: 3}]
----
7:48 limit-user-applications-above-wildcard
partitions[0].queues[0].queues[0].limits[0].maxapplications
user 'ana' may run 3 applications here, but only 2 in the wildcard of root.prod (limits[0])
====
any number of applications below an entry that counts them
partitions:
- queues:
  - name: prod
    limits: [{users: ['*'], maxapplications: 2}]
    queues:
    - name: web
      limits: [{users: [ana], maxresources: {memory: 1}}]
----
7:16 limit-user-applications-missing
partitions[0].queues[0].queues[0].limits[0]
user 'ana' may run any number of applications here, but only 2 in the wildcard of root.prod (limits[0])
""")


@pytest.mark.parametrize(("text", "problems"), LIMITS)
def test_limit_rules(text: str, problems: list[str]) -> None:
    """What breaks a rule of limits is reported at its place."""
    assert problems_of(text) == problems


@pytest.mark.parametrize(
    "limits",
    [
        "[{users: [ana, '*'], maxapplications: 1}]",
        "[{users: [data], groups: [data, '*'], maxapplications: 1}]",
        "[{groups: [dev], maxapplications: 1}, {users: ['*'], groups: ['*'], maxapplications: 1}]",
        "[{users: [ana$, _x, a/b, a#1, 'a:b', a@b.c], groups: [_g, 'a:b', a.b-c], maxapplications: 1}]",
        "[{users: [ana], maxresources: {memory: 0, vcore: 1}}]",
        "[{users: [ana], maxresources: {}, maxapplications: 1}]",
    ],
)
def test_limits_that_keep_the_rules(limits: str) -> None:
    """What the rules allow is accepted: wildcards at the end, every kind of name, single zeros."""
    parse_config(f"partitions: [{{queues: [{{name: root, limits: {limits}}}]}}]")


@pytest.mark.parametrize(
    ("above", "here"),
    [
        pytest.param(
            "{users: [ana], maxapplications: 1}", "{users: ['*'], maxapplications: 9}", id="wildcard below name"
        ),
        pytest.param("{users: [ana], maxapplications: 1}", "{groups: [ana], maxapplications: 9}", id="another kind"),
        pytest.param(
            "{users: [ana], maxresources: {vcore: 1}}", "{users: [ana], maxapplications: 9}", id="nothing shared"
        ),
        pytest.param(
            "{users: [ana, '*'], maxresources: {vcore: 1}}", "{users: [ana], maxresources: {memory: 9}}", id="left open"
        ),
    ],
)
def test_entries_that_hold_nobody_below(above: str, here: str) -> None:
    """An entry holds entries of the same kind and name below it, and a wildcard those of names that none above has."""
    parse_config(
        f"partitions: [{{queues: [{{name: root, limits: [{above}], queues: [{{name: a, limits: [{here}]}}]}}]}}]"
    )


def test_named_entry_goes_before_a_nearer_wildcard() -> None:
    """An entry is held by the entry of its name above, even if a wildcard is nearer."""
    parse_config("""
        partitions:
        - queues:
          - name: root
            limits: [{users: [ana], maxapplications: 9}]
            queues:
            - name: a
              limits: [{users: ['*'], maxapplications: 2}]
              queues: [{name: b, limits: [{users: [ana], maxapplications: 5}]}]
    """)


def test_limit_above_the_maximum_of_a_queue_further_up() -> None:
    """A limit is compared with the maximum of its own queue alone."""
    parse_config("""
        partitions:
        - queues:
          - name: a
            resources: {max: {vcore: 5}}
            queues: [{name: b, limits: [{users: [ana], maxresources: {vcore: 50}}]}]
    """)


def test_amounts_are_compared_once_for_many_names() -> None:
    """Names of a limit that the same limits above hold are one group, whose amounts are compared once."""
    names = tuple(f"u{number}" for number in range(100))
    limit = LimitConfig(users=names, max_resources=Resource(memory=2, vcore=1))
    above = (LimitConfig(users=names[:50], max_applications=1), LimitConfig(users=("*",), max_applications=1))
    child = QueueConfig(name="b", limits=(limit,))
    root = LocatedPartition(PartitionConfig(queues=(QueueConfig(name="a", limits=above, queues=(child,)),)), ()).root

    groups = list(_name_sets(root.children[0].children[0]))

    assert [len(group.names) for group in groups] == [50, 50]
    assert [[held.relation for held in group.above] for group in groups] == [["ancestor"], ["wildcard"]]


def test_findings_come_one_by_one() -> None:
    """A rule yields its first finding before it has looked at everything, so that its caller can stop."""
    limits = tuple(LimitConfig(users=(f"u{number}",), max_resources=Resource(memory=2)) for number in range(1000))
    above = LimitConfig(users=("*",), max_resources=Resource(memory=1))
    child = QueueConfig(name="b", limits=limits)
    root = LocatedPartition(PartitionConfig(queues=(QueueConfig(name="a", limits=(above,), queues=(child,)),)), ()).root

    finding = next(limit_resources_fit_ancestors(root.children[0].children[0]))

    assert finding.path == ("queues", 0, "queues", 0, "limits", 0, "maxresources", "memory")


def test_the_nearest_limit_that_sets_an_amount_holds() -> None:
    """Of several entries above, some shared between names, the nearest that sets a resource hides those beyond it."""
    text = """
partitions:
- queues:
  - name: a
    limits: [{users: [ana, ben, eve], maxresources: {vcore: 1, memory: 1}}]
    queues:
    - name: b
      limits: [{users: [ana], maxresources: {vcore: 1}}, {users: [ben], maxresources: {memory: 1}}]
      queues: [{name: c, limits: [{users: [ana, ben, eve, joe], maxresources: {vcore: 1, memory: 2}}]}]
"""

    assert [problem.splitlines()[2] for problem in problems_of(text)] == [
        "user 'ana' may use memory 2 here, but only 1 in root.a (limits[0])",
        "user 'ben' may use memory 2 here, but only 1 in root.a.b (limits[1])",
        "user 'eve' may use memory 2 here, but only 1 in root.a (limits[0])",
    ]
