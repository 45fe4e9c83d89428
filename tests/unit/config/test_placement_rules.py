"""The rules of placement rules: each with its place, its code and its sentence."""

from __future__ import annotations

import pytest

from support.config_cases import problems_of, table
from ugm.config import PartitionConfig, PlacementRule, QueueConfig, parse_config
from ugm.config.findings import LocatedPartition
from ugm.config.validation_placement import placement_queue_can_be_used

PLACEMENT = table(r"""
rules that do not exist
partitions:
- queues:
  - {name: leaf}
  - {name: Top, queues: [{name: low}]}
  placementrules:
  - name: my-rule
  - {name: user, parent: {name: 1st}}
  - create: true
  - {name: usr, create: true}
  - {name: recovery}
----
6:11 placement-rule-name-invalid
partitions[0].placementrules[0].name
'my-rule': unknown placement rule (allowed: fixed, provided, tag, user)
7:33 placement-rule-name-invalid
partitions[0].placementrules[1].parent.name
'1st': unknown placement rule (allowed: fixed, provided, tag, user)
8:5 placement-rule-name-invalid
partitions[0].placementrules[2].name
'': unknown placement rule (allowed: fixed, provided, tag, user)
9:12 placement-rule-name-invalid
partitions[0].placementrules[3].name
'usr': unknown placement rule (allowed: fixed, provided, tag, user)
10:12 placement-rule-name-invalid
partitions[0].placementrules[4].name
'recovery': unknown placement rule (allowed: fixed, provided, tag, user)
====
rules without the value that they need
partitions:
- queues:
  - {name: leaf}
  - {name: Top, queues: [{name: low}]}
  placementrules:
  - name: fixed
  - {name: tag, value: ''}
----
6:5 placement-value-missing
partitions[0].placementrules[0]
a fixed rule needs a queue: names separated by single dots
7:5 placement-value-missing
partitions[0].placementrules[1]
a tag rule needs the name of a tag
====
values of fixed rules that are no queues
partitions:
- queues:
  - {name: leaf}
  - {name: Top, queues: [{name: low}]}
  placementrules:
  - {name: fixed, value: ..., create: true}
  - {name: user, create: true, parent: {name: fixed, value: 'a b', create: true}}
  - {name: fixed, value: root.new, create: true, parent: {name: user, create: true}}
----
6:26 placement-value-invalid
partitions[0].placementrules[0].value
'...': a fixed rule needs a queue: names separated by single dots
7:61 placement-value-invalid
partitions[0].placementrules[1].parent.value
'a b': a fixed rule needs a queue: names separated by single dots
8:26 placement-qualified-below-rule
partitions[0].placementrules[2].value
'root.new': a path that starts with 'root' cannot be combined with a parent rule
====
an unknown type of filter
partitions:
- queues:
  - {name: leaf}
  - {name: Top, queues: [{name: low}]}
  placementrules:
  - {name: user, filter: {type: Denied}}
----
6:33 placement-filter-type-invalid
partitions[0].placementrules[0].filter.type
'Denied': expected 'allow' or 'deny'
====
filters that are neither a name nor a pattern
partitions:
- queues:
  - {name: leaf}
  - {name: Top, queues: [{name: low}]}
  placementrules:
  - {name: user, filter: {users: ['[a'], groups: ['g h']}}
----
6:35 placement-filter-users-invalid
partitions[0].placementrules[0].filter.users[0]
'[a': the class is not closed: it begins at character 1
6:51 placement-filter-groups-invalid
partitions[0].placementrules[0].filter.groups[0]
'g h' NO GROUP, and not a regular expression
====
patterns whose syntax is not supported
partitions:
- queues:
  - {name: leaf}
  - {name: Top, queues: [{name: low}]}
  placementrules:
  - {name: user, filter: {users: ['(?=a).*']}}
  - {name: user, filter: {users: ['(a)\1']}}
  - {name: user, filter: {users: ['\pL+']}}
  - {name: user, filter: {users: ['a{99999999999}']}}
----
6:35 placement-filter-users-invalid
partitions[0].placementrules[0].filter.users[0]
'(?=a).*': the group (?=a at character 1 is not supported
7:35 placement-filter-users-invalid
partitions[0].placementrules[1].filter.users[0]
'(a)\\1': the escape \1 at character 4 is not supported
8:35 placement-filter-users-invalid
partitions[0].placementrules[2].filter.users[0]
'\\pL+': the escape \p at character 1 is not supported
9:35 placement-filter-users-invalid
partitions[0].placementrules[3].filter.users[0]
'a{99999999999}': a repetition of more than 1000 times at character 2
====
a second path from the root in a chain
partitions:
- queues:
  - {name: leaf}
  - {name: Top, queues: [{name: low}]}
  placementrules:
  - {name: fixed, value: root.b, parent: {name: fixed, value: root.top}}
----
6:26 placement-qualified-below-rule
partitions[0].placementrules[0].value
'root.b': a path that starts with 'root' cannot be combined with a parent rule
====
a queue that does not exist and is not created
partitions:
- queues:
  - {name: leaf}
  - {name: Top, queues: [{name: low}]}
  placementrules:
  - {name: fixed, value: root.nothere}
  - {name: fixed, value: nothere}
----
6:26 placement-queue-missing
partitions[0].placementrules[0].value
the queue root.nothere does not exist, and the rule does not create it
7:26 placement-queue-missing
partitions[0].placementrules[1].value
the queue root.nothere does not exist, and the rule does not create it
====
a queue that takes no applications
partitions:
- queues:
  - {name: leaf}
  - {name: Top, queues: [{name: low}]}
  placementrules:
  - {name: fixed, value: root.TOP}
  - {name: fixed, value: root, create: true}
----
6:26 placement-queue-not-leaf
partitions[0].placementrules[0].value
the rule places applications in root.top, which is not a leaf
7:26 placement-queue-not-leaf
partitions[0].placementrules[1].value
the rule places applications in root, which is not a leaf
====
a leaf as the parent of other rules
partitions:
- queues:
  - {name: leaf}
  - {name: Top, queues: [{name: low}]}
  placementrules:
  - {name: user, create: true, parent: {name: fixed, value: leaf}}
----
6:61 placement-queue-not-parent
partitions[0].placementrules[0].parent.value
other rules add names to root.leaf, which is a leaf
====
a queue below a leaf
partitions:
- queues:
  - {name: leaf}
  - {name: Top, queues: [{name: low}]}
  placementrules:
  - {name: fixed, value: leaf.below, create: true}
----
6:26 placement-below-leaf
partitions[0].placementrules[0].value
the queue root.leaf.below cannot exist: root.leaf is a leaf
""")


