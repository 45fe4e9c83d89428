"""The configuration of a server: the one in force, uploads, reloads, the file watcher, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from support.logs import own_records
from support.partition_fixtures import changing_nothing
from support.server_fixtures import CONFIG, SECRET, SUE, TOKEN, UPLOAD, YAML, busy, client, create_partition, served
from support.service_fixtures import eventually
from ugm import ConfigError, RequestError, UserInQueue, parse_config
from ugm.config import PartitionConfig, QueueConfig
from ugm.events import ConfigurationChanged
from ugm.partition import AbstractPartition
from ugm.partition.config.compiled import CompiledConfig
from ugm.server import create_app
from ugm.server.configurations import Actor, Configurations
from ugm.store import open_partition

#: Every test runs with partitions in memory and with clients of a service.
pytestmark = pytest.mark.usefixtures("service")

TIGHTER = CONFIG.replace("memory: 8", "memory: 5")


def codes(configurations: Configurations) -> list[str]:
    """Return the codes of the problems of the file."""
    return [problem.rpartition("[")[2].rstrip("]") for problem in configurations.refused]


def team_limit(partition: AbstractPartition) -> int:
    """Return the maximum of the team."""
    limits = partition.limits(UserInQueue(SUE, "root.b"))
    return next(limit.max_resources["memory"] for limit in limits if limit.max_resources and limit.kind == "group")


def test_in_force() -> None:
    """The configuration in force is returned as YAML that can be parsed again."""
    answer = client().get("/api/v1/config")

    assert answer.headers["content-type"].startswith("application/yaml")
    assert parse_config(answer.text) == parse_config(CONFIG)


@pytest.mark.parametrize(
    ("config", "queue"), [(None, "root"), (PartitionConfig(name="mine", queues=(QueueConfig("a"),)), "a")]
)
def test_in_force_without_a_file(config: PartitionConfig | None, queue: str) -> None:
    """The configuration of a program, or none, is returned as YAML, with the server's name of the partition."""
    text = client(create_partition(config)).get("/api/v1/config").text

    assert text == f"partitions:\n- queues:\n  - name: {queue}\n"
    assert parse_config(text).partition().name == "default"


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
    """An invalid configuration changes no partition, and the response contains all its problems."""
    partition = busy()
    with changing_nothing(partition):
        answer = client(partition).put("/api/v1/config", content=text, headers=UPLOAD)

    assert (answer.status_code, answer.json()["code"]) == (422, "config-invalid")
    assert code in [problem["code"] for problem in answer.json()["problems"]]


def test_upload_to_several_partitions_is_whole() -> None:
    """If one partition cannot be changed, none is."""
    partitions = {"default": busy(), "other": create_partition()}
    rest = TestClient(create_app(partitions, read_only=False, token=SECRET))
    answer = rest.put("/api/v1/config?confirm=true", content=TIGHTER, headers=UPLOAD)

    assert (answer.status_code, team_limit(partitions["default"])) == (422, 8)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {SECRET}"}])
def test_token(headers: dict[str, str]) -> None:
    """A change needs the token, and a body without it is not read; with the token, it takes effect."""
    partition = busy()
    rest = client(partition)
    answer = rest.put("/api/v1/config?confirm=true", content=b"x" * (1 << 21), headers={**headers, **YAML})
    assert (answer.status_code, answer.headers["www-authenticate"], team_limit(partition)) == (401, "Bearer", 8)

    applied = rest.put("/api/v1/config?confirm=true", content=TIGHTER, headers=UPLOAD).json()
    assert applied["partitions"]["default"]["limits"][0]["after"] == {"memory": "5"}
    assert team_limit(partition) == 5


def test_writable_without_token() -> None:
    """A server that allows changes without a token does not start."""
    with pytest.raises(RequestError) as caught:
        create_app({}, read_only=False)

    assert str(caught.value) == "token None: a server that can be changed needs a token"


