"""The types of values and the rules of a configuration: each violation has a place and a code."""

from __future__ import annotations

from typing import Final

import pytest

from support.config_cases import problems_of
from ugm.config import parse_config

#: Partitions, each with the last parts of the paths and the codes of its problems.
CASES: Final = r"""
ALL {partitions: []}
-> partitions partitions-missing

{name: GPU, queues: []}, {name: gpu, queues: []}
-> name partition-name-duplicate

{queues: []}, {name: Default, queues: []}
-> name partition-name-duplicate

{name: gpu}
-> queues queues-missing

{queues: [{name: root, resources: {max: {}}}]}
-> max root-has-resources

{queues: [{name: ROOT, resources: {guaranteed: {memory: 1}}}]}
-> guaranteed root-has-resources

{limits: [{users: [ana], maxapplications: 2}], queues: [{name: root, limits: [{users: [ana], maxapplications: 3}]}]}
-> limits partition-limits-differ

{limits: [{users: ['*'], maxapplications: 2}, {users: [bob], maxapplications: 0}], queues: [{name: root, queues:
[{name: a, limits: [{users: [ana], maxapplications: 3}]}]}]}
-> limits[1] limit-sets-nothing, users[0] limit-user-after-wildcard, maxapplications
limit-user-applications-above-wildcard

{queues: [], nodesortpolicy: {type: Fair, resourceweights: {vcore: -0.5, memory: 2}}}
-> type node-sort-policy-unknown, vcore node-sort-weight-negative

{queues: [{name: 'a b'}]}
-> name queue-name-invalid

{queues: [{name: a.b}]}
-> name queue-name-invalid

{queues: [{maxapplications: 1}]}
-> name queue-name-invalid

{queues: [{name: root, queues: [{name: Root}]}]}
-> name queue-name-reserved

{queues: [{name: root}, {name: a}]}
-> name queue-name-reserved

{queues: [{name: Prod}, {name: test}, {name: prod}]}
-> name queue-name-duplicate

{queues: [{name: a, submitacl: 'ana, bob data', adminacl: '*'}]}
-> submitacl acl-too-many-parts

{queues: [{name: p, resources: {max: {vcore: 2, memory: 1Gi}}, queues: [{name: q, queues: [{name: r, resources: {max:
{vcore: 2500m, memory: 1Gi, gpu: 7}}}]}]}]}
-> vcore queue-max-above-parent

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

{queues: [{name: root, maxapplications: 5, queues: [{name: a}]}]}
-> queues[0] queue-applications-missing

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

{queues: [{name: root, limits: [{users: ['*'], maxapplications: 1}, {users: ['*'], maxapplications: 2}]}]}
-> users[0] limit-user-duplicate

{queues: [{name: root, limits: [{users: ['*', ana], groups: [dev, '*'], maxapplications: 1}, {users: [bob], groups:
[test], maxapplications: 1}]}]}
-> users[1] limit-user-after-wildcard, users[0] limit-user-after-wildcard, groups[0] limit-group-after-wildcard

{queues: [{name: root, limits: [{groups: ['*'], maxapplications: 1}]}]}
-> groups[0] limit-group-wildcard-alone

{queues: [{name: root, limits: [{users: [ana]}, {users: [bob], maxresources: {}}, {users: [eve], maxapplications:
0}]}]}
-> limits[0] limit-sets-nothing, limits[1] limit-sets-nothing, limits[2] limit-sets-nothing

{queues: [{name: root, limits: [{users: [ana], maxresources: {memory: 0, vcore: 0m}, maxapplications: 1}]}]}
-> maxresources limit-resources-zero

{queues: [{name: a, maxapplications: 3, resources: {max: {memory: 1Gi}}, limits: [{users: [ana], maxresources:
{memory: 1025Mi, vcore: 9}, maxapplications: 4}]}]}
-> memory limit-resources-above-queue, maxapplications limit-applications-above-queue

{queues: [{name: prod, limits: [{users: [ana], maxresources: {memory: 20Gi}}], queues: [{name: web, limits: [{users:
[ana], maxresources: {vcore: 1}}], queues: [{name: front, limits: [{users: [bob, ana], maxresources: {memory:
30Gi}}]}]}]}]}
-> memory limit-user-above-ancestor

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

{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [{name: user, filter: {users: ['\pL+']}},
{name: user, filter: {users: ['a{99999999999}']}}]}
-> users[0] placement-filter-users-invalid, users[0] placement-filter-users-invalid

{queues: [{name: leaf}, {name: Top, queues: [{name: low}]}], placementrules: [{name: fixed, value: root.b, parent:
{name: fixed, value: root.top}}]}
-> value placement-qualified-below-rule

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

ALL [partitions]
->  wrong-type

ALL hello
->  wrong-type

{queues: [{name: a, limits: [{users: ana, maxapplications: 1}]}]}
-> users wrong-type

ALL {partitions: {queues: []}}
-> partitions wrong-type

{queues: [{name: a, limits: [{users: [null, [x], {y: z}], maxapplications: 1}, nonsense, ~]}]}
-> users[0] wrong-type, users[1] wrong-type, users[2] wrong-type, limits[1] wrong-type, limits[2] wrong-type

{queues: [{name: [a], submitacl: {b: c}}]}
-> name wrong-type, submitacl wrong-type

{queues: [{name: a, limits: [{users: [ana], maxapplications: [3]}]}]}
-> maxapplications count-invalid

{queues: [{name: a, parent: maybe}, {name: b, parent: 'yes'}, {name: c, parent: 1}, {name: d, parent: [true]}]}
-> parent boolean-invalid, parent boolean-invalid, parent boolean-invalid, parent boolean-invalid

{queues: [{name: a, limits: [{users: [ana], maxresources: {memory: 1.0, vcore: 0x10, gpu: ~, disk: 5K, pods: 500m,
tape: 8Ei, net: [1]}}]}]}
-> memory quantity-invalid, vcore quantity-invalid, gpu quantity-invalid, disk quantity-invalid, pods
quantity-invalid, tape quantity-invalid, net wrong-type

{queues: [{name: a, resources: {max: {'': 1, 'a b': 2}}}]}
->  resource-name-invalid, a b resource-name-invalid

{queues: [{name: a, resources: {max: [memory]}, properties: 5}]}
-> max wrong-type, properties wrong-type

{queues: [{name: a, properties: {x: [1]}}]}
-> x wrong-type

{queues: [], nodesortpolicy: {resourceweights: {a: '1', b: .inf, c: 1e999, d: 0x1, e: ~}}}
-> a weight-invalid, b weight-invalid, c weight-invalid, d weight-invalid, e weight-invalid

{queues: [{name: root, parent: red, limits: [{users: [ana, ana], maxapplications: many}, {users: [9], maxresources:
{memory: 1x}}], queues: [{name: a b}]}], name: x, name: y}
-> parent boolean-invalid, users[1] limit-user-duplicate, maxapplications count-invalid, users[0]
limit-user-name-invalid, memory quantity-invalid, name queue-name-invalid, name yaml-key-duplicate

{queues: [{name: root, limits: [{users: [ana], maxapplications: many}]}]}
-> maxapplications count-invalid

{queues: nonsense}
-> queues wrong-type

{queues: [{name: [a]}], placementrules: [{name: fixed, value: a}]}
-> name wrong-type

{queues: [{name: p, limits: [{users: ana, maxapplications: 9}, {users: ['*'], maxapplications: 2}], queues: [{name: q,
limits: [{users: [ana], maxapplications: 5}]}]}]}
-> users wrong-type

{queues: [{name: root, maxapplications: 5, limits: [{limit: [x], users: [ana]}], queues: [{name: a, properties: 5},
{name: A, maxapplications: 1, adminacl: {}}]}]}
-> limits[0] limit-sets-nothing, limit wrong-type, queues[0] queue-applications-missing, properties wrong-type, name
queue-name-duplicate, adminacl wrong-type

{queues: nonsense, limits: [{users: [ana]}]}
-> queues wrong-type, limits[0] limit-sets-nothing
"""


