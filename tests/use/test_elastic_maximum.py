"""The maximum of a parent elastic group."""

import pytest

from ugm import Partition, Resource, UserGroup, parse_config

CONFIG = """
partitions:
- queues: [{name: q}]
  ugm:
    elastic:
      total: {gpu: 8}
      %s
      groups:
      - {name: top, isparent: true, allowlent: false, min: {gpu: 2}, max: {gpu: 2}}
      - {name: ana, parent: top, min: {gpu: 1}, max: {gpu: 2}}
      - {name: bob, parent: top, min: {gpu: 1}, max: {gpu: 2}}
      groupby: [{source: user}]
"""


@pytest.mark.parametrize(("key", "used"), [("", 2), ("checkparents: true", 2), ("checkparents: false", 3)])
def test_maximum_of_a_parent(key: str, used: int) -> None:
    """Groups use no more than the maximum of their parent together, unless the configuration says otherwise."""
    partition = Partition(parse_config(CONFIG % key).partition())
    for name in ("ana", "bob"):
        partition.submit(name, UserGroup(name), "root.q")

    granted = [partition.allocate(f"ana-{number}", "ana", Resource(gpu=1)).allowed for number in range(3)]
    granted.append(partition.allocate("bob-0", "bob", Resource(gpu=1)).allowed)
    assert sum(granted) == used