@pytest.mark.parametrize("option", ["history", "thresholds", "services"])
def test_options_of_unknown_partitions(option: str) -> None:
    """A history, a watch or the status of a partition that is not served is refused."""
    with pytest.raises(RequestError, match=f"{option} 'other': there is no such partition"):
        served(**{option: {"other": None}})  # type: ignore[arg-type]  # options


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    file = tmp_path / "queues.yaml"
    file.write_text(CONFIG)
    return file


def test_reload(file: Path) -> None:
    """A reload returns to the content of the file, and replaces an earlier upload."""
    partition = busy()
    rest = client(partition, config_path=file)
    rest.put("/api/v1/config?confirm=true", content=TIGHTER, headers=UPLOAD)
    answer = rest.post("/api/v1/config/reload", headers=TOKEN)

    assert (answer.status_code, team_limit(partition)) == (200, 8)


def test_reload_without_file() -> None:
    """A reload without a file is refused."""
    assert client().post("/api/v1/config/reload", headers=TOKEN).json()["code"] == "config-without-file"


def test_refused_file_degrades_health(file: Path) -> None:
    """While the file is invalid, the server is degraded with a reason; uploads do not change the health."""
    partition = busy()
    rest = client(partition, config_path=file)
    assert rest.put("/api/v1/config", content="partitions: [", headers=UPLOAD).status_code == 422
    assert rest.get("/api/v1/health").json()["status"] == "ok"
    file.write_text("partitions: [")
    with changing_nothing(partition):
        assert rest.post("/api/v1/config/reload", headers=TOKEN).status_code == 422
    body = rest.get("/api/v1/health").json()
    assert body["status"] == "degraded"
    assert body["reason"].startswith("the configuration file was refused: ")
    assert body["reason"].endswith("[yaml-syntax]")
    assert body["configuration"]["problems"][0].endswith("[yaml-syntax]")
    assert body["configuration"]["in_force"]["source"] == "start"
    assert rest.put("/api/v1/config?confirm=true", content=TIGHTER, headers=UPLOAD).status_code == 200
    body = rest.get("/api/v1/health").json()
    assert (body["status"], body["configuration"]["in_force"]["source"]) == ("degraded", "upload")
    file.write_text(TIGHTER)
    assert rest.post("/api/v1/config/reload", headers=TOKEN).status_code == 200
    body = rest.get("/api/v1/health").json()
    assert (body["status"], body["reason"], body["configuration"]["refused"]) == ("ok", "", [])
    assert body["configuration"]["in_force"] == {"source": "file", "at": body["configuration"]["at"]}


@pytest.mark.parametrize(("is_file_shared", "expected"), [(False, 8), (True, 5)])
def test_file_of_several_partitions(file: Path, expected: int, *, is_file_shared: bool) -> None:
    """A file of several servers contains the served partition and others; other files have exactly the served ones."""
    partition = busy()
    configurations = served(partition, config_path=file, is_file_shared=is_file_shared).state.configurations
    file.write_text(TIGHTER + "- {name: other, queues: [{name: a}]}")
    assert configurations.reload_if_changed()

    assert team_limit(partition) == expected
    assert codes(configurations) == ["partition-unserved"] * (not is_file_shared)
    file.write_text("partitions: [{name: other, queues: [{name: a}]}]")
    configurations.reload_if_changed()
    assert "partition-missing" in codes(configurations)


