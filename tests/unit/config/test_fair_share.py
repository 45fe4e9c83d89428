"""Shares of users in a configuration: reading, problems with their places, writing, and export."""

from __future__ import annotations

import pytest

from ugm import ConfigError, parse_config
from ugm.config import FairShareConfig, dump_config, export_config, review_config
from ugm.configuration import SchedulerConfig


def config(shares: str) -> str:
    """Return a configuration with some shares, which begin in the third line."""
    return f"partitions:\n- queues: [{{name: prod}}]\n  ugm: {{fairshare: {shares}}}\n"


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ("{}", ["3:9  fairshare-empty"]),
        ("{users: {ana: -1}}", ["3:34 .users.ana fairshare-shares-invalid"]),
        ("{users: {ana: 1.5}}", ["3:34 .users.ana fairshare-shares-invalid"]),
        ("{users: {ana: 99999999999}}", ["3:34 .users.ana fairshare-shares-invalid"]),
        ("{users: {a/b: 1}}", ["3:34 .users.a/b fairshare-account-missing"]),
        ("{accounts: {a: 1, a//b: 1}}", ["3:44 .accounts.a//b fairshare-path-invalid"]),
        ("{accounts: {a: 1}, users: {a: 1}}", ["3:50 .users.a fairshare-user-is-account"]),
        ("{accounts: {a: 1, b: 1}, users: {a/x: 1, b/x: 1}}", ["3:66 .users.b/x fairshare-user-duplicate"]),
        ("{users: {a: 1}, halflife: 5, bin: 5, bins: 5}", ["3:46 .halflife fairshare-decay-conflict"]),
        ("{users: {a: 1}, bin: 5}", ["3:9  fairshare-bins-missing"]),
        ("{users: {a: 1}, decay: 1/2}", ["3:43 .decay fairshare-decay-unused"]),
        ("{users: {a: 1}, bin: 5, bins: 2, decay: 3/2}", ["3:60 .decay fairshare-decay-invalid"]),
        ("{users: {a: 1}, bin: 5, bins: 2, decay: 1/0}", ["3:60 .decay fairshare-decay-invalid"]),
        ("{users: {a: 1}, weights: {gpu: 1/0}}", ["3:51 .weights.gpu fairshare-weight-invalid"]),
        ("{users: {a: 1}, weights: {gpu: -1}}", ["3:51 .weights.gpu fairshare-weight-invalid"]),
        ("{users: {a: 1}, halflife: 99999999999}", ["3:46 .halflife fairshare-number-too-large"]),
        ("{users: {a: 1}, bin: 1, bins: 99999999}", ["3:50 .bins fairshare-number-too-large"]),
        ("{users: {a: 1}, bin: 1, bins: 10000, decay: 0.999}", ["3:64 .decay fairshare-decay-too-long"]),
        ("{users: {a: 1}, bin: 1, bins: 667, decay: 0.99}", ["3:62 .decay fairshare-decay-too-long"]),
        ("{users: {a: 1}, halflife: 7d}", ["3:46 .halflife count-invalid"]),
        ("{users: [a]}", ["3:21 .users wrong-type"]),
    ],
)
def test_problems(shares: str, expected: list[str]) -> None:
    """Every problem has a line and a column."""
    with pytest.raises(ConfigError) as caught:
        parse_config(config(shares))

    found = caught.value.problems
    prefix = "partitions[0].ugm.fairshare"
    assert [f"{one.line}:{one.column} {one.path.removeprefix(prefix)} {one.code}" for one in found] == expected


def test_values_and_writing() -> None:
    """The values are exact texts; a configuration that is written reads as the same."""
    text = config("{accounts: {a: parent}, users: {a/x: 3}, defaultshares: 1, bin: 60, bins: 5, decay: 0.5}")
    read = parse_config(text)

    assert read.partition().ugm.fair_share == FairShareConfig(
        accounts={"a": "parent"}, users={"a/x": "3"}, default_shares=1, bin=60, bins=5, decay="0.5"
    )
    assert parse_config(dump_config(read)) == read
    exported = export_config(read)
    assert exported.config.partition().ugm.fair_share is None
    assert [str(one) for one in exported.left_out] == ["partitions[0].ugm.fairshare: the shares of users are left out"]
    assert isinstance(read, SchedulerConfig)


def test_policy_without_shares() -> None:
    """The policy ``share`` in a partition without shares gets a warning."""
    queue = "{name: a, properties: {application.sort.policy: share}}"
    alone = review_config(f"partitions: [{{queues: [{queue}]}}]")
    together = review_config(f"partitions: [{{queues: [{queue}], ugm: {{fairshare: {{users: {{ana: 1}}}}}}}}]")

    assert [(one.column, one.code) for one in alone.warnings] == [(72, "fairshare-missing")]
    assert not together.warnings
