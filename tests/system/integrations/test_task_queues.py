"""The examples for task queues run with Celery and Parsl themselves, and limit what runs at once."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from support.hosts import Processes, QuotaService, processes
from support.places import EXAMPLES
from ugm import Resource, UserGroup
from ugm.partition import AllocationSpec

pytestmark = pytest.mark.hosts

FOLDER: Final = EXAMPLES / "task-queues"
#: A broker and a store of results in a folder, and a task that returns when it ran.
CONFIG: Final = """
broker_url = "filesystem://"
broker_transport_options = dict(data_folder_in="broker", data_folder_out="broker", control_folder="broker")
result_backend = "file://{folder}/results"
broker_connection_retry_on_startup = True
"""
TASKS: Final = dedent("""
    import time
    from celery_tasks import LimitedTask, app, huge

    @app.task(base=LimitedTask)
    def measured():
        begin = time.time()
        time.sleep(0.5)
        return [begin, time.time()]
""")
PRODUCER: Final = dedent("""
    import json
    from measured_tasks import huge, measured

    sent = [(user, measured.apply_async(headers={"user": user})) for user in ["ana"] * 6 + ["ben"] * 2]
    try:
        huge.apply_async(headers={"user": "ana"}).get(timeout=100)
    except PermissionError as error:
        print(json.dumps([[user, *result.get(timeout=100)] for user, result in sent]))
        print(error)
""")


@pytest.fixture(name="started")
def _started() -> Iterator[Processes]:
    with processes() as started:
        yield started


def most_at_once(periods: list[tuple[float, float]]) -> int:
    """Return how many periods overlap at most."""
    changes = sorted([(begin, 1) for begin, _ in periods] + [(end, -1) for _, end in periods])
    counts = [0]
    for _, change in changes:
        counts.append(counts[-1] + change)
    return max(counts)


def test_celery(started: Processes, tmp_path: Path) -> None:
    """Tasks wait for their limit, a task that never fits fails with a sentence, and what dead workers hold ends."""
    service = QuotaService(started, tmp_path, (FOLDER / "limits.yaml").read_text("utf-8"))
    service.start()
    for name in ("broker", "results"):
        (tmp_path / name).mkdir()
    shutil.copy(FOLDER / "celery_tasks.py", tmp_path)
    (tmp_path / "celeryconfig.py").write_text(CONFIG.format(folder=tmp_path), "utf-8")
    (tmp_path / "measured_tasks.py").write_text(TASKS, "utf-8")
    (tmp_path / "producer.py").write_text(PRODUCER, "utf-8")
    environment = {"UGM_SERVICE": service.address, "UGM_TOKEN": service.token_file.read_text("utf-8")}
    with service.partition() as partition:
        dead = AllocationSpec("celery/dead", Resource(slots=2), duration=1)
        assert partition.admit("celery/dead", UserGroup("ana"), "root.tasks", [dead])

        command = [sys.executable, "-m", "celery", "-A", "measured_tasks", "worker", "--loglevel", "INFO"]
        worker = started.start(command, tmp_path / "worker.log", environment=environment)
        worker.wait_until(lambda: "ready." in worker.output(), "the worker is ready")
        producer = started.start([sys.executable, "producer.py"], tmp_path / "producer.log", environment=environment)
        assert producer.process.wait(100) == 0, producer.output() + worker.output()

        times, text = producer.output().splitlines()
        runs = json.loads(times)
        assert most_at_once([(begin, end) for user, begin, end in runs if user == "ana"]) == 2
        assert most_at_once([(begin, end) for user, begin, end in runs if user == "ben"]) <= 2
        assert text.startswith("Your limit allows 2 slots at most, and the request is for 3 slots.")
        worker.wait_until(lambda: not partition.allocations(), "everything has ended")
        assert worker.stop() == 0
        partition.verify()


def test_parsl(started: Processes, tmp_path: Path) -> None:
    """A third app is denied while two run, and starts after one of them."""
    example = started.start([sys.executable, FOLDER / "parsl_apps.py"], tmp_path / "example.log")
    assert example.process.wait(100) == 0, example.output()

    lines = example.output().splitlines()
    assert [line for line in lines if line.startswith("app")] == [f"app {number} has started" for number in range(1, 7)]
    assert lines[2].startswith("Your limit allows 2 slots (in use: 2 slots)")
