"""The configuration behind a server: in force, uploaded, reloaded, watched, and refused as a whole."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from support.partition_fixtures import changing_nothing
from support.server_fixtures import CONFIG, SECRET, SUE, TOKEN, UPLOAD, YAML, busy, client, served
from ugm import Partition, RequestError, UserInQueue, parse_config
from ugm.config import PartitionConfig, QueueConfig
from ugm.server import create_app, serving
from ugm.server.configurations import Configurations

TIGHTER = CONFIG.replace("memory: 8", "memory: 5")


def team_limit(partition: Partition) -> int:
    """Return what the team may use."""
    limits = partition.limits(UserInQueue(SUE, "root.b"))
    return next(limit.max_resources["memory"] for limit in limits if limit.max_resources and limit.kind == "group")


def test_in_force() -> None:
    """The configuration in force is told as YAML that can be read back."""
    answer = client().get("/ws/v1/config")

    assert answer.headers["content-type"].startswith("application/yaml")
    assert parse_config(answer.text) == parse_config(CONFIG)


def test_in_force_without_configuration() -> None:
    """A partition without a configuration is told with its name alone."""
    text = client(Partition()).get("/ws/v1/config").text

    assert text == "partitions:\n- queues:\n  - name: root\n"
    assert parse_config(text).partition().name == "default"


def test_in_force_from_a_program() -> None:
    """A configuration that a program has built is written as YAML, under the server's name of the partition."""
    text = client(Partition(PartitionConfig(name="mine", queues=(QueueConfig("a"),)))).get("/ws/v1/config").text

    assert text == "partitions:\n- queues:\n  - name: a\n"


def test_upload() -> None:
    """An upload is put in force, and told by what it changes."""
    partition = busy()
    answer = client(partition).put("/ws/v1/config", content=TIGHTER, headers=UPLOAD)

    assert answer.json()["partitions"]["default"]["limits"][0]["after"]["max_resources"] == {"memory": 5}
    assert team_limit(partition) == 5


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (CONFIG + "- {name: other, queues: [{name: a}]}", "partition-unserved"),
        ("partitions: [{name: other, queues: [{name: a}]}]", "partition-missing"),
        (TIGHTER.replace("[dev]", "[]"), "limit-names-nobody"),
        ("x: [", "yaml-syntax"),
    ],
)
def test_upload_refused(text: str, code: str) -> None:
    """What cannot be used changes nothing, in no partition, and all problems are told."""
    partition = busy()
    with changing_nothing(partition):
        answer = client(partition).put("/ws/v1/config", content=text, headers=UPLOAD)

    assert (answer.status_code, answer.json()["code"]) == (422, "config-invalid")
    assert code in [problem["code"] for problem in answer.json()["problems"]]


def test_upload_to_several_partitions_is_whole() -> None:
    """If one partition cannot follow, none does."""
    partitions = {"default": busy(), "other": Partition()}
    asked = TestClient(create_app(partitions, read_only=False, token=SECRET))
    answer = asked.put("/ws/v1/config", content=TIGHTER, headers=UPLOAD)

    assert (answer.status_code, team_limit(partitions["default"])) == (422, 8)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({"Authorization": f"Basic {SECRET}"}, 401), (TOKEN, 200)],
)
def test_token(headers: dict[str, str], status: int) -> None:
    """Only who knows the token may change something."""
    answer = client().put("/ws/v1/config", content=TIGHTER, headers={**headers, **YAML})

    assert answer.status_code == status
    assert status == 200 or answer.headers["www-authenticate"] == "Bearer"


def test_read_only() -> None:
    """A read-only server is not changed by anybody, token or not."""
    answer = client(read_only=True).put("/ws/v1/config", content=TIGHTER, headers=UPLOAD)

    assert (answer.status_code, answer.json()["code"]) == (403, "read-only")


def test_writable_without_token() -> None:
    """A server that could be changed by everybody does not start."""
    with pytest.raises(RequestError) as caught:
        create_app({}, read_only=False)

    assert str(caught.value) == "token None: a server that can be changed needs a token"


def test_history_of_nothing() -> None:
    """A history belongs to a partition."""
    with pytest.raises(RequestError) as caught:
        served(history={"other": None})

    assert str(caught.value) == "history 'other': there is no such partition"


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    file = tmp_path / "queues.yaml"
    file.write_text(CONFIG)
    return file


def test_reload(file: Path) -> None:
    """A reload reads the file; an upload before it is forgotten."""
    partition = busy()
    asked = client(partition, config_path=file)
    asked.put("/ws/v1/config", content=TIGHTER, headers=UPLOAD)
    answer = asked.post("/ws/v1/config/reload", headers=TOKEN)

    assert (answer.status_code, team_limit(partition)) == (200, 8)


def test_reload_without_file() -> None:
    """Without a file there is nothing to reload."""
    assert client().post("/ws/v1/config/reload", headers=TOKEN).json()["code"] == "config-without-file"


def test_reload_of_a_broken_file(file: Path) -> None:
    """A broken file is told with its place, changes nothing, and shows in the health of the server."""
    partition = busy()
    asked = client(partition, config_path=file)
    file.write_text("partitions: [")
    with changing_nothing(partition):
        answer = asked.post("/ws/v1/config/reload", headers=TOKEN)

    assert answer.status_code == 422
    assert asked.get("/ws/v1/health").json()["configuration"]["problems"][0].endswith("[yaml-syntax]")


