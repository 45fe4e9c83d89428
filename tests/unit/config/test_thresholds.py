"""Thresholds in a configuration: reading, problems with their places, writing, comparison, and export."""

from __future__ import annotations

from typing import cast

import pytest

from ugm import ConfigError, parse_config
from ugm._json_values import JsonObject
from ugm.config import PartitionConfig, ThresholdConfig, dump_config
from ugm.configuration.fields import from_data, to_data
from ugm.partition import changes


def config(thresholds: str) -> str:
    """Return a configuration with some thresholds, which begin in the third line."""
    return f"partitions:\n- queues: [{{name: prod}}]\n  ugm: {{thresholds: {thresholds}}}\n"


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        ("{shares: [0]}", "3:31 .shares[0] threshold-share-invalid"),
        ("{shares: [80, 101]}", "3:35 .shares[1] threshold-share-invalid"),
        ("{shares: [80, 95, 80]}", "3:39 .shares[2] threshold-duplicate"),
        ("{shares: [95, 5]}", "3:9 .hysteresis threshold-hysteresis-too-large"),
        ("{shares: [95, 80], hysteresis: 80}", "3:52 .hysteresis threshold-hysteresis-too-large"),
        ("{shares: [0.8]}", "3:31 .shares[0] count-invalid"),
        ("{shares: 80}", "3:30 .shares wrong-type"),
        ("{hysteresis: -1}", "3:34 .hysteresis count-invalid"),
    ],
)
def test_problems(thresholds: str, expected: str) -> None:
    """Every problem has a line and a column."""
    with pytest.raises(ConfigError) as caught:
        parse_config(config(thresholds))

    prefix = "partitions[0].ugm.thresholds"
    found = [f"{p.line}:{p.column} {p.path.removeprefix(prefix)} {p.code}" for p in caught.value.problems]
    assert found == [expected]


def test_values_and_writing() -> None:
    """A configuration that is written or stored reads as the same; the hysteresis has a default."""
    read = parse_config(config("{shares: [95, 80], hysteresis: 3}"))

    assert read.partition().ugm.thresholds == ThresholdConfig(shares=(95, 80), hysteresis=3)
    assert parse_config(dump_config(read)) == read
    assert from_data(PartitionConfig, cast("JsonObject", to_data(read.partition()))) == read.partition()
    assert parse_config(config("{shares: [80]}")).partition().ugm.thresholds.hysteresis == 5


def test_changes() -> None:
    """The comparison of two configurations names the thresholds that differ."""
    texts = ("{}", "{shares: [80]}", "{shares: [80, 95], hysteresis: 2}")
    without, first, second = (parse_config(config(text)).partition() for text in texts)

    assert str(changes(without, first)) == "+ settings 'thresholds': shares [80]"
    assert str(changes(first, second)) == ("~ settings 'thresholds': shares [80] -> [80, 95]; hysteresis none -> 2")
    assert str(changes(second, without)) == "- settings 'thresholds': shares [80, 95]; hysteresis 2"
    assert not changes(first, first)
