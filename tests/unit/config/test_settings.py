"""Shares of users, and thresholds, in a configuration: reading, problems with their places, writing, and changes."""

from __future__ import annotations

from typing import cast

import pytest

from support.config_cases import places_of
from ugm import parse_config
from ugm._json_values import JsonObject
from ugm.config import FairShareConfig, PartitionConfig, ThresholdConfig, dump_config, export_config, review_config
from ugm.configuration.fields import from_data, to_data
from ugm.partition import changes


def config(key: str, settings: str) -> str:
    """Return a configuration with some settings, which begin in the third line."""
    return f"partitions:\n- queues: [{{name: prod}}]\n  ugm: {{{key}: {settings}}}\n"


@pytest.mark.parametrize(
    ("key", "settings", "expected"),
    [
        ("fairshare", "{}", "3:9  fairshare-empty"),
        ("fairshare", "{users: {ana: -1}}", "3:34 .users.ana fairshare-shares-invalid"),
        ("fairshare", "{users: {ana: 1.5}}", "3:34 .users.ana fairshare-shares-invalid"),
        ("fairshare", "{users: {ana: 99999999999}}", "3:34 .users.ana fairshare-shares-invalid"),
        ("fairshare", "{users: {a/b: 1}}", "3:34 .users.a/b fairshare-account-missing"),
        ("fairshare", "{accounts: {a: 1, a//b: 1}}", "3:44 .accounts.a//b fairshare-path-invalid"),
        ("fairshare", "{accounts: {a: 1}, users: {a: 1}}", "3:50 .users.a fairshare-user-is-account"),
        ("fairshare", "{accounts: {a: 1, b: 1}, users: {a/x: 1, b/x: 1}}", "3:66 .users.b/x fairshare-user-duplicate"),
        ("fairshare", "{users: {a: 1}, halflife: 5, bin: 5, bins: 5}", "3:46 .halflife fairshare-decay-conflict"),
        ("fairshare", "{users: {a: 1}, bin: 5}", "3:9  fairshare-bins-missing"),
        ("fairshare", "{users: {a: 1}, decay: 1/2}", "3:43 .decay fairshare-decay-unused"),
        ("fairshare", "{users: {a: 1}, bin: 5, bins: 2, decay: 3/2}", "3:60 .decay fairshare-decay-invalid"),
        ("fairshare", "{users: {a: 1}, bin: 5, bins: 2, decay: 1/0}", "3:60 .decay fairshare-decay-invalid"),
        ("fairshare", "{users: {a: 1}, weights: {gpu: 1/0}}", "3:51 .weights.gpu fairshare-weight-invalid"),
        ("fairshare", "{users: {a: 1}, weights: {gpu: -1}}", "3:51 .weights.gpu fairshare-weight-invalid"),
        ("fairshare", "{users: {a: 1}, halflife: 99999999999}", "3:46 .halflife fairshare-number-too-large"),
        ("fairshare", "{users: {a: 1}, bin: 1, bins: 99999999}", "3:50 .bins fairshare-number-too-large"),
        ("fairshare", "{users: {a: 1}, bin: 1, bins: 10000, decay: 0.999}", "3:64 .decay fairshare-decay-too-long"),
        ("fairshare", "{users: {a: 1}, bin: 1, bins: 667, decay: 0.99}", "3:62 .decay fairshare-decay-too-long"),
        ("fairshare", "{users: {a: 1}, halflife: 7d}", "3:46 .halflife count-invalid"),
        ("fairshare", "{users: [a]}", "3:21 .users wrong-type"),
        ("thresholds", "{shares: [0]}", "3:31 .shares[0] threshold-share-invalid"),
        ("thresholds", "{shares: [80, 101]}", "3:35 .shares[1] threshold-share-invalid"),
        ("thresholds", "{shares: [80, 95, 80]}", "3:39 .shares[2] threshold-duplicate"),
        ("thresholds", "{shares: [95, 5]}", "3:9 .hysteresis threshold-hysteresis-too-large"),
        ("thresholds", "{shares: [95, 80], hysteresis: 80}", "3:52 .hysteresis threshold-hysteresis-too-large"),
        ("thresholds", "{shares: [0.8]}", "3:31 .shares[0] count-invalid"),
        ("thresholds", "{shares: 80}", "3:30 .shares wrong-type"),
        ("thresholds", "{hysteresis: -1}", "3:34 .hysteresis count-invalid"),
    ],
)
def test_problems(key: str, settings: str, expected: str) -> None:
    """Every problem has a line and a column."""
    assert places_of(config(key, settings), f"partitions[0].ugm.{key}") == [expected]


def test_shares_are_exact_texts() -> None:
    """The values are exact texts; a configuration that is written reads as the same."""
    text = config(
        "fairshare", "{accounts: {a: parent}, users: {a/x: 3}, defaultshares: 1, bin: 60, bins: 5, decay: 0.5}"
    )
    read = parse_config(text)

    assert read.partition().ugm.fair_share == FairShareConfig(
        accounts={"a": "parent"}, users={"a/x": "3"}, default_shares=1, bin=60, bins=5, decay="0.5"
    )
    assert parse_config(dump_config(read)) == read
    exported = export_config(read)
    assert exported.config.partition().ugm.fair_share is None
    assert [str(one) for one in exported.left_out] == [
        "partitions[0].ugm.fairshare: it is left out: Apache YuniKorn has nothing like it"
    ]


def test_policy_without_shares() -> None:
    """The policy ``share`` in a partition without shares gets a warning."""
    queue = "{name: a, properties: {application.sort.policy: share}}"
    alone = review_config(f"partitions: [{{queues: [{queue}]}}]")
    together = review_config(f"partitions: [{{queues: [{queue}], ugm: {{fairshare: {{users: {{ana: 1}}}}}}}}]")

    assert [(one.column, one.code) for one in alone.warnings] == [(72, "fairshare-missing")]
    assert not together.warnings


def test_thresholds_are_written_and_stored() -> None:
    """A configuration that is written or stored reads as the same; the hysteresis has a default."""
    read = parse_config(config("thresholds", "{shares: [95, 80], hysteresis: 3}"))

    assert read.partition().ugm.thresholds == ThresholdConfig(shares=(95, 80), hysteresis=3)
    assert parse_config(dump_config(read)) == read
    assert from_data(PartitionConfig, cast("JsonObject", to_data(read.partition()))) == read.partition()
    assert parse_config(config("thresholds", "{shares: [80]}")).partition().ugm.thresholds.hysteresis == 5


def test_changes_of_thresholds() -> None:
    """The comparison of two configurations names the thresholds that differ."""
    texts = ("{}", "{shares: [80]}", "{shares: [80, 95], hysteresis: 2}")
    without, first, second = (parse_config(config("thresholds", text)).partition() for text in texts)

    assert str(changes(without, first)) == "+ settings 'thresholds': shares [80]"
    assert str(changes(first, second)) == ("~ settings 'thresholds': shares [80] -> [80, 95]; hysteresis none -> 2")
    assert str(changes(second, without)) == "- settings 'thresholds': shares [80, 95]; hysteresis 2"
    assert not changes(first, first)
