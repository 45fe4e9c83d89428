"""The limits of the service under faults: users, a group and queues, all within reach.

The sums of a log are compared with them by `Sums`, without the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ugm import Resource, UserGroup, parse_config
from ugm.config import PartitionConfig
from ugm.partition import AbstractPartition
from ugm.partition.events import ApplicationSubmitted

USERS: Final = ("ana", "bob", "sue")
#: A queue that placement creates; its quota changes.
DYNAMIC: Final = "root.dyn.c"
#: The applications of all clients: id, user, queue.
APPLICATIONS: Final = tuple(
    (f"{user}-{path.rpartition('.')[2]}", user, path) for user in USERS for path in ("root.a", "root.b", DYNAMIC)
)


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


def user_group(user: str) -> UserGroup:
    """Return a user with its groups."""
    return UserGroup(user, ("dev",) if user != "sue" else ())


def submit(partition: AbstractPartition, application_id: str, user: str, queue: str) -> bool:
    """Submit an application."""
    return bool(partition.submit(application_id, user_group(user), queue))


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
