"""Journals that are kept as files, to prove that later versions open what earlier versions wrote.

``python -m support.recorded_journals FOLDER`` writes them with the version of ugm that is installed: two journals with
all that one can hold, and what both of them mean, as JSON in words that do not depend on the names in the code.

`closed` was closed. `killed` was left by a process that was killed, so its last changes are in the log next to it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from support.places import TESTS, environment
from support.random_changes import CONFIGS, Actor
from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config
from ugm.journal import JournaledPartition, open_partition, usage
from ugm.partition import RunningAllocation

__all__ = ["JOURNALS", "NOW", "described", "usage_described"]

#: The journals that every version opens.
JOURNALS: Final = TESTS / "system" / "journal" / "recorded"

#: 2026-10-25T00:00 in UTC; in many zones a day of 25 hours.
_START: Final = 1_792_886_400_000
#: A moment behind all changes.
NOW: Final = _START + 90 * 86_400_000
_HOUR: Final = 3_600_000

_CONFIG: Final = """
partitions:
- placementrules:
  - {name: provided, create: true}
  - {name: user, create: true, parent: {name: fixed, value: people}}
  queues:
  - name: root
    limits:
    - {limit: everybody, users: ["*"], maxresources: {memory: 300, vcore: 90}, maxapplications: 40}
    - {limit: the team, groups: [dev], maxresources: {memory: 200}, maxapplications: 20}
    queues:
    - name: batch
      resources: {max: {memory: 240, vcore: 80, nvidia.com/gpu: 4}, guaranteed: {memory: 50}}
      maxapplications: 30
      limits:
      - {limit: sue, users: [sue], maxresources: {memory: 120}, maxapplications: 10}
      - {limit: ops, groups: [ops], maxresources: {memory: 170}, maxapplications: 19}
      - {limit: others, groups: ["*"], maxresources: {memory: 150}, maxapplications: 12}
    - {name: people, parent: true, childtemplate: {resources: {max: {memory: 60}}}}
    - {name: gangs}
