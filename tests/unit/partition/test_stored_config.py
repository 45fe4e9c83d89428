"""The stored form of a configuration: what is written reads back, and older forms are still read."""

from __future__ import annotations

import json

import pytest

from support.config_cases import EVERYTHING
from support.random_changes import CONFIGS
from ugm import Resource, parse_config
from ugm.configuration import (
    ChildTemplate,
    FilterConfig,
    LimitConfig,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    QueueResources,
)
from ugm.partition.stored_config import config_from_data, config_to_data


@pytest.mark.parametrize("config", [*CONFIGS, *parse_config(EVERYTHING).partitions, None])
def test_configurations_read_back(config: PartitionConfig | None) -> None:
    """The stored form of a configuration reads back as an equal configuration."""
    stored = json.loads(json.dumps(config_to_data(config)))

    assert config_from_data(stored) == config


def test_configurations_of_older_journals() -> None:
    """A configuration that an older version stored, as lists, means the same as the one that it was made from."""
    template = [[None, {"gpu": 1}], 1]
    limit = [["sue"], ["dev"], {"memory": 2}, 3]
    leaf = ["a", False, [{"memory": 1}, {"memory": 5}], 2, None, "ana", "", [], [limit]]
    root = ["root", True, [None, None], 0, template, "", "*", [leaf], []]
    rules = [["tag", True, ["deny", ["sue"], []], ["user", False, ["", [], []], None, ""], "namespace"]]

    found = config_from_data([root, rules])

    leaf_config = QueueConfig(
        "a",
        resources=QueueResources(guaranteed=Resource(memory=1), max=Resource(memory=5)),
        max_applications=2,
        submit_acl="ana",
        limits=(LimitConfig(("sue",), ("dev",), Resource(memory=2), 3),),
    )
    child_template = ChildTemplate(resources=QueueResources(max=Resource(gpu=1)), max_applications=1)
    assert found == PartitionConfig(
        queues=(
            QueueConfig(
                "root", declared_parent=True, child_template=child_template, admin_acl="*", queues=(leaf_config,)
            ),
        ),
        placement_rules=(
            PlacementRule(
                "tag",
                create=True,
                filter=FilterConfig("deny", ("sue",)),
                parent=PlacementRule("user"),
                value="namespace",
            ),
        ),
    )
