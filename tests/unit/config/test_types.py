"""What a file may say in each field, by the type of the field."""

from __future__ import annotations

from typing import Final

import pytest

from support.config_cases import problems_of
from ugm.config import parse_config

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
