"""What a file may say in each field, by the type of the field."""

from __future__ import annotations

from typing import Final

import pytest

from support.config_cases import problems_of, table
from ugm.config import parse_config

WRONG = table("""
unknown fields, also where Python has the name
partitions:
- queues:
  - name: a
    resources: {maximum: {memory: 1}}
  nodesortpolicy: {resource_weights: {}}
foo:
----
4:17 field-unknown
partitions[0].queues[0].resources.maximum
unknown field 'maximum'; did you mean 'max'?; known here: guaranteed, max
5:20 field-unknown
partitions[0].nodesortpolicy.resource_weights
unknown field 'resource_weights'; did you mean 'resourceweights'?; known here: resourceweights, type
6:1 field-unknown
foo
unknown field 'foo'; known here: checksum, partitions
====
a list for a document
- partitions
----
1:1 wrong-type

expected a mapping, found a list
====
a text for a document
hello
----
1:1 wrong-type

expected a mapping, found 'hello'
====
a text where a list belongs
partitions:
- queues:
  - name: a
    limits:
    - users: ana
      maxapplications: 1
----
5:14 wrong-type
partitions[0].queues[0].limits[0].users
expected a list, found 'ana'
====
a mapping where a list belongs
partitions: {queues: []}
----
1:1 wrong-type
partitions
expected a list, found a mapping
====
items of the wrong kind
partitions:
- queues:
  - name: a
    limits:
    - users: [null, [x], {y: z}]
      maxapplications: 1
    - nonsense
    -
----
5:15 wrong-type
partitions[0].queues[0].limits[0].users[0]
expected a text, found null
5:21 wrong-type
partitions[0].queues[0].limits[0].users[1]
expected a text, found a list
5:26 wrong-type
partitions[0].queues[0].limits[0].users[2]
expected a text, found a mapping
7:7 wrong-type
partitions[0].queues[0].limits[1]
expected a mapping, found 'nonsense'
8:6 wrong-type
partitions[0].queues[0].limits[2]
expected a mapping, found null
====
a list and a mapping where texts belong
partitions:
- queues:
  - name: [a]
    submitacl: {b: c}
----
3:5 wrong-type
partitions[0].queues[0].name
expected a text, found a list
4:5 wrong-type
partitions[0].queues[0].submitacl
expected a text, found a mapping
====
a list where a count belongs
partitions:
- queues:
  - name: a
    limits:
    - {users: [ana], maxapplications: [3]}
----
5:22 count-invalid
partitions[0].queues[0].limits[0].maxapplications
expected a count in decimal digits, found a list
====
booleans that are none
partitions:
- queues:
  - {name: a, parent: maybe}
  - {name: b, parent: 'yes'}
  - {name: c, parent: 1}
  - {name: d, parent: [true]}
----
3:23 boolean-invalid
partitions[0].queues[0].parent
expected true or false, found 'maybe'
4:23 boolean-invalid
partitions[0].queues[1].parent
expected true or false, found the text 'yes' in quotes
5:23 boolean-invalid
partitions[0].queues[2].parent
expected true or false, found '1'
6:15 boolean-invalid
partitions[0].queues[3].parent
expected true or false, found a list
====
quantities that are none
partitions:
- queues:
  - name: a
    limits:
    - users: [ana]
      maxresources:
        memory: 1.0
        vcore: 0x10
        gpu:
        disk: 5K
        pods: 500m
        tape: 8Ei
        net: [1]
----
7:17 quantity-invalid
partitions[0].queues[0].limits[0].maxresources.memory
'1.0' is not a quantity: expected digits and at most one suffix; write 1
8:16 quantity-invalid
partitions[0].queues[0].limits[0].maxresources.vcore
'0x10' is not a quantity: expected digits and at most one suffix
9:13 quantity-invalid
partitions[0].queues[0].limits[0].maxresources.gpu
expected a quantity, found null
10:15 quantity-invalid
partitions[0].queues[0].limits[0].maxresources.disk
'5K' is not a quantity: unknown suffix 'K'; write 5k or 5Ki (known: k M G T P E Ki Mi Gi Ti Pi Ei)
11:15 quantity-invalid
partitions[0].queues[0].limits[0].maxresources.pods
'500m' is not a quantity: unknown suffix 'm'; write 500M or 500Mi (known: k M G T P E Ki Mi Gi Ti Pi Ei)
12:15 quantity-invalid
partitions[0].queues[0].limits[0].maxresources.tape
'8Ei' is not a quantity: too large (allowed: up to 9223372036854775807 base units)
13:9 wrong-type
partitions[0].queues[0].limits[0].maxresources.net
expected a text, found a list
====
names of resources that are none
partitions:
- queues:
  - name: a
    resources: {max: {'': 1, 'a b': 2}}
----
4:27 resource-name-invalid
partitions[0].queues[0].resources.max.
'' is not a valid resource name (allowed: 1 to 256 characters without white space)
4:37 resource-name-invalid
partitions[0].queues[0].resources.max.a b
'a b' is not a valid resource name (allowed: 1 to 256 characters without white space)
====
a list and a text where mappings belong
partitions:
- queues:
  - name: a
    resources: {max: [memory]}
    properties: 5
----
4:17 wrong-type
partitions[0].queues[0].resources.max
expected a mapping, found a list
5:17 wrong-type
partitions[0].queues[0].properties
expected a mapping, found '5'
====
a list where the text of a property belongs
partitions:
- queues:
  - name: a
    properties: {x: [1]}
----
4:18 wrong-type
partitions[0].queues[0].properties.x
expected a text, found a list
====
weights that are no plain decimal numbers
partitions:
- queues: []
  nodesortpolicy:
    resourceweights: {a: '1', b: .inf, c: 1e999, d: 0x1, e: }
----
4:26 weight-invalid
partitions[0].nodesortpolicy.resourceweights.a
expected a decimal number, found the text '1' in quotes
4:34 weight-invalid
partitions[0].nodesortpolicy.resourceweights.b
expected a decimal number, found '.inf'
4:43 weight-invalid
partitions[0].nodesortpolicy.resourceweights.c
expected a decimal number, found '1e999'
4:53 weight-invalid
partitions[0].nodesortpolicy.resourceweights.d
expected a decimal number, found '0x1'
4:61 weight-invalid
partitions[0].nodesortpolicy.resourceweights.e
expected a decimal number, found null
""")