G2: Final = "resources: {guaranteed: {memory: 2}}"
ANA: Final = "users: [ana], maxapplications:"
A9: Final = f"limits: [{{{ANA} 9}}]"
ALL2: Final = "limits: [{users: ['*'], maxapplications: 2}]"


def _parsed(block: str) -> tuple[str, list[str]]:
    text, _, expected = " ".join(block.split()).partition(" -> ")
    whole = text.removeprefix("ALL ") if text.startswith("ALL ") else f"{{partitions: [{text}]}}"
    return whole, expected.split(", ")


@pytest.mark.parametrize(("text", "expected"), [_parsed(block) for block in CASES.strip().split("\n\n")])
def test_violations(text: str, expected: list[str]) -> None:
    """What breaks a rule is reported with the path of the value and a code."""
    found = [problem.splitlines()[:2] for problem in problems_of(text)]

    assert [f"{path.rpartition('.')[2]} {place.split()[1]}".strip() for place, path in found] == expected


@pytest.mark.parametrize(
    "queue",
    [
        f"{{name: {'q' * 64}}}",
        f"{{name: p, {G2}, queues: [{{name: q, {G2}, queues: [{{name: r, resources: {{guaranteed: {{a: 8}}}}}}]}}]}}",
        *(
            f"{{name: a, submitacl: {acl}, adminacl: {acl}}}"
            for acl in ("'*'", "ana", "'a,b dev,test'", "' d'", "'  '")
        ),
        *(
            f"{{name: root, limits: {limits}}}"
            for limits in (
                "[{users: [ana, '*'], maxapplications: 1}]",
                "[{users: [data], groups: [data, '*'], maxapplications: 1}]",
                "[{groups: [dev], maxapplications: 1}, {users: ['*'], groups: ['*'], maxapplications: 1}]",
                "[{users: [ana$, _x, a/b, a#1, 'a:b', a@b.c], groups: [_g, 'a:b', a.b-c], maxapplications: 1}]",
                "[{users: [ana], maxresources: {memory: 0, vcore: 1}}]",
                "[{users: [ana], maxresources: {}, maxapplications: 1}]",
            )
        ),
        *(
            f"{{name: root, limits: [{above}], queues: [{{name: a, limits: [{here}]}}]}}"
            for above, here in (
                ("{users: [ana], maxapplications: 1}", "{users: ['*'], maxapplications: 9}"),
                ("{users: [ana], maxapplications: 1}", "{groups: [ana], maxapplications: 9}"),
                ("{users: [ana], maxresources: {vcore: 1}}", "{users: [ana], maxapplications: 9}"),
                ("{users: [ana, '*'], maxresources: {vcore: 1}}", "{users: [ana], maxresources: {memory: 9}}"),
            )
        ),
        f"{{name: root, {A9}, queues: [{{name: a, {ALL2}, queues: [{{name: b, limits: [{{{ANA} 5}}]}}]}}]}}",
        "{name: a, resources: {max: {gpu: 5}}, queues: [{name: b, limits: [{users: [a], maxresources: {gpu: 9}}]}]}",
    ],
)
def test_queues_that_keep_the_rules(queue: str) -> None:
    """Wildcards at the end, every kind of name, single zeros, and limits that limits above do not apply to."""
    parse_config(f"partitions: [{{queues: [{queue}]}}]")


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
    parse_config(
        f"partitions: [{{queues: [{{name: leaf}}, {{name: Top, queues: [{{name: low}}]}}], placementrules: [{rule}]}}]"
    )
