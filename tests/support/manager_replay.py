"""A manager that replays a recorded trace of Apache YuniKorn, with answers in its format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from ugm import Manager, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig
from ugm.tracking import QueueUsage

#: The result fields of one step.
Answer = dict[str, Any]

#: Traces in which the peer does something else on purpose of ours: up to which step they agree, and why not further.
DIFFERENCES: Final = {
    "corner-no-groups-no-group-tracking": (
        2,
        "asking for the headroom of an application fixes its group there; here, its first usage chooses the group",
    )
}


def partition(queues: dict[str, Any]) -> PartitionConfig:
    """Return the configuration with the queue of a trace as its root."""
    return parse_config(json.dumps({"partitions": [{"name": "default", "queues": [queues]}]})).partition()


class Replay:
    """One trace on one manager."""

    def __init__(self, trace: Mapping[str, Any]) -> None:
        self.manager = Manager(partition(trace["queues"]))

    def answer(self, step: dict[str, Any]) -> Answer:
        """Do one step and return its result."""
        answer: Answer = getattr(self, f"_{step['op']}")(step)
        return answer

    def _increase(self, step: dict[str, Any]) -> Answer:
        request = (step["queue"], step["app"], _usage(step), _user(step))
        group = self.manager.group_for(step["queue"], step["app"], _user(step))
        expected = self.manager.check(*request)
        decision = self.manager.increase(*request)
        assert decision == expected, "check and increase disagree"
        return {"allowed": decision.allowed, "group": group}

    def _decrease(self, step: dict[str, Any]) -> Answer:
        self.manager.decrease_tracked_resource(
            step["queue"], step["app"], _usage(step), remove_app=step["remove_app"], user=_user(step)
        )
        return {}

    def _headroom(self, step: dict[str, Any]) -> Answer:
        headroom = self.manager.headroom(step["queue"], step["app"], _user(step))
        return {"headroom": None if headroom is None else dict(headroom)}

    def _can_run_app(self, step: dict[str, Any]) -> Answer:
        return {"allowed": self.manager.can_run_app(step["queue"], step["app"], _user(step))}

    def _configure(self, step: dict[str, Any]) -> Answer:
        self.manager.update_config(partition(step["queues"]))
        return {"ok": True}

    def _state(self, _: dict[str, Any]) -> Answer:
        self.manager.verify()
        users = self.manager.get_users_resources()
        return {
            "users": {user.user_name: dict(queues_of(user.queues)) for user in users},
            "groups": {
                group.group_name: dict(queues_of(group.queues)) for group in self.manager.get_groups_resources()
            },
            "user_groups": {
                user.user_name: {app: user.groups.get(app) for app in user.queues.running_applications}
                for user in users
            },
        }


# Equal users and usages are one object, as a scheduler has them.


def _user(step: dict[str, Any]) -> UserGroup:
    return _same_user(step["user"], tuple(step["groups"]))


def _usage(step: dict[str, Any]) -> Resource:
    return _same_usage(tuple(step["usage"].items()))


@cache
def _same_user(name: str, groups: tuple[str, ...]) -> UserGroup:
    return UserGroup(name, groups)


@cache
def _same_usage(amounts: tuple[tuple[str, int], ...]) -> Resource:
    return Resource(dict(amounts))


def queues_of(queue: QueueUsage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the usage of a queue and of all queues below it, by path."""
    yield (
        queue.queue_path,
        {
            "usage": dict(queue.usage),
            "apps": list(queue.running_applications),
            "max_resources": None if queue.max_resources is None else dict(queue.max_resources),
            "max_apps": queue.max_applications,
        },
    )
    for child in queue.children:
        yield from queues_of(child)