def test_reloads_are_logged(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A refused reload is logged as a warning with every problem, a successful one as information."""
    caplog.set_level("INFO", "ugm.server")
    configurations = served(busy(), config_path=file).state.configurations
    file.write_text("partitions: [")
    configurations.reload_if_changed()
    file.write_text(TIGHTER)
    configurations.reload_if_changed()

    # A test of the command may have set the level of all of ugm, so that the audit is captured, too.
    refused, accepted = (record for record in own_records(caplog) if record.name.startswith("ugm.server"))
    assert (refused.levelname, accepted.levelname) == ("WARNING", "INFO")
    assert refused.message.startswith(f"{file} was not reloaded, the old configuration stays in force:\n")
    assert refused.message.endswith("[yaml-syntax]")
    assert accepted.message == f"{file} was reloaded and is in force"


def test_included_files_are_watched(file: Path) -> None:
    """Only a change is reloaded: of the file, or of one that it includes, also after a mistake was repaired."""
    assert served().state.configurations.reload_if_changed() is False
    groups = file.with_name("groups.yaml")
    configurations = served(config_path=file).state.configurations
    assert configurations.reload_if_changed() is False
    groups.write_text("- {name: a, max: {memory: 1}}\n")
    file.write_text(CONFIG + "  ugm: {elastic: {unrestricted: true, groups: [{file: groups.yaml}]}}\n")
    assert configurations.reload_if_changed() is True
    assert not configurations.refused
    assert configurations.reload_if_changed() is False
    groups.write_text("- {name: a, max: {memory: 1}\n")
    assert configurations.reload_if_changed() is True
    assert [Path(problem.partition(":")[0]).name for problem in configurations.refused] == ["groups.yaml"]
    groups.write_text("- {name: a, max: {memory: 1}}\n- {name: b, max: {memory: 1}}\n")
    assert configurations.reload_if_changed() is True
    assert not configurations.refused
    groups.unlink()
    assert configurations.reload_if_changed() is True
    assert codes(configurations) == ["file-unreadable"]


def test_watching(file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A changed file is reloaded if it is valid, also after an invalid one, and after an exception, which is logged."""
    partition = busy()
    app = served(partition, config_path=file, watch=0.005)
    with monkeypatch.context() as broken, TestClient(app):
        broken.setattr(Configurations, "reload_if_changed", lambda _self: 1 // 0)
        eventually(lambda: "ZeroDivisionError" in caplog.text)
        broken.undo()
        file.write_text("partitions: [")
        eventually(lambda: app.state.configurations.outcome.problems)
        assert team_limit(partition) == 8
        file.write_text(TIGHTER)
        eventually(lambda: team_limit(partition) == 5)


def test_changes_are_counted(tmp_path: Path) -> None:
    """The metrics count reloads and uploads by their result, and show whether the file is refused now."""
    file = tmp_path / "queues.yaml"
    file.write_text(CONFIG)
    server = client(config_path=file)

    def counted() -> dict[str, float]:
        families = text_string_to_metric_families(server.get("/metrics").text)
        return {
            "/".join(sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
            if sample.name in ("ugm_configuration_changes_total", "ugm_configuration_refused")
        }

    assert counted() == {"file/applied": 0, "file/refused": 0, "upload/applied": 0, "upload/refused": 0, "": 0}
    file.write_text("partitions: [")
    assert server.post("/api/v1/config/reload", headers=TOKEN).status_code == 422
    assert server.put("/api/v1/config?confirm=true", content=TIGHTER, headers=UPLOAD).status_code == 200
    assert counted() == {"file/applied": 0, "file/refused": 1, "upload/applied": 1, "upload/refused": 0, "": 1}
    file.write_text(CONFIG)
    assert server.post("/api/v1/config/reload", headers=TOKEN).status_code == 200
    assert counted() == {"file/applied": 1, "file/refused": 1, "upload/applied": 1, "upload/refused": 0, "": 0}


def test_attempts_are_listed(file: Path) -> None:
    """Each attempt to replace the configuration is listed with its author, and its differences or problems."""
    rest = client(busy(), config_path=file)
    assert rest.get("/api/v1/config/changes").json() == {"attempts": []}
    rest.put("/api/v1/config?confirm=true", content=TIGHTER, headers=UPLOAD)
    rest.put("/api/v1/config", content="partitions: [", headers=UPLOAD)
    file.write_text("partitions: {")
    rest.app.state.configurations.reload_if_changed()  # type: ignore[attr-defined] # what the client was made with
    watched, refused, applied = rest.get("/api/v1/config/changes").json()["attempts"]
    assert (watched["source"], watched["client"], watched["role"]) == ("file", "local", "watch")
    assert (refused["outcome"], refused["differences"]) == ("config-invalid", {})
    assert refused["problems"][0].endswith("[yaml-syntax]")
    assert {name: applied[name] for name in ("at", "source", "client", "role", "outcome", "problems", "left_out")} == {
        "at": 7,
        "source": "upload",
        "client": "testclient",
        "role": "operator",
        "outcome": "ok",
        "problems": [],
        "left_out": 0,
    }
    assert [line[0] for line in applied["differences"]["default"]] == ["~"]


def test_attempts_survive_a_restart(tmp_path: Path) -> None:
    """A server with a store lists the changes of the configuration from before its start, with author and time."""
    path, now = tmp_path / "quota.db", 0.0

    def attempts(*, uploads: bool) -> list[dict[str, Any]]:
        with open_partition(path, clock=lambda: now) as partition:
            app = create_app(
                {"default": partition}, stores={"default": path}, token=SECRET, read_only=False, clock=lambda: now
            )
            with TestClient(app, base_url="http://localhost") as rest:
                if uploads:
                    rest.put("/api/v1/config?confirm=true", content=TIGHTER, headers=UPLOAD)

                def found() -> list[dict[str, Any]]:
                    listed: list[dict[str, Any]] = rest.get("/api/v1/config/changes").json()["attempts"]
                    return listed

                # The store is read in the background.
                eventually(found)
                return found()

    (first,) = attempts(uploads=True)
    now = 60.0
    (second,) = attempts(uploads=False)
    assert (first["source"], first["client"], first["role"], first["outcome"]) == (
        *("upload", "testclient", "operator", "ok"),
    )
    assert first == second
    assert Actor.of_author("deployment 7") == ("program", Actor("local", "deployment 7"))
    assert Actor.of_author("nightly by cron") == ("program", Actor("local", "nightly by cron"))
    assert Actor.of_author("") == ("program", Actor("local", "program"))


def test_changes_elsewhere() -> None:
    """A configuration that was not applied through the server is never shown as one of its own changes."""
    partition = create_partition(parse_config(CONFIG).partition())
    rest = client(partition, token=SECRET, read_only=False)

    def source() -> str:
        rest.get("/api/v1/config")
        found: str = rest.get("/api/v1/health").json()["configuration"]["in_force"]["source"]
        return found

    assert source() == "start"
    partition.configure(parse_config(TIGHTER).partition())
    assert source() == "elsewhere"
    assert source() == "elsewhere"
    rest.put("/api/v1/config?confirm=true", content=CONFIG, headers=UPLOAD)
    assert source() == "upload"
    partition.configure(parse_config(TIGHTER).partition())
    rest.put("/api/v1/config?confirm=true", content=CONFIG, headers=UPLOAD)
    attempts = rest.get("/api/v1/config/changes").json()["attempts"]
    assert [one["source"] for one in attempts] == ["upload", "elsewhere", "upload", "elsewhere"]
    assert attempts[1]["differences"] == attempts[3]["differences"]
    assert attempts[1]["role"] == "unknown"


def test_attempts_are_bounded() -> None:
    """Of many attempts the newest are kept, and of a large one the first lines, with the number of the others."""
    before, after = (CompiledConfig.of(parse_config(text).partition()) for text in (CONFIG, TIGHTER))
    changed = [(-number, ConfigurationChanged(before, after, "file watch local")) for number in range(80)]
    configurations = Configurations({}, None, clock=lambda: 1)
    configurations.add_earlier("default", changed)
    assert [one.at for one in configurations.attempts] == list(range(0, -50, -1))
    problems = "partitions: [{queues: [" + ", ".join(f"{{name: a b{number}}}" for number in range(250)) + "]}]"
    with pytest.raises(ConfigError):
        configurations.upload(problems)
    newest = configurations.attempts[0]
    assert (len(newest.problems), newest.left_out) == (200, 50)
