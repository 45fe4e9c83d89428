"""Every recorded trace of queue quotas in Apache YuniKorn, every field of every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from support.manager_replay import Answer, partition
from support.vectors import cases, vectors
from ugm import Partition, RequestError, Resource, UserGroup
from ugm.partition import AbstractPartition

_USER: Final = UserGroup("sue")


class QuotaReplay:
    """One trace on one partition: in every queue one application with one allocation, which grows and shrinks."""

    def __init__(self, trace: Mapping[str, Any], tested: AbstractPartition | None = None) -> None:
        self.partition = tested or Partition()
        self.partition.configure(partition(_as_the_peer_reads(trace["queues"])))
        # In the peer, a root without a maximum admits nothing: to us, that is a cluster without anything.
        # Its root has no headroom of its own then.
        self._has_cluster = bool(trace.get("root_max"))
        self.partition.add_node("cluster", Resource(trace.get("root_max") or {}))

    def answer(self, step: Mapping[str, Any]) -> Answer:
        """Do one step and return its result."""
        answer: Answer = getattr(self, f"_{step['op']}")(step)
        return answer

    def _held(self, queue_path: str) -> Resource:
        """Return what the one allocation of a queue takes, after making sure that there is one."""
        if self.partition.application(queue_path) is None:
            assert self.partition.submit(queue_path, _USER, queue_path)
        known = self.partition.allocation(queue_path)
        if known is None:
            assert self.partition.allocate(queue_path, queue_path, Resource())
            return Resource()
        return known.usage

    def _inc(self, step: Mapping[str, Any]) -> Answer:
        path, usage = step["queue"], Resource(dict(step["usage"]))
        held = self._held(path)
        expected = self.partition.check(path, usage)
        decision = self.partition.allocate(f"{path} more", path, usage)
        assert decision == expected, "check and allocate disagree"
        if decision:
            assert self.partition.release(f"{path} more")
            assert self.partition.resize(path, held + usage)
        return {"allowed": decision.allowed}

    def _dec(self, step: Mapping[str, Any]) -> Answer:
        path = step["queue"]
        try:
            return {"allowed": self.partition.resize(path, self._held(path) - Resource(dict(step["usage"]))).allowed}
        except RequestError:
            return {"allowed": False}

    def _force_inc(self, step: Mapping[str, Any]) -> Answer:
        path = step["queue"]
        usage = self._held(path) + Resource(dict(step["usage"]))
        self.partition.release(path)
        self.partition.adopt(path, path, usage)
        return {}

    def _headroom(self, step: Mapping[str, Any]) -> Answer:
        path = step["queue"]
        return {
            "headroom": _plain(self.partition.queue_headroom(path, cluster=self._has_cluster)),
            "max_headroom": _plain(self.partition.queue_headroom(path, cluster=False)),
            "max": _plain(self.partition.queue_maximum(path)),
        }

    def _state(self, _: Mapping[str, Any]) -> Answer:
        self.partition.verify()
        root = self.partition.queue()
        assert root is not None
        return {"queues": {queue.queue_path: dict(queue.usage) for queue in root.walk()}}


def _as_the_peer_reads(queue: Mapping[str, Any]) -> dict[str, Any]:
    """Return a queue without maxima of nothing but zeros: the peer takes them for no maximum, and we do not."""
    read = {**queue, "queues": [_as_the_peer_reads(child) for child in queue.get("queues", ())]}
    most = queue.get("resources", {}).get("max", {})
    if most and not any(Resource.parse(most).values()):
        del read["resources"]
    return read


def _plain(amounts: Resource | None) -> dict[str, int] | None:
    return None if amounts is None else dict(amounts)


@pytest.mark.parametrize("trace", cases(vectors("yunikorn/queue_quota")))
def test_queue_quota(trace: Mapping[str, Any]) -> None:
    """The maxima of a tree of queues, and the size of the cluster, allow and deny what they do in the peer."""
    replay = QuotaReplay(trace)
    for number, step in enumerate(trace["steps"]):
        answer = replay.answer(step)

        assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"