@pytest.mark.parametrize(("text", "problems"), PLACEMENT)
def test_placement_rules(text: str, problems: list[str]) -> None:
    """What breaks a rule of placement is reported at its place."""
    assert problems_of(text) == problems


@pytest.mark.parametrize(
    "rule",
    [
        "{name: fixed, value: LEAF}",
        "{name: Fixed, value: root.top.low}",
        "{name: fixed, value: root.new.queue, create: true}",
        "{name: fixed, value: low, parent: {name: fixed, value: root.top}}",
        "{name: user, create: true, parent: {name: fixed, value: top}}",
        "{name: fixed, value: nothere, parent: {name: user}}",
        "{name: fixed, value: rooty, create: true}",
        "{name: user, filter: {type: ALLOW, users: [ana.b], groups: ['dev-[0-9]+']}}",
        "{name: user, filter: {users: [b, '9 nine'], groups: ['(', x]}}",
        "{name: user, filter: {users: ['^\\[a[b\\]-]$']}}",
    ],
)
def test_placement_rules_that_can_be_obeyed(rule: str) -> None:
    """Queues match in any case, what is created need not exist, and patterns may stand alone."""
    text = "partitions: [{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [RULE]}]"
    parse_config(text.replace("RULE", rule))


def test_patterns_are_bounded() -> None:
    """All patterns together have 20,000 characters at most; of more none is compiled."""
    rule = "{name: user, filter: {users: ['%s']}}, "
    text = "partitions: [{queues: [{name: a b}], placementrules: [%s]}]"

    assert len(problems_of(text % (rule % ("a*" * 500) * 20))) == 1
    (problem,) = problems_of(text % (rule % ("a*" * 500) * 21))
    assert problem.endswith(
        " placement-patterns-too-long\npartitions[0].placementrules[20].filter.users[0]\n"
        "the patterns of all filters together are too long (allowed: 20000 characters)"
    )


def test_queues_are_found_by_name() -> None:
    """A rule finds its queue in an index, made once: queues are not searched for each rule."""
    queues = tuple(QueueConfig(name=f"q{number}") for number in range(50))
    rules = tuple(PlacementRule(name="fixed", value=f"q{number}") for number in range(50))
    located = LocatedPartition(PartitionConfig(queues=queues, placement_rules=rules), ())
    index = located.root.child("q0") and located.root._by_name

    assert list(placement_queue_can_be_used(located)) == []
    assert located.root._by_name is index


def test_of_two_queues_of_one_name_the_first_counts() -> None:
    """Queues of one name are a problem of its own; a rule is held against the first."""
    codes = [
        problem.split()[1]
        for problem in problems_of(
            "partitions: [{queues: [{name: a, parent: true}, {name: a}], placementrules: [{name: fixed, value: a}]}]"
        )
    ]

    assert codes == ["queue-name-duplicate", "placement-queue-not-leaf"]
