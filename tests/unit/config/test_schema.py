"""The models: where the fields come from, and what models are in Python."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import pytest

from support.config_cases import EVERYTHING
from ugm.config import (
    LimitConfig,
    PartitionConfig,
    QueueConfig,
    QueueResources,
    SchedulerConfig,
    parse_config,
)
from ugm.errors import RequestError
from ugm.resources import Resource


def test_queue_fields() -> None:
    """The fields of a queue come from the YAML names, by their type."""
    root = parse_config(EVERYTHING).partition().root

    assert (root.name, root.parent, root.max_applications) == ("root", True, 10)
    assert root.properties == {"application.sort.policy": "fifo", "priority.offset": "5", "empty": ""}
    assert (root.admin_acl, root.submit_acl) == ("*", "ana,bob dev")
    assert root.child_template is not None
    assert root.child_template.max_applications == 3
    assert root.child_template.properties == {"x": "y"}
    assert root.child_template.resources == QueueResources(guaranteed=Resource(vcore=100), max=Resource(vcore=1000))


def test_limit_fields() -> None:
    """The fields of a limit come from the YAML names; a word such as yes is a name where a name is expected."""
    queue = parse_config(EVERYTHING).partition().root.queues[0]

    assert (queue.name, queue.guaranteed) == ("prod", Resource(memory=10))
    assert queue.max_resources == Resource({"memory": 2**31, "nvidia.com/gpu": 8})
    assert queue.limits == (
        LimitConfig(
            label="yes",
            users=("yes", "ana"),
            groups=("dev", "*"),
            max_resources=Resource(memory=2**30, vcore=0),
            max_applications=2,
        ),
    )


def test_partition_fields() -> None:
    """The fields of a partition come from the YAML names."""
    config = parse_config(EVERYTHING)
    partition = config.partition("gpu")

    assert (config.checksum, partition.name) == ("ABC", "gpu")
    assert (partition.preemption.enabled, partition.preemption.quota_preemption_enabled) == (False, True)
    assert partition.node_sort_policy.type == "binpacking"
    assert partition.node_sort_policy.resource_weights == {"vcore": 1.5, "memory": 0, "gpu": 10}
    assert partition.user_group_resolver.type == "ldap"


def test_placement_fields() -> None:
    """The fields of a placement rule come from the YAML names; rules may have rules as parents."""
    user, tag = parse_config(EVERYTHING).partition().placement_rules

    assert (user.name, user.create, user.filter.type) == ("user", True, "Deny")
    assert (user.filter.users, user.filter.groups) == (("^b",), ("dev", "test"))
    assert user.parent is not None
    assert (user.parent.name, user.parent.value, user.parent.create) == ("fixed", "root.users", False)
    assert (tag.value, tag.parent) == ("namespace", None)


def test_root_is_inserted() -> None:
    """A root queue stands above queues that are given without one."""
    root = parse_config("partitions: [{queues: [{name: a}, {name: b}]}]").partition().root

    assert (root.name, root.parent, [queue.name for queue in root.queues]) == ("root", True, ["a", "b"])


def test_partition_limits_are_the_roots() -> None:
    """Limits of the partition become those of the root queue, inserted or not."""
    limit = LimitConfig(users=("ana",), max_applications=2)
    inserted = PartitionConfig(queues=(QueueConfig(name="a"),), limits=(limit,))
    given = PartitionConfig(queues=(QueueConfig(name="root", max_applications=5),), limits=(limit,))

    assert inserted.root.limits == (limit,)
    assert given.root == QueueConfig(name="root", max_applications=5, limits=(limit,))


def test_equal_partition_limits() -> None:
    """Limits of the partition and of the root queue are equal if their amounts are, however they are written."""
    text = """
        partitions:
        - limits: [{users: [ana], maxresources: {memory: 1024Mi, vcore: 2}}]
          queues:
          - {name: root, limits: [{users: [ana], maxresources: {vcore: 2000m, memory: 1Gi}}]}
    """

    assert len(parse_config(text).partition().root.limits) == 1


def test_parent() -> None:
    """A queue is a parent if it says so, if it has queues, or if it is the root."""
    child = QueueConfig(name="child")

    assert not child.parent
    assert QueueConfig(name="a", declared_parent=True).parent
    assert QueueConfig(name="a", queues=(child,)).parent
    assert QueueConfig(name="root").parent


def test_only_partition() -> None:
    """Without a name the only partition is meant, whatever it is called."""
    config = parse_config("partitions: [{name: gpu, queues: []}]")

    assert config.partition() is config.partitions[0]


def test_default_partition() -> None:
    """Without a name the partition called default is meant if there are several."""
    config = parse_config("partitions: [{name: gpu, queues: []}, {queues: []}]")

    assert config.partition().name == "default"
    assert config.partition("GPU").name == "gpu"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (SchedulerConfig(), "partition 'default': no such partition; there is none"),
        (
            SchedulerConfig(partitions=(PartitionConfig(name="a"), PartitionConfig(name="b"))),
            "partition 'default': no such partition; there is 'a', 'b'",
        ),
    ],
)
def test_missing_partition(config: SchedulerConfig, message: str) -> None:
    """A partition that is not there is asked for by mistake."""
    with pytest.raises(RequestError) as caught:
        config.partition()

    assert str(caught.value) == message


def test_models_are_immutable() -> None:
    """A model cannot be changed."""
    limit = LimitConfig(users=("ana",), max_applications=2)

    with pytest.raises(FrozenInstanceError):
        limit.max_applications = 3  # type: ignore[misc]  # what the test is about


def test_models_check_programs_too() -> None:
    """A program that builds a model is held to the types of the fields."""
    with pytest.raises(RequestError):
        LimitConfig(users=("ana",), max_applications=-1)
    with pytest.raises(RequestError):
        LimitConfig(users=("ana",), max_applications=True)
    with pytest.raises(RequestError):
        LimitConfig(users=("ana",), max_resources=Resource(memory=-1))
    with pytest.raises(RequestError):
        LimitConfig(users=("ana",), max_resources=Resource({"a b": 1}))
    with pytest.raises(RequestError):
        QueueConfig(name="a", declared_parent="perhaps")  # type: ignore[arg-type]  # what the test is about


def test_models_survive_pickling() -> None:
    """A configuration can be sent to another process."""
    config = parse_config(EVERYTHING)

    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 (what was just written)