"""
_CONFIG_AFTER: Final = _CONFIG.replace("memory: 120}", "memory: 90}").replace("- {name: gangs}", "- {name: other}")

_SUE: Final = UserGroup("sue", ("dev", "ops"))
_ODD_NAMES: Final = (
    "app \u00e9\u4e2d\U0001f600",
    'quote"\\',
    "half \ud800",
    "per%cent?#&=/",
    "line\nfeed\ttab",
    "\u202eright to left",
    "x" * 300,
    " spaces ",
    "'; DROP TABLE changes; --",
)


class _Clock:
    """A clock that stands still until it is set, in milliseconds."""

    def __init__(self) -> None:
        self.now = _START

    def __call__(self) -> float:
        return self.now / 1000


def _write(path: Path, clock: _Clock) -> JournaledPartition:
    """Write a journal with everything that it can hold, and return the partition."""
    partition = open_partition(path, CONFIGS[0], clock=clock)
    actor = Actor("recorded")
    for number in range(150):
        clock.now += 1_234_567
        actor.step(partition)
        if number in (40, 90):
            partition.journal.compact(usage_since=(_START + _HOUR) / 1000 if number == 40 else None)
    _end_all(partition)
    clock.now += _HOUR
    partition.configure(parse_config(_CONFIG).partition())
    for name in partition.nodes():
        partition.remove_node(name)
    partition.add_node("node-1", Resource({"memory": 900, "vcore": 100, "nvidia.com/gpu": 8, "odd/name %": 40}))
    partition.add_node("node-2", Resource(memory=1))
    partition.add_node("node \u00e9", Resource(memory=100))
    partition.update_node("node \u00e9", Resource(memory=150, vcore=2**63 - 1))
    _run(partition, clock)
    partition.journal.compact()
    clock.now += 30 * 24 * _HOUR
    _run_more(partition, clock)
    return partition


def _end_all(partition: Partition) -> None:
    for application in partition.applications():
        partition.remove(application.application_id)


def _run(partition: Partition, clock: _Clock) -> None:
    """Make applications that stay, and some that go, one of which returns for another user."""
    partition.submit("batch-1", _SUE, "root.batch", tags={"tier": "\u00e9\ud800"}, gang_style="hard")
    partition.submit("again", UserGroup("bob", ("ops",)), "root.batch")
    partition.submit("own", UserGroup("eve"), "")
    partition.submit("made", UserGroup("kim", ("dev",)), "root.made.deep", quota=Resource(memory=70))
    partition.adopt_application("adopted", UserGroup("old", ("gone",)), "root.batch", group="gone")
    partition.allocate("b-1", "batch-1", Resource({"memory": 40, "vcore": 4, "nvidia.com/gpu": 1}))
    partition.allocate("b-2", "batch-1", Resource(memory=20), priority=-5, preemptible=False)
    partition.allocate("a-1", "again", Resource(memory=10))
    partition.allocate("o-1", "own", Resource(memory=30))
    partition.allocate("m-1", "made", Resource(memory=25))
    clock.now += 7 * _HOUR
    partition.resize("b-1", Resource({"memory": 50, "vcore": 3, "nvidia.com/gpu": 1}))
    partition.complete("again") if partition.release("a-1") else None
    partition.submit("again", UserGroup("zoe", ("ops",)), "root.batch")
    partition.allocate("a-1", "again", Resource(memory=15))
    partition.submit("gang", _SUE, "root.gangs")
    partition.allocate_all(
        [AllocationRequest(f"g-{n}", "gang", Resource(memory=5), placeholder=True) for n in range(4)]
    )
    partition.replace("g-0", "real-0", Resource(memory=4))
    for number, name in enumerate(_ODD_NAMES):
        user = UserGroup(f"user {name}", (f"group {name}", "ops"))
        assert partition.submit(name, user, "root.batch")
        assert partition.allocate(f"{name}-1", name, Resource({"memory": number, "odd/name %": number}))


def _run_more(partition: Partition, clock: _Clock) -> None:
    """Make changes that are kept one by one."""
    partition.preempt("b-2")
    partition.request("pending-1", "batch-1", Resource(memory=33), priority=7)
    partition.request("pending-2", "batch-1", Resource(memory=2**63 - 1), placeholder=True)
    clock.now += _HOUR
    partition.adopt("late", "adopted", Resource(memory=170, vcore=5), priority=2)
    partition.set_queue_quota("root.made.deep", Resource(memory=45))
    partition.submit("gang-2", _SUE, "root.gangs", gang_style="hard")
    partition.allocate_all(
        [AllocationRequest(f"h-{n}", "gang-2", Resource(memory=2), placeholder=True) for n in range(3)]
    )
    partition.time_out_gang("gang-2")
    clock.now += _HOUR // 7
    partition.configure(parse_config(_CONFIG_AFTER).partition())
    partition.remove_node("node-2")
    running = [
        RunningAllocation(a.allocation_id, a.application_id, a.usage)
        for a in partition.allocations()
        if a.state == "held"
    ]
    partition.reconcile(partition.audit([one for one in running if one.allocation_id != "o-1"]))
    partition.submit("last", UserGroup("last"), "root.other")
    partition.fail("gang")
    clock.now += 17
    partition.allocate("l-1", "last", Resource(memory=1))
    partition.release("m-1")


# What a journal means


def _amounts(resource: Resource | None) -> dict[str, int] | None:
    return None if resource is None else dict(sorted(resource.amounts.items()))


def _trees(trees: Iterable[Any]) -> dict[str, Any]:
    """Describe what a user or a group uses in a queue and below it."""
    found: dict[str, Any] = {}
    for tree in trees:
        found[tree.queue_path] = {
            "usage": _amounts(tree.usage),
            "running": list(tree.running_applications),
            "max": _amounts(tree.max_resources),
            "max applications": tree.max_applications,
            **_trees(tree.children),
        }
    return found


def _queues(queue: Any) -> dict[str, Any]:  # noqa: ANN401 - the state of a queue
    found = {
        queue.queue_path: {
            "leaf": queue.is_leaf,
            "configured": queue.is_managed,
            "draining": queue.is_draining,
            "max": _amounts(queue.max_resources),
            "max applications": queue.max_applications,
            "guaranteed": _amounts(queue.guaranteed),
            "usage": _amounts(queue.usage),
            "running": queue.running_applications,
            "applications": list(queue.applications),
        }
    }
    for child in queue.children:
        found.update(_queues(child))
    return found


def described(partition: Partition) -> Any:  # noqa: ANN401 - as JSON
    """Describe all that a partition holds, as JSON has it."""
    found = {
        "nodes": {name: _amounts(offers) for name, offers in partition.nodes().items()},
        "applications": [
            {
                "id": application_info.application_id,
                "user": application_info.user.name,
                "groups": list(application_info.user.groups),
                "queue": application_info.queue_path,
                "state": application_info.state.value,
                "charged to": application_info.group,
                "usage": _amounts(application_info.usage),
                "allocations": [
                    application_info.allocations,
                    application_info.terminating,
                    application_info.placeholders,
                    application_info.pending,
                ],
                "tags": dict(application_info.tags),
            }
            for application_info in partition.applications()
        ],
        "allocations": [
            {
                "id": allocation.allocation_id,
                "application": allocation.application_id,
                "usage": _amounts(allocation.usage),
                "state": allocation.state.value,
                "placeholder": allocation.placeholder,
                "priority": allocation.priority,
                "preemptible": allocation.preemptible,
            }
            for allocation in partition.allocations()
        ],
        "users": {user.user_name: [dict(user.groups), _trees([user.queues])] for user in partition.users()},
        "groups": {
            group.group_name: [list(group.users), list(group.applications), _trees([group.queues])]
            for group in partition.groups()
        },
        "queues": _queues(partition.queue()),
        "over": sorted(
            [str(one.kind), one.name, one.queue_path, one.limit_name, one.resource, one.limit, one.used]
            for one in partition.exceeded_limits()
        ),
        "answers": {
            f"{application} {amount}": bool(partition.check(application, Resource(memory=amount)))
            for application in ("batch-1", "made", "own", "last")
            for amount in (1, 30, 50, 100, 1000)
        },
    }
    return json.loads(json.dumps(found))


def usage_described(path: Path) -> Any:  # noqa: ANN401 - as JSON
    """Describe who used how much over time, as JSON has it."""
    found: dict[str, Any] = {}
    options: Mapping[str, Any] = {"clock": lambda: NOW / 1000}
    for by in ("user", "group", "queue", "application"):
        found[by] = usage(path, by, **options)
    found["user by week"] = usage(path, "user", period="week", zone="Europe/Vienna", **options)
    found["queue by month"] = usage(path, "queue", period="month", since=(_START + 2 * _HOUR) / 1000, **options)
    lines = {
        name: [[line.name, round(line.begin * 1000), round(line.end * 1000), dict(line.amounts)] for line in lines]
        for name, lines in found.items()
    }
    return json.loads(json.dumps(lines))


def _record(folder: Path, name: str) -> None:
    """Write one journal in a process of its own, and keep its files and what it means."""
    with TemporaryDirectory() as temporary:
        path = Path(temporary) / name
        command = [sys.executable, "-m", "support.recorded_journals", str(path), "write", name]
        subprocess.run(command, env=environment(), check=name == "closed")  # noqa: S603 - this program
        for suffix in ("", "-wal", "-acked"):
            if (source := Path(f"{path}{suffix}")).exists():
                shutil.copy(source, folder / source.name)
        meaning = {"usage": usage_described(path)}
        with open_partition(path, clock=lambda: NOW / 1000) as partition:
            meaning |= {"number": partition.journal.number, "state": described(partition)}
    text, file = _text(meaning), folder / "meaning.json"
    assert not file.exists() or file.read_text("utf-8") == text
    file.write_text(text, "utf-8")


def _text(meaning: Mapping[str, Any]) -> str:
    """Return JSON with a line for each part."""
    parts = [
        f'"{name}": {{\n'
        + ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in part.items())
        + "\n}"
        for name, part in meaning.items()
        if name != "number"
    ]
    return "{\n" + ",\n".join([f'"number": {meaning["number"]}', *parts]) + "\n}\n"


def _main(path: str, *rest: str) -> None:
    if not rest:
        Path(path).mkdir()
        for name in ("closed", "killed"):
            _record(Path(path), name)
        return
    partition = _write(Path(path), _Clock())
    if rest[1] == "closed":
        partition.journal.close()
    else:
        os.kill(os.getpid(), 9)


if __name__ == "__main__":
    _main(*sys.argv[1:])