@pytest.mark.parametrize(("text", "problems"), WRONG)
def test_wrong_types(text: str, problems: list[str]) -> None:
    """What has not the type of its field is reported at its place."""
    assert problems_of(text) == problems


COUNT: Final = "expected a count in decimal digits, found "
TOO_LARGE: Final = "the count is too large (allowed: up to 9223372036854775807)"


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ("-1", "count-invalid", COUNT + "'-1'"),
        ("'3'", "count-invalid", COUNT + "the text '3' in quotes"),
        ("3.0", "count-invalid", COUNT + "'3.0'"),
        ("1_000", "count-invalid", COUNT + "'1_000'"),
        ("1e3", "count-invalid", COUNT + "'1e3'"),
        ("0x10", "count-invalid", COUNT + "'0x10'"),
        ("+3", "count-invalid", COUNT + "'+3'"),
        ("many", "count-invalid", COUNT + "'many'"),
        ("\N{ARABIC-INDIC DIGIT THREE}", "count-invalid", COUNT + "'\N{ARABIC-INDIC DIGIT THREE}'"),
        ("9223372036854775808", "count-too-large", TOO_LARGE),
        ("18446744073709551616", "count-too-large", TOO_LARGE),
    ],
)
def test_counts_that_are_not_plain_digits(value: str, code: str, message: str) -> None:
    """A count of a queue or of a limit is written in decimal digits, and is at most 64 bits long."""
    text = f"""partitions:
- queues:
  - name: root
    maxapplications: {value}
    limits:
    - {{users: [ana], maxapplications: {value}}}
"""

    assert problems_of(text) == [
        f"4:22 {code}\npartitions[0].queues[0].maxapplications\n{message}",
        f"6:39 {code}\npartitions[0].queues[0].limits[0].maxapplications\n{message}",
    ]


@pytest.mark.parametrize("word", ["yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE", "y", "Y"])
def test_words_for_true(word: str) -> None:
    """Where a boolean is expected, the words of YAML 1.1 are taken."""
    config = parse_config(f"partitions: [{{queues: [{{name: a, parent: {word}}}]}}]")

    assert config.partition().root.queues[0].declared_parent is True


@pytest.mark.parametrize("word", ["no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE", "n", "N"])
def test_words_for_false(word: str) -> None:
    """Where a boolean is expected, the words of YAML 1.1 are taken."""
    config = parse_config(f"partitions: [{{queues: [], preemption: {{enabled: {word}}}}}]")

    assert config.partition().preemption.enabled is False


def test_largest_count() -> None:
    """A count may be as large as a signed 64-bit integer, with any number of zeros before it."""
    text = "partitions: [{queues: [{name: root, maxapplications: 0009223372036854775807}]}]"

    assert parse_config(text).partition().root.max_applications == 2**63 - 1


def test_fields_with_nothing_behind_them() -> None:
    """A field that stands there with nothing behind it is as good as absent."""
    text = """
        partitions:
        - name:
          queues:
          - {name: root, parent: , resources: {max: , guaranteed: ~}, queues: null, limits: , maxapplications: }
          limits:
          nodesortpolicy:
    """

    assert parse_config(text) == parse_config("partitions: [{queues: [{name: root}]}]")
