"""A partition that is taken through a recorded trace of user and group limits, and answers in its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from support.manager_replay import DIFFERENCES, Answer, partition, queues_of
from support.vectors import cases, vectors
from ugm import Resource, UserGroup
from ugm.configuration import PartitionConfig
from ugm.partition import AbstractPartition

__all__ = ["PartitionReplay", "agreeing", "traces"]

#: From which step on an application is in the root itself. A `Manager` charges any path; a partition knows its queues,
#: and places nothing in the root.
_IN_THE_ROOT: Final = {
    "corner-headroom-is-minimum-per-type": 4,
    "enforce-054": 0,
    "enforce-148": 0,
    "enforce-196": 0,
}


def traces(sample: int, *names: str) -> list[Any]:
    """Return the traces of some files, each with its name as its id; all but one in *sample* are ``ci``."""
    found = [trace for name in names for trace in vectors(f"yunikorn/{name}") if _IN_THE_ROOT.get(trace["name"]) != 0]
    return cases(found, sample=sample)


def agreeing(trace: Mapping[str, Any]) -> int:
    """Return how many steps of a trace a partition is to answer as recorded."""
    steps, _ = DIFFERENCES.get(trace["name"], (len(trace["steps"]), ""))
    return min(steps, _IN_THE_ROOT.get(trace["name"], steps))


class PartitionReplay:
    """One trace on one partition: every application has one allocation under its own id, which grows and shrinks."""

    def __init__(self, trace: Mapping[str, Any], tested: AbstractPartition) -> None:
        self.partition = tested
        self.partition.configure(_limits_alone(trace["queues"]))

    def answer(self, step: Mapping[str, Any]) -> Answer:
        """Do one step and return its result."""
        answer: Answer = getattr(self, f"_{step['op']}")(step)
        return answer

    def _known(self, step: Mapping[str, Any]) -> bool:
        """Make sure that there is the application of a step, and return whether there was."""
        if self.partition.application(step["app"]) is not None:
            return True
        self.partition.adopt_application(step["app"], UserGroup(step["user"], step["groups"]), step["queue"])
        return False

    def _increase(self, step: Mapping[str, Any]) -> Answer:
        app, usage = step["app"], Resource(dict(step["usage"]))
        if self._known(step):
            held = self.partition.allocation(app)
            assert held is not None
            return {"allowed": self.partition.resize(app, held.usage + usage).allowed}
        expected = self.partition.check(app, usage)
        decision = self.partition.allocate(app, app, usage)
        assert decision == expected, "check and allocate disagree"
        if not decision:
            self.partition.complete(app)
            return {"allowed": False}
        application = self.partition.application(app)
        assert application is not None
        return {"allowed": True, "group": application.group}

    def _decrease(self, step: Mapping[str, Any]) -> Answer:
        app, held = step["app"], self.partition.allocation(step["app"])
        assert held is not None
        assert self.partition.resize(app, held.usage - Resource(dict(step["usage"])))
        if step["remove_app"]:
            assert self.partition.release(app)
            self.partition.complete(app)
        return {}

    def _headroom(self, step: Mapping[str, Any]) -> Answer:
        known = self._known(step)
        headroom = self.partition.headroom(step["app"])
        if not known:
            self.partition.complete(step["app"])
        return {"headroom": None if headroom is None else dict(headroom)}

    def _can_run_app(self, step: Mapping[str, Any]) -> Answer:
        known = self._known(step)
        decision = self.partition.check(step["app"], Resource())
        if not known:
            self.partition.complete(step["app"])
        return {"allowed": decision.allowed}

    def _configure(self, step: Mapping[str, Any]) -> Answer:
        self.partition.configure(_limits_alone(step["queues"]))
        return {"ok": True}

    def _state(self, _: Mapping[str, Any]) -> Answer:
        self.partition.verify()
        users, groups = self.partition.users(), self.partition.groups()
        return {
            "users": {user.user_name: dict(queues_of(user.queues)) for user in users},
            "groups": {group.group_name: dict(queues_of(group.queues)) for group in groups},
        }


def _limits_alone(queues: Mapping[str, Any]) -> PartitionConfig:
    return partition(_without_quotas(queues))


def _without_quotas(queue: Mapping[str, Any]) -> dict[str, Any]:
    """Return a queue without limits of its own: the trace is of users and groups alone."""
    kept = {name: value for name, value in queue.items() if name not in ("resources", "maxapplications")}
    return {**kept, "queues": [_without_quotas(child) for child in queue.get("queues", ())]}