def test_refused_file_degrades_health(file: Path) -> None:
    """While the file cannot be used the server is degraded, and says why; an upload does not mend the file."""
    asked = client(busy(), config_path=file)
    file.write_text("partitions: [")
    asked.app.state.configurations.reload_if_changed()  # type: ignore[attr-defined] # what the client was made with
    told = asked.get("/ws/v1/health").json()
    assert told["status"] == "degraded"
    assert told["reason"].startswith("the configuration file was refused: ")
    assert told["reason"].endswith("[yaml-syntax]")
    assert told["configuration"]["in_force"]["source"] == "start"
    assert asked.put("/ws/v1/config", content=TIGHTER, headers=UPLOAD).status_code == 200
    told = asked.get("/ws/v1/health").json()
    assert (told["status"], told["configuration"]["in_force"]["source"]) == ("degraded", "upload")
    file.write_text(TIGHTER)
    assert asked.post("/ws/v1/config/reload", headers=TOKEN).status_code == 200
    told = asked.get("/ws/v1/health").json()
    assert (told["status"], told["reason"], told["configuration"]["refused"]) == ("ok", "", [])
    assert told["configuration"]["in_force"] == {"source": "file", "at": told["configuration"]["at"]}


def test_refused_upload_does_not_degrade_health(file: Path) -> None:
    """Only the client that sent it has to know of a bad upload."""
    asked = client(busy(), config_path=file)
    assert asked.put("/ws/v1/config", content="partitions: [", headers=UPLOAD).status_code == 422

    assert asked.get("/ws/v1/health").json()["status"] == "ok"


def test_unusable_configuration_degrades_health(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that no partition can use is refused like one with problems."""

    def refuse(*_: object) -> None:
        raise RequestError("placementrules[0]", "usr", "there is no such rule")

    configurations = served(busy(), config_path=file).state.configurations
    monkeypatch.setattr("ugm.server.configurations.changes", refuse)
    file.write_text(TIGHTER)
    assert configurations.reload_if_changed()
    assert [problem.code for problem in configurations.refused] == ["config-unusable"]


def test_reloads_are_logged(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A refused reload is a warning with every problem, a successful one is reported too."""
    caplog.set_level("INFO", "ugm.server")
    configurations = served(busy(), config_path=file).state.configurations
    file.write_text("partitions: [")
    configurations.reload_if_changed()
    file.write_text(TIGHTER)
    configurations.reload_if_changed()

    refused, accepted = caplog.records
    assert (refused.levelname, accepted.levelname) == ("WARNING", "INFO")
    assert refused.message.startswith(f"{file} was not reloaded, the old configuration stays in force:\n")
    assert refused.message.endswith("[yaml-syntax]")
    assert accepted.message == f"{file} was reloaded and is in force"


def until(condition: object) -> None:
    """Wait until something is so; a test that waits for ever has failed."""
    while not condition():  # type: ignore[operator] # what tests pass
        time.sleep(0.005)


def test_watching(file: Path) -> None:
    """A file that has changed is reloaded; a broken one is not, and the next good one is."""
    partition = busy()
    app = served(partition, config_path=file, watch=0.005)
    with TestClient(app):
        file.write_text("partitions: [")
        until(lambda: app.state.configurations.outcome.problems)
        assert team_limit(partition) == 8
        file.write_text(TIGHTER)
        until(lambda: team_limit(partition) == 5)


def test_only_a_change_is_reloaded(file: Path) -> None:
    """A file that is as it was is not read again, nor one that is not there."""
    configurations = served(config_path=file).state.configurations
    assert configurations.reload_if_changed() is False
    file.write_text(TIGHTER + "\n")
    assert configurations.reload_if_changed() is True
    assert configurations.reload_if_changed() is False
    assert served().state.configurations.reload_if_changed() is False


def test_signal(file: Path) -> None:
    """On SIGHUP the file is reloaded; a broken one is logged; the server ends as it is told to."""
    partition = busy()
    app = served(partition, config_path=file)
    file.write_text(TIGHTER)

    def operate() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        until(lambda: team_limit(partition) == 5)
        file.write_text("partitions: [")
        os.kill(os.getpid(), signal.SIGHUP)
        until(lambda: app.state.configurations.outcome.problems)
        os.kill(os.getpid(), signal.SIGTERM)

    old = signal.signal(signal.SIGTERM, lambda *_: None)
    thread = threading.Thread(target=operate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving.run(app, listener, ready=thread.start)
    thread.join()
    signal.signal(signal.SIGTERM, old)


def test_watching_goes_on(file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What fails while watching is logged, and does not end the watch."""
    partition = busy()
    app = served(partition, config_path=file, watch=0.005)
    with monkeypatch.context() as broken, TestClient(app):
        broken.setattr(Configurations, "reload_if_changed", lambda _self: 1 // 0)
        until(lambda: "ZeroDivisionError" in caplog.text)
        broken.undo()
        file.write_text(TIGHTER)
        until(lambda: team_limit(partition) == 5)
