"""Partitions for tests of the page, and a server that shows them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from support.server_fixtures import running
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig
from ugm.partition import AbstractPartition
from ugm.server import History, create_app
from ugm.service import ServiceStatus
from ugm.store import StoredPartition, open_partition

#: The path of the browser: the value of this variable, or the first that is installed.
BROWSER = os.environ.get("UGM_BROWSER") or next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)

#: Milliseconds that the page may take for anything on a busy machine.
TIMEOUT = 240_000

#: Rows of a tree grid that are in the document.
ROWS = '.rows > [role="row"]'

#: Elements whose text is cut off without dots, and elements that exceed the window.
CUT_OFF = """() => [...document.querySelectorAll('#view *, #top *')].filter((e) => {
  const style = getComputedStyle(e);
  if (!e.offsetParent || !e.clientWidth || e.closest('.unseen')) return false;
  const hasDots = style.textOverflow === 'ellipsis' || /[0-9]/.test(style.webkitLineClamp);
  const cut = style.overflowX !== 'visible' && !hasDots;
  const isOut = e.getBoundingClientRect().right > document.documentElement.clientWidth + 1;
  return isOut || (cut && e.scrollWidth > e.clientWidth + 1);
}).map((e) => `${e.tagName}.${e.className}`)"""

#: A name that has an effect if it is inserted as markup.
MARKUP = "<img/src=x/onerror=document.title=1>"
#: Leaves below each team of a crowd.
_LEAVES = 59


def crowd(queues: int, users: int) -> tuple[Partition, History]:
    """Return a partition with a number of queues below the root, and of users with one application each."""
    history = History()
    partition = Partition(_config(queues), subscribers=[history])
    partition.add_node("node-1", Resource.parse(vcore="60000", memory="120Ti"))
    leaves = [path for path in partition.queue_paths() if partition.queue(path).is_leaf]  # type: ignore[union-attr]  # it exists
    random = Random(7)
    for number in range(users):
        user = UserGroup(MARKUP if number == 1 else f"user{number}", (f"group{number % 40}",))
        _add_application(partition, f"app-{number:05}", user, random.choice(leaves), random)
    return partition, history


def _config(queues: int) -> PartitionConfig:
    teams = max(1, queues // (_LEAVES + 1))
    below = min(_LEAVES, queues - 1)
    text = "\n".join(_team(f"team{number}", below) for number in range(teams))
    limits = (
        "limits: [{users: ['*'], maxresources: {vcore: 40, memory: 200Gi}, maxapplications: 9}, "
        "{groups: [group1, group2], maxresources: {vcore: 1500}}, {groups: ['*'], maxresources: {vcore: 40000}}]"
    )
    return parse_config(
        f"partitions:\n- name: default\n  queues:\n  - name: root\n    {limits}\n    queues:\n{text}"
    ).partition()


def _team(name: str, leaves: int) -> str:
    quota = "resources: {guaranteed: {vcore: 1}, max: {vcore: 64, memory: 256Gi}}"
    below = "\n".join(f"      - {{name: leaf{number}, {quota}}}" for number in range(leaves))
    return (
        f"    - name: {name}\n      resources: {{guaranteed: {{vcore: 100}}, max: {{vcore: 1200, memory: 4Ti}}}}\n"
        f"      limits: [{{users: ['*'], maxresources: {{vcore: 30}}, maxapplications: 5}}]\n      queues:\n{below}"
    )


def _add_application(partition: Partition, application_id: str, user: UserGroup, queue: str, random: Random) -> None:
    partition.submit(application_id, user, queue)
    usage = Resource.parse(vcore=f"{random.choice((500, 1500, 4000))}m", memory=f"{random.randint(1, 9000)}Mi")
    partition.allocate(f"{application_id}-a", application_id, usage)
    if random.random() < 0.1:
        partition.allocate(f"{application_id}-b", application_id, Resource.parse(vcore="28", memory="63Gi"))
        partition.request(f"{application_id}-c", application_id, Resource.parse(vcore="2", memory="3Gi"))


@contextmanager
def stored(config: PartitionConfig, **options: Any) -> Iterator[StoredPartition]:  # noqa: ANN401 - passed on
    """Open a partition with a store in a temporary folder."""
    with TemporaryDirectory() as folder, open_partition(f"{folder}/quota.db", config, **options) as partition:
        yield partition


@contextmanager
def served(
    partition: AbstractPartition,
    history: History | None = None,
    status: Callable[[], ServiceStatus] | None = None,
    *,
    config_path: Path | None = None,
    prepare: Callable[[Starlette], object] = bool,
    clock: Callable[[], float] = time.time,
    **others: AbstractPartition,
) -> Iterator[str]:
    """Serve partitions in a thread during the block, mounted below a path; yield the address.

    The application is passed to *prepare* before it is mounted.
    """
    services = {"default": status} if status else None
    histories = {"default": history} if history else None
    partitions = {"default": partition, **others}
    stores = {name: one.store._location for name, one in partitions.items() if isinstance(one, StoredPartition)}
    shown = create_app(
        partitions, history=histories, services=services, stores=stores, config_path=config_path, clock=clock
    )
    prepare(shown)
    with running(Starlette(routes=[Mount("/quotas", shown)])) as port:
        try:
            yield f"http://127.0.0.1:{port}/quotas/"
        finally:
            for feed in shown.state.feeds:
                feed.close()
