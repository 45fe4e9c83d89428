"""The worker process, which reads the configurations of clients."""

from __future__ import annotations

import json
import logging
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from support.partition_fixtures import SUE, memory, partition_of, started
from support.server_fixtures import CONFIG, PREFIX, YAML, busy, client, running, served
from ugm import ConfigError, Partition, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig, QueueConfig
from ugm.partition import AbstractPartition
from ugm.server.payloads import ApiError
from ugm.server.requests import RequestBounds
from ugm.server.worker import Worker
from ugm.server.worker_jobs import PlanJob, ReadJob, serve

pytestmark = pytest.mark.ci

_QUEUE = (
    "    - {{name: q{0}, resources: {{max: {{vcore: 4, memory: 8Gi}}}}, "
    "limits: [{{users: [u{0}], maxapplications: 2}}]}}\n"
)


def large(queues: int) -> str:
    """Return a configuration with a number of queues, each of about a hundred bytes."""
    head = "partitions:\n- name: default\n  queues:\n  - name: root\n    queues:\n"
    return head + "".join(_QUEUE.format(number) for number in range(queues))


def test_validate() -> None:
    """A valid configuration is allowed, and all problems of an invalid one are listed."""
    worker = Worker()
    good, bad = worker.validate(CONFIG), worker.validate(CONFIG.replace("[dev]", "[]").replace("50", "x"))

    assert (good.status, json.loads(good.content)["allowed"]) == (200, True)
    assert len(json.loads(bad.content)["problems"]) == 2


def planned(partition: AbstractPartition) -> None:
    """Compare a plan of the worker with that of the partition."""
    tighter = CONFIG.replace("memory: 8", "memory: 2").replace("{name: b}", "{name: c}")
    expected = partition.plan(parse_config(tighter).partition())
    found = Worker().plan(partition, "default", tighter)

    assert found.status == 200
    assert json.loads(found.content) == {**json.loads(json.dumps(expected.to_dict())), "text": str(expected)}


def test_plans_are_the_same() -> None:
    """A plan of the worker equals that of the partition, with tags, dynamic queues, quotas and nodes."""
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
            result = json.loads(worker.plan(partition, "default", text).content)
            assert bool(result["exceeded"]) == (limit == 3)
        partition.configure(parse_config(text).partition())


def test_plan_refusals() -> None:
    """A plan for another partition, or of an invalid configuration, is refused as in the server itself."""
    worker, partition = Worker(), busy()

    for text, code in ((CONFIG.replace("name: default", "name: other"), "partition-missing"), ("[", "yaml-syntax")):
        found = worker.plan(partition, "default", text)
        assert (found.status, json.loads(found.content)["problems"][0]["code"]) == (422, code)


def test_read() -> None:
    """Reading returns the configuration, or raises an error with all its problems."""
    assert Worker().read(CONFIG) == parse_config(CONFIG)
    with pytest.raises(ConfigError) as caught:
        Worker().read("partitions: [{queues: [{name: a, x: 1, y: 2}]}]")
    assert len(caught.value.problems) == 2


def test_too_slow() -> None:
    """A job that takes too long is aborted, and a new process serves the next request."""
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
    """Closing does not wait for the current job."""
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
    """Without a process, the server itself reads small configurations, and refuses large ones."""
    worker = Worker(executable=executable)
    with caplog.at_level(logging.WARNING):
        assert worker.validate(CONFIG).status == 200
        assert worker.plan(busy(), "default", CONFIG).status == 200
    with pytest.raises(ApiError) as caught:
        worker.validate("#" * 100_000)

    assert caught.value.code == "validation-unavailable"
    assert ("cannot start a process" in caplog.text) == bool(executable)


def test_configuration_of_a_program() -> None:
    """A plan works for a partition whose configuration was built by a program."""
    config = PartitionConfig(queues=(QueueConfig("root"),))

    assert Worker().plan(Partition(config), "default", CONFIG).status == 200


def test_child_ends_with_its_parent(tmp_path: Path) -> None:
    """If the server is killed, the worker ends."""
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
    """If too many configurations wait, the next one is refused before its body is read."""
    answer = client(bounds=RequestBounds(configurations=0)).post("/api/v1/validate-conf", content=CONFIG, headers=YAML)

    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "busy", "1")
    assert client(bounds=RequestBounds(configurations=0)).get(f"{PREFIX}/queues").status_code == 200


def test_clients_that_go_away() -> None:
    """A configuration whose client has disconnected is not read, and does not delay others."""
    head = f"POST /api/v1/validate-conf HTTP/1.1\r\nHost: localhost\r\nContent-Type: {YAML['content-type']}\r\n"
    body = large(300).encode()
    with running(served()) as port:
        for _ in range(8):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.5)
        started_at = time.perf_counter()
        validated(port, b"partitions: []")

    assert time.perf_counter() - started_at < 20


def validated(port: int, text: bytes) -> None:
    """Validate a configuration."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/api/v1/validate-conf", text, YAML)
    assert connection.getresponse().read()
    connection.close()


def test_scheduler_keeps_the_interpreter() -> None:
    """While two clients validate a megabyte continuously, a scheduler that never pauses loses at most a tenth.

    The interpreter runs one thread at a time. So a scheduler that shares its process loses as much as the processor
    time of all other threads; this holds on a machine that is busy with other things, too.
    """
    text, partition, stop = large(9400).encode(), partition_of(), threading.Event()
    partition.submit("app", SUE, "root.a")
    app = served(partition)

    def validate(port: int) -> None:
        while not stop.is_set():
            validated(port, text)

    with running(app) as port:
        validated(port, b"partitions: []")
        threads = [threading.Thread(target=validate, args=(port,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        began, mine, everybody = time.perf_counter(), time.thread_time(), time.process_time()
        while time.perf_counter() - began < 4:
            assert partition.allocate("x", "app", memory(1)).allowed
            partition.release("x")
        lasted = time.perf_counter() - began
        others = time.process_time() - everybody - (time.thread_time() - mine)
        stop.set()
        app.state.worker.close()
        for thread in threads:
            thread.join()

    assert len(text) > 1_000_000
    assert others <= 0.1 * lasted


def test_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The child does jobs with a low priority until its input ends, and no other code writes to its output."""
    partition = busy()
    basis = partition.plan_input()
    plan = PlanJob(CONFIG, "default", basis.parts(), basis.compiled.config)
    messages = [ReadJob(CONFIG), plan, replace(plan, config=None, has_same_config=True)]
    jobs, results = tmp_path / "jobs", tmp_path / "results"
    jobs.write_bytes(b"".join(pickle.dumps(message) for message in messages))
    niceness: list[int] = []
    monkeypatch.setattr(os, "nice", niceness.append)
    monkeypatch.setattr("signal.signal", lambda *_arguments: None)
    with jobs.open("r") as stdin, results.open("w") as stdout, (tmp_path / "noise").open("w") as stderr:
        for name, file in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
            monkeypatch.setattr(sys, name, file)
        serve()
        print("noise", flush=True)  # noqa: T201 - that is the point
    with results.open("rb") as found:
        read, planned_here, planned_again = (pickle.load(found) for _ in range(3))  # noqa: S301 - written above
        assert found.read() == b""

    assert read == parse_config(CONFIG)
    assert planned_here == planned_again
    assert json.loads(planned_here.content)["newly_exceeded"] == []
    assert (niceness, (tmp_path / "noise").read_text()) == ([15], "noise\n")
