"""The retry loop of the how-to page has the result of retrying every request, with fewer denials."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from support.examples import seeds
from support.places import DOCS
from ugm import Manager, Resource, UserGroup, parse_config

HOWTOS = DOCS / "howto"


def blocks(page: str) -> dict[str, Any]:
    """Execute the definitions of a page and return them."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (HOWTOS / page).read_text(encoding="utf-8"), re.DOTALL):
        if ">>>" not in block:
            exec(block, names)  # noqa: S102 - a page of our own
    return names


CONFIG = """
partitions:
- limits: [{groups: [red], maxresources: {gpu: 6}, maxapplications: 5}]
  queues:
  - name: a
    resources: {max: {vcore: 12}}
    limits: [{users: ["*"], maxresources: {vcore: 7}, maxapplications: 4}]
  - {name: b, maxapplications: 6, resources: {max: {vcore: 9, gpu: 9}}}
"""
USERS = (UserGroup("ana", ("red",)), UserGroup("ben", ("red",)), UserGroup("eve"))


def request(random: Random, number: int) -> tuple[str, str, UserGroup, Resource]:
    """Return a request of a new application."""
    usage = Resource(vcore=random.randint(0, 4) * 1000, gpu=random.randint(0, 3))
    return f"app-{number}", random.choice(["root.a", "root.b"]), random.choice(USERS), usage


@pytest.mark.parametrize("seed", seeds(4, 15, 30))
def test_manager_grants_the_same(seed: int) -> None:
    """The loop for a manager grants the same requests in the same order as retrying every request."""
    random, page = Random(seed), blocks("embed-manager.md")
    manager = page["manager"] = Manager(parse_config(CONFIG).partition())
    naive, waiting = Manager(parse_config(CONFIG).partition()), dict[str, Any]()
    running = dict[str, Any]()

    def retry_all() -> None:
        for name, (queue, user, usage) in list(waiting.items()):
            decision = naive.increase(queue, name, usage, user)
            if decision or not decision.can_wait:
                del waiting[name]
            if decision:
                running[name] = queue, user, usage

    for number in range(80):
        name, *rest = request(random, number)
        waiting[name] = rest
        retry_all()
        page["start"](name, *rest)
        assert waiting.keys() == page["pending"].keys()
        if running and random.random() < 0.7:
            ended = random.choice(list(running))
            rest = running.pop(ended)
            queue, user, usage = rest
            naive.decrease_tracked_resource(queue, ended, usage, remove_app=True, user=user)
            retry_all()
            page["end"](ended, *rest)
        assert list(waiting) == list(page["pending"])
        assert naive.get_users_resources() == manager.get_users_resources()
