"""The limits of the service under faults: users, a group, queues, an elastic group and a quota tree, all within reach.

The sums of a log are compared with them by `Sums`, without the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ugm import Claim, QuotaModel, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig
from ugm.elastic import ElasticGroup, ElasticModel, ElasticQuota, ElasticTree
from ugm.elastic.model import GROUP_TAG
from ugm.partition import AbstractPartition
from ugm.partition.events import ApplicationSubmitted
from ugm.quotatree import Mode, QuotaManager, TreeModel

__all__ = ["APPLICATIONS", "DYNAMIC", "USERS", "Sums", "configuration", "models", "parsed", "submit", "user_group"]

USERS: Final = ("ana", "bob", "sue")
#: A queue that placement creates; its quota changes.
DYNAMIC: Final = "root.dyn.c"
#: The applications of all clients: id, user, queue.
APPLICATIONS: Final = tuple(
    (f"{user}-{path.rpartition('.')[2]}", user, path) for user in USERS for path in ("root.a", "root.b", DYNAMIC)
)
#: The elastic group of each user, and the quotas of the tree, in memory.
_ELASTIC: Final = {"ana": "ml", "bob": "web"}
_ELASTIC_MAXIMUM: Final = 45
_TREE: Final = 110
_LEAF: Final = 50


def configuration(memory: int) -> str:
    """Return a configuration whose limits depend on one number."""
    return f"""
partitions:
  - name: default
    placementrules: [{{name: provided, create: true}}]
    queues:
      - name: root
        limits:
          - {{limit: each, users: ["*"], maxresources: {{memory: {memory}}}}}
          - {{limit: team, groups: [dev], maxresources: {{memory: {memory + memory // 2}, vcore: 40}}}}
        queues:
          - {{name: a, resources: {{max: {{memory: {memory + 10}}}}}}}
          - {{name: b, resources: {{max: {{memory: {memory}}}}}}}
          - {{name: dyn, parent: true}}
"""


def parsed(memory: int) -> PartitionConfig:
    """Return the configuration of a number."""
    return parse_config(configuration(memory)).partition()


def models() -> list[QuotaModel]:
    """Return an elastic quota and a quota tree, as every process that may lead has them."""
    whole, most = Resource(memory=1000), Resource(memory=_ELASTIC_MAXIMUM)
    groups = [ElasticGroup(name, "", Resource(memory=10), most) for name in sorted(_ELASTIC.values())]
    manager = QuotaManager()
    manager.set_mode(Mode.NORMAL)
    nodes = {"all": ("nil", _TREE, False), "a": ("all", _LEAF, True), "b": ("all", 30, False), "c": ("all", 30, False)}
    specs = {
        name: {"parent": parent, "hard": str(is_hard).lower(), "quota": {"memory": str(quota)}}
        for name, (parent, quota, is_hard) in nodes.items()
    }
    spec = {"resourceNames": ["memory"], "nodes": specs}
    manager.add_tree_from_struct({"kind": "QuotaTree", "metadata": {"name": "T"}, "spec": spec})
    return [
        ElasticModel(ElasticQuota(ElasticTree(whole, groups)), unrestricted=True),
        TreeModel(manager, "T", _leaf),
    ]


def _leaf(claim: Claim) -> str:
    return claim.queue_path.rpartition(".")[2]


def user_group(user: str) -> UserGroup:
    """Return a user with its groups."""
    return UserGroup(user, ("dev",) if user != "sue" else ())


def submit(partition: AbstractPartition, application_id: str, user: str, queue: str) -> bool:
    """Submit an application in its elastic group."""
    tags = {GROUP_TAG: _ELASTIC[user]} if user in _ELASTIC else {}
    return bool(partition.submit(application_id, user_group(user), queue, tags=tags))


class Sums:
    """The usage of every limit by the order of a log; every growth must be within the limit of that moment."""

    def __init__(self) -> None:
        #: The number of the configuration, and the quota of the dynamic queue; None before it has one.
        self.memory = 0
        self.quota: int | None = None
        self._used = Counter[str]()

    def change(self, application: ApplicationSubmitted, before: Resource, after: Resource) -> None:
        """Replace the usage of an allocation of an application.

        Raises:
            AssertionError: a limit is exceeded.
        """
        for resource in ("memory", "vcore"):
            growth = after.get(resource, 0) - before.get(resource, 0)
            for name, limit in self._limits(application, resource):
                self._used[name] += growth
                assert growth <= 0 or self._used[name] <= limit, f"{name}: {self._used[name]} of {limit}"

    def _limits(self, application: ApplicationSubmitted, resource: str) -> Iterator[tuple[str, int]]:
        user, path = application.user.name, application.queue_path
        if resource == "vcore":
            if application.group:
                yield "dev vcore", 40_000
            return
        yield f"user {user}", self.memory
        if application.group:
            yield "dev", self.memory + self.memory // 2
        if path != DYNAMIC:
            yield path, self.memory + (10 if path == "root.a" else 0)
        elif self.quota is not None:
            yield path, self.quota
        yield "tree", _TREE
        if path == "root.a":
            yield "leaf a", _LEAF
        if user in _ELASTIC:
            yield f"elastic {_ELASTIC[user]}", _ELASTIC_MAXIMUM
