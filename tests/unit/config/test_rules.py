"""The types of values and the rules of a configuration: each violation has a place and a code."""

from __future__ import annotations

from typing import Final

import pytest

from support.config_cases import problems_of

#: Partitions, each with the last parts of the paths and the codes of its problems.
CASES: Final = r"""
ALL {partitions: []}
-> partitions partitions-missing

{name: GPU, queues: []}, {name: gpu, queues: []}
-> name partition-name-duplicate

{name: gpu}
-> queues queues-missing

{queues: [{name: root, resources: {max: {}}}]}
-> max root-has-resources

{limits: [{users: [ana], maxapplications: 2}], queues: [{name: root, limits: [{users: [ana], maxapplications: 3}]}]}
-> limits partition-limits-differ

{queues: [], nodesortpolicy: {type: Fair, resourceweights: {vcore: -0.5, memory: 2}}}
-> type node-sort-policy-unknown, vcore node-sort-weight-negative

{queues: [{name: root, queues: [{name: Root}]}]}
-> name queue-name-reserved

{queues: [{name: a, submitacl: 'ana, bob data', adminacl: '*'}]}
-> submitacl acl-too-many-parts

{queues: [{name: p, resources: {max: {memory: 0}}, queues: [{name: a, resources: {max: {memory: 1}}}]}]}
-> memory queue-max-above-parent

{queues: [{name: p, resources: {guaranteed: {memory: 2Gi, vcore: 1}, max: {memory: 1Gi}}}]}
-> memory queue-guaranteed-above-max

{queues: [{name: p, resources: {guaranteed: {memory: 3}}, queues: [{name: a, resources: {guaranteed: {memory: 2}}},
{name: b, queues: [{name: c, resources: {guaranteed: {memory: 2}}}]}]}]}
-> memory queue-guaranteed-sum-above-guaranteed

{queues: [{name: p, resources: {max: {memory: 9223372036854775807}}, queues: [{name: a, resources: {guaranteed:
{memory: 9223372036854775807}}}, {name: b, resources: {guaranteed: {memory: 9223372036854775807}}}]}]}
-> memory queue-guaranteed-sum-above-max

{queues: [{name: root, maxapplications: 5, queues: [{name: a, maxapplications: 6}]}]}
-> maxapplications queue-applications-above-parent

{queues: [{name: p, maxapplications: 3, resources: {max: {memory: 5}}, childtemplate: {maxapplications: 4, resources:
{guaranteed: {vcore: 2, memory: 6}, max: {vcore: 1, memory: 7}}}}]}
-> maxapplications template-above-queue, vcore template-guaranteed-above-max, memory template-above-queue, memory
template-above-queue

{queues: [{name: root, limits: [{maxapplications: 1}]}]}
-> limits[0] limit-names-nobody

{queues: [{name: root, limits: [{users: [9ana, '', ana$, 'a b', ana$b], groups: [dev#1, dev.1], maxapplications:
1}]}]}
-> users[0] limit-user-name-invalid, users[1] limit-user-name-invalid, users[3] limit-user-name-invalid, users[4]
limit-user-name-invalid, groups[0] limit-group-name-invalid

{queues: [{name: root, limits: [{users: [ana, bob, ana], groups: [dev], maxapplications: 1}, {groups: [dev],
maxapplications: 1}]}]}
-> users[2] limit-user-duplicate, groups[0] limit-group-duplicate

{queues: [{name: root, limits: [{users: ['*', ana], groups: [dev, '*'], maxapplications: 1}, {users: [bob], groups:
[test], maxapplications: 1}]}]}
-> users[1] limit-user-after-wildcard, users[0] limit-user-after-wildcard, groups[0] limit-group-after-wildcard

{queues: [{name: root, limits: [{groups: ['*'], maxapplications: 1}]}]}
-> groups[0] limit-group-wildcard-alone

{queues: [{name: root, limits: [{users: [ana], maxresources: {memory: 0, vcore: 0m}, maxapplications: 1}]}]}
-> maxresources limit-resources-zero

{queues: [{name: a, maxapplications: 3, resources: {max: {memory: 1Gi}}, limits: [{users: [ana], maxresources:
{memory: 1025Mi, vcore: 9}, maxapplications: 4}]}]}
-> memory limit-resources-above-queue, maxapplications limit-applications-above-queue

{queues: [{name: prod, limits: [{users: [ana], groups: [dev, '*'], maxresources: {memory: 2}}, {users: ['*'],
maxresources: {memory: 5}}], queues: [{name: web, limits: [{users: [bob], groups: [test], maxresources: {memory:
6}}]}]}]}
-> memory limit-group-above-wildcard, memory limit-user-above-wildcard

{queues: [{name: prod, limits: [{users: ['*'], maxresources: {memory: 5}}], queues: [{name: web, limits: [{users:
['*'], maxresources: {memory: 6}}]}]}]}
-> memory limit-user-above-ancestor

{queues: [{name: prod, limits: [{users: [ana], groups: [dev], maxapplications: 2}], queues: [{name: web, limits:
[{users: [ana], groups: [dev], maxapplications: 3}]}]}]}
-> maxapplications limit-group-applications-above-ancestor, maxapplications limit-user-applications-above-ancestor

{queues: [{name: prod, limits: [{users: ['*'], maxapplications: 2}], queues: [{name: web, limits: [{users: [ana],
maxapplications: 3}]}]}]}
-> maxapplications limit-user-applications-above-wildcard

{queues: [{name: prod, limits: [{users: ['*'], maxapplications: 2}], queues: [{name: web, limits: [{users: [ana],
maxresources: {memory: 1}}]}]}]}
-> limits[0] limit-user-applications-missing

{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [{name: my-rule}, {name: user, parent:
{name: 1st}}, {create: true}, {name: usr, create: true}, {name: recovery}]}
-> name placement-rule-name-invalid, name placement-rule-name-invalid, name placement-rule-name-invalid, name
placement-rule-name-invalid, name placement-rule-name-invalid

{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [{name: fixed}, {name: tag, value: ''}]}
-> placementrules[0] placement-value-missing, placementrules[1] placement-value-missing

{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [{name: fixed, value: ..., create: true},
{name: user, create: true, parent: {name: fixed, value: 'a b', create: true}}, {name: fixed, value: root.new, create:
true, parent: {name: user, create: true}}]}
-> value placement-value-invalid, value placement-value-invalid, value placement-qualified-below-rule

{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [{name: user, filter: {type: Denied}}]}
-> type placement-filter-type-invalid

{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [{name: user, filter: {users: ['[a'],
groups: ['g h']}}]}
-> users[0] placement-filter-users-invalid, groups[0] placement-filter-groups-invalid

{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [{name: fixed, value: root.nothere},
{name: fixed, value: nothere}]}
-> value placement-queue-missing, value placement-queue-missing

{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [{name: fixed, value: root.TOP}, {name:
fixed, value: root, create: true}]}
-> value placement-queue-not-leaf, value placement-queue-not-leaf

{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [{name: user, create: true, parent:
{name: fixed, value: leaf}}]}
-> value placement-queue-not-parent

{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [{name: fixed, value: leaf.below, create:
true}]}
-> value placement-below-leaf

ALL {partitions: [{queues: [{name: a, resources: {maximum: {memory: 1}}}], nodesortpolicy: {resource_weights: {}}}],
foo: ~}
-> maximum field-unknown, resource_weights field-unknown, foo field-unknown

{queues: [{name: a, resources: {max: {'': 1, 'a b': 2}}}]}
->  resource-name-invalid, a b resource-name-invalid

{queues: [], nodesortpolicy: {resourceweights: {a: '1', b: .inf, c: 1e999, d: 0x1, e: ~}}}
-> a weight-invalid, b weight-invalid, c weight-invalid, d weight-invalid, e weight-invalid

{queues: [{name: root, parent: red, limits: [{users: [ana, ana], maxapplications: many}, {users: [9], maxresources:
{memory: 1x}}], queues: [{name: a b}]}], name: x, name: y}
-> parent boolean-invalid, users[1] limit-user-duplicate, maxapplications count-invalid, users[0]
limit-user-name-invalid, memory quantity-invalid, name queue-name-invalid, name yaml-key-duplicate

{queues: [{name: root, maxapplications: 5, limits: [{limit: [x], users: [ana]}], queues: [{name: a, properties: 5},
{name: A, maxapplications: 1, adminacl: {}}]}]}
-> limits[0] limit-sets-nothing, limit wrong-type, queues[0] queue-applications-missing, properties wrong-type, name
queue-name-duplicate, adminacl wrong-type
"""


def _parsed(block: str) -> tuple[str, list[str]]:
    text, _, expected = " ".join(block.split()).partition(" -> ")
    whole = text.removeprefix("ALL ") if text.startswith("ALL ") else f"{{partitions: [{text}]}}"
    return whole, expected.split(", ")


@pytest.mark.parametrize(("text", "expected"), [_parsed(block) for block in CASES.strip().split("\n\n")])
def test_violations(text: str, expected: list[str]) -> None:
    """What breaks a rule is reported with the path of the value and a code."""
    found = [problem.splitlines()[:2] for problem in problems_of(text)]

    assert [f"{path.rpartition('.')[2]} {place.split()[1]}".strip() for place, path in found] == expected
