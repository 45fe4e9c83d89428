"""Configurations of clients are read in another process, which costs the scheduler next to nothing."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from admitting import SUE, memory, partition_of, started
from serving import CONFIG, PREFIX, YAML, busy, client
from ugm import ConfigError, Partition, Resource, UserGroup, parse_config
from ugm.config import QueueConfig
from ugm.partition import Partition as PartitionType
from ugm.server.errors import ApiError
from ugm.server.requests import Bounds
from ugm.server.worker import Worker

_QUEUE = (
    "    - {{name: q{0}, resources: {{max: {{vcore: 4, memory: 8Gi}}}}, "
    "limits: [{{users: [u{0}], maxapplications: 2}}]}}\n"
)


def large(queues: int) -> str:
    """Return a configuration of so many queues, some hundred bytes each."""
    head = "partitions:\n- name: default\n  queues:\n  - name: root\n    queues:\n"
    return head + "".join(_QUEUE.format(number) for number in range(queues))


def test_validate() -> None:
    """A good configuration is good, and all problems of a bad one are listed."""
    worker = Worker()
    good, bad = worker.validate(CONFIG), worker.validate(CONFIG.replace("[dev]", "[]").replace("50", "x"))

    assert (good.status, json.loads(good.content)["allowed"]) == (200, True)
    assert len(json.loads(bad.content)["problems"]) == 2


def planned(partition: PartitionType) -> None:
    """Make the same plan here and there, and compare."""
    tighter = CONFIG.replace("memory: 8", "memory: 2").replace("{name: b}", "{name: c}")
    expected = partition.plan(parse_config(tighter).partition())
    found = Worker().plan(partition, "default", tighter)

    assert found.status == 200
    assert json.loads(found.content) == {**json.loads(json.dumps(expected.to_dict())), "text": str(expected)}


def test_plans_are_the_same() -> None:
    """A plan that is made elsewhere is the one that the partition makes, with tags, made queues, quotas and nodes."""
    partition = busy()
    partition.submit("tagged", UserGroup("zoe", ("ops",)), "root.made", tags={"namespace": "n"})
    partition.allocate("more", "tagged", Resource(memory=3))
    partition.add_node("n1", memory(40))
    planned(partition)
    planned(Partition())


def test_plans_under_changing_configurations() -> None:
    """The configuration in force is sent once, and again when it has changed."""
    partition, worker = partition_of(), Worker()
    started(partition, "app", 6)
    for limit in (9, 3, 9):
        text = f"partitions: [{{queues: [{{name: a, resources: {{max: {{memory: {limit}}}}}}}]}}]"
        for _ in range(2):
            told = json.loads(worker.plan(partition, "default", text).content)
            assert bool(told["over"]) == (limit == 3)
        partition.configure(parse_config(text).partition())


def test_plan_refusals() -> None:
    """A plan for another partition, or of a broken configuration, is refused as in the server itself."""
    worker, partition = Worker(), busy()

    for text, code in ((CONFIG.replace("name: default", "name: other"), "partition-missing"), ("[", "yaml-syntax")):
        found = worker.plan(partition, "default", text)
        assert (found.status, json.loads(found.content)["problems"][0]["code"]) == (422, code)


def test_read() -> None:
    """A configuration comes back as it was read, or with everything that is wrong."""
    assert Worker().read(CONFIG) == parse_config(CONFIG)
    with pytest.raises(ConfigError) as caught:
        Worker().read("partitions: [{queues: [{name: a, x: 1, y: 2}]}]")
    assert len(caught.value.problems) == 2


def test_too_slow() -> None:
    """What takes too long is given up, and the next request is served by a new process."""
    worker = Worker(seconds=0.01)
    with pytest.raises(ApiError, match="not read within") as caught:
        worker.validate(large(4000))

    assert (caught.value.status, caught.value.code) == (503, "validation-timeout")
    assert Worker().validate(CONFIG).status == 200


def test_process_that_ends() -> None:
    """A process that was killed is replaced."""
    worker = Worker()
    worker.validate(CONFIG)
    (child,) = worker._children
    child.process.kill()
    child.process.wait()

    assert worker.validate(CONFIG).status == 200
    worker.close()
    with pytest.raises(ApiError, match="stopping"):
        worker.validate(CONFIG)
    worker.open()
    assert worker.validate(CONFIG).status == 200


def test_process_that_ends_in_the_middle() -> None:
    """A request whose process is killed fails, and does not hang."""
    worker = Worker()
    worker.validate(CONFIG)
    (child,) = worker._children
    threading.Timer(0.1, child.process.kill).start()
    with pytest.raises(ApiError) as caught:
        worker.validate(large(9000))

    assert caught.value.code == "validation-failed"


def test_closing_ends_a_request() -> None:
    """Closing does not wait for what is being read."""
    worker, found = Worker(), []

    def validate() -> None:
        try:
            worker.validate(large(9000))
        except ApiError as error:
            found.append(error.code)

    worker.validate(CONFIG)
    thread = threading.Thread(target=validate)
    thread.start()
    time.sleep(0.2)
    started_at = time.perf_counter()
    worker.close()
    thread.join(30)

    assert found == ["validation-failed"]
    assert time.perf_counter() - started_at < 5


@pytest.mark.parametrize("executable", ["", "/no/such/interpreter"])
def test_without_a_process(executable: str, caplog: pytest.LogCaptureFixture) -> None:
    """Where no process can be started, small configurations are read in the server, and large ones refused."""
    worker = Worker(executable=executable)
    with caplog.at_level(logging.WARNING):
        assert worker.validate(CONFIG).status == 200
        assert worker.plan(busy(), "default", CONFIG).status == 200
    with pytest.raises(ApiError) as caught:
        worker.validate("#" * 100_000)

    assert caught.value.code == "validation-unavailable"
    assert ("no process to read" in caplog.text) == bool(executable)


def test_configuration_of_a_program() -> None:
    """A partition whose configuration cannot be sent to another process is planned for in the server."""
    settings = SimpleNamespace(root=QueueConfig(name="root"), placement_rules=(), made=lambda: None)

    assert Worker().plan(Partition(settings), "default", CONFIG).status == 200


def test_child_ends_with_its_parent(tmp_path: Path) -> None:
    """A server that is killed leaves no process behind."""
    file = tmp_path / "pid"
    program = (
        "import os, sys; from ugm.server.worker import Worker; w = Worker(); w.validate('a'); "
        "open(sys.argv[1], 'w').write(str(w._children[0].process.pid)); os._exit(9)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program, str(file)], env=environment, check=False)  # noqa: S603 - our own program
    for _ in range(100):
        try:
            state = Path(f"/proc/{file.read_text()}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the process is still there")


def test_too_many_wait() -> None:
    """When too many configurations wait, the next is refused before its body is read."""
    answer = client(bounds=Bounds(configurations=0)).post("/ws/v1/validate-conf", content=CONFIG, headers=YAML)

    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "busy", "1")
    assert client(bounds=Bounds(configurations=0)).get(f"{PREFIX}/queues").status_code == 200


def rate(partition: Partition, seconds: float) -> float:
    """Return how many decisions a second a scheduler makes that never pauses."""
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(20):
            assert partition.allocate("x", "app", memory(1)).allowed
            partition.release("x")
        count += 20
    return count / seconds


@pytest.mark.deep
def test_scheduler_keeps_its_rate() -> None:
    """Two clients that validate a megabyte all the time take at most a tenth of the decisions of a scheduler."""
    import http.client  # noqa: PLC0415 - of this test alone

    from serving import running, served  # noqa: PLC0415 - as above

    text, partition, stop = large(9000).encode(), partition_of(), threading.Event()
    partition.submit("app", SUE, "root.a")
    counts = [0, 0]

    def validate(port: int, number: int) -> None:
        while not stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            connection.request("POST", "/ws/v1/validate-conf", text, YAML)
            connection.getresponse().read()
            counts[number] += 1
            connection.close()

    with running(served(partition)) as port:
        rate(partition, 0.5)
        alone, busy_rate = 0.0, 0.0
        for _ in range(4):
            stop.clear()
            alone += rate(partition, 3)
            threads = [threading.Thread(target=validate, args=(port, number)) for number in range(2)]
            for thread in threads:
                thread.start()
            time.sleep(0.3)
            busy_rate += rate(partition, 3)
            stop.set()
            for thread in threads:
                thread.join()

    assert min(counts) > 0
    assert busy_rate >= 0.9 * alone, (busy_rate, alone, counts)
