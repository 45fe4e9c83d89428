"""Compiled limits, and limits in force."""

from __future__ import annotations

import pytest
from hypothesis import given

from support.tracking_fixtures import BOB, ONE, SUE, group, partition, user
from ugm import Manager, RequestError, Resource, UserGroup, parse_config
from ugm.configuration import LimitConfig, PartitionConfig
from ugm.testing import TrackerModel, partitions, queue_paths, users
from ugm.tracking.limits import Limits

TEXT = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: Sales
            limits:
              - {limit: named, users: [sue], maxresources: {memory: 3, vcore: 2}, maxapplications: 2}
              - {limit: team, groups: [dev, ops], maxresources: {memory: 4}}
              - {limit: others, users: ["*"], maxresources: {memory: 1}}
"""


def test_configuration_from_a_file() -> None:
    """A configuration from YAML works like one that a program creates."""
    manager = Manager(parse_config(TEXT).partition())

    assert manager.headroom("root.sales", "app-1", SUE) == Resource(memory=3, vcore=2000)
    assert manager.headroom("root.sales", "app-1", UserGroup("bob")) == ONE
    assert manager.group_for("root.sales", "app-1", UserGroup("bob", ("ops", "dev"))) == "dev"
    assert [limit.place for limit in manager.effective_limits(BOB, "root.sales")] == [
        "root.sales limits[2]",
        "root.sales limits[1]",
    ]


def test_largest_limit() -> None:
    """A limit is exact up to the largest allowed amount; a larger one is refused, as in a file."""
    most = 2**63 - 1
    manager = Manager(partition({"root": [user("sue", memory=most)]}))

    assert manager.increase("root", "app-1", Resource(memory=most), SUE)
    assert not manager.increase("root", "app-1", ONE, SUE)
    with pytest.raises(RequestError, match="the amount of memory is above 9223372036854775807"):
        manager.update_config(partition({"root": [user("sue", memory=most + 1)]}))


@pytest.mark.parametrize("limit", [user("sue", memory=0, vcore=0), group("dev", memory=0)])
def test_limit_of_nothing_but_zeros(limit: LimitConfig) -> None:
    """A limit of only zeros is refused, in a configuration and by hand."""
    with pytest.raises(RequestError, match="a limit must allow more than 0 of at least one resource that it names"):
        Limits.compile(partition({"root.a": [limit]}))


@given(partitions(), queue_paths(), users())
def test_limits_are_those_of_the_book(config: PartitionConfig, path: str, asking: UserGroup) -> None:
    """The order of the configuration decides which limits apply, and which group is chosen."""
    manager, model = Manager(config), TrackerModel(config)

    assert manager.group_for(path, "app-1", asking) == model.group_for(path, "app-1", asking)
    assert manager.headroom(path, "app-1", asking) == model.headroom(path, "app-1", asking)
