"""Queues in the format of Apache YuniKorn: the class ``PartitionQueueDAOInfo``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ugm.configuration import ChildTemplate, QueueConfig
from ugm.ordering.sort_settings import QueueSettings
from ugm.partition import PartitionSnapshot
from ugm.queues import QueueState
from ugm.server._yunikorn.values import amounts, percentages

__all__ = ["QueueFormat"]

_PREEMPTION: Final = "preemption.policy"
_DELAY: Final = "preemption.delay"
#: The delay of queues whose configuration sets none.
_DEFAULT_DELAY: Final = "30s"


class QueueFormat:
    """Returns the queues of one snapshot in the format of Apache YuniKorn.

    Args:
        partition: the name of the partition.
        snapshot: the partition at one moment.
    """

    def __init__(self, partition: str, snapshot: PartitionSnapshot) -> None:
        self._partition: Final = partition
        self._snapshot: Final = snapshot
        self._settings: Final = QueueSettings(snapshot.config)
        self._configured: Final[dict[str, QueueConfig]] = (
            {} if snapshot.config is None else dict(snapshot.config.root.walk())
        )

    def queue(self, state: QueueState, *, subtree: bool) -> dict[str, object]:
        """Return a queue for JSON.

        Args:
            state: the queue.
            subtree: if false, the queues below are only named.
        """
        path = state.queue_path
        above = path.rpartition(".")[0]
        template = self._template(path)
        return {
            "queuename": path,
            "queuePath": path,
            "partition": self._partition,
            "isLeaf": state.is_leaf,
            "isManaged": state.is_managed,
            "status": "Draining" if state.is_draining else "Active",
            **({"parent": above} if above else {}),
            **self._amounts(state),
            **self._settings_of(path, is_leaf=state.is_leaf),
            **({} if template is None else {"template": template}),
            "children": [self.queue(child, subtree=True) for child in state.children] if subtree else [],
            "childNames": [child.queue_path for child in state.children],
        }

    def _amounts(self, state: QueueState) -> dict[str, object]:
        pending = self._snapshot.pending.queues.get(state.queue_path)
        return {
            "allocatedResource": amounts(state.usage),
            "pendingResource": amounts(pending.amounts if pending else None),
            "maxResource": amounts(state.max_resources),
            "guaranteedResource": amounts(state.guaranteed),
            "headroom": amounts(self._snapshot.queue_headroom(state.queue_path)),
            "absUsedCapacity": percentages(state.max_resources, state.usage),
            "maxRunningApps": state.max_applications,
            "runningApps": state.running_applications,
            "allocatingAcceptedApps": [],
        }

    def _settings_of(self, path: str, *, is_leaf: bool) -> dict[str, object]:
        sorting, properties = self._settings.of(path), self._properties(path)
        preemption = properties.get(_PREEMPTION, "").lower()
        return {
            "properties": dict(properties),
            "sortingPolicy": sorting.policy if is_leaf else "fair",
            "prioritySorting": sorting.priority_first,
            "priorityOffset": sorting.offset,
            "isPriorityFence": sorting.is_fenced,
            "currentPriority": sorting.offset,
            "preemptionEnabled": preemption != "disabled",
            "isPreemptionFence": preemption == "fence",
            "preemptionDelay": properties.get(_DELAY) or _DEFAULT_DELAY,
        }

    def _properties(self, path: str) -> Mapping[str, str]:
        """Return the properties of a queue; those of a dynamic queue are in the template that applies to it."""
        if path in self._configured:
            return self._configured[path].properties
        template = self._nearest_template(path)
        return {} if template is None else template.properties

    def _nearest_template(self, path: str) -> ChildTemplate | None:
        above = path.rpartition(".")[0]
        while above:
            configured = self._configured.get(above)
            if configured is not None and configured.child_template is not None:
                return configured.child_template
            above = above.rpartition(".")[0]
        return None

    def _template(self, path: str) -> dict[str, object] | None:
        configured = self._configured.get(path)
        template = None if configured is None else configured.child_template
        if template is None:
            return None
        return {
            "maxApplications": template.max_applications,
            "maxResource": amounts(template.resources.max),
            "guaranteedResource": amounts(template.resources.guaranteed),
            "properties": dict(template.properties),
        }
