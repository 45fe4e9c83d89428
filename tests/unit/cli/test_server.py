"""``ugm serve`` and ``ugm explain``: what they print, where, and with which exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.commands import run
from support.places import EXAMPLES
from support.server_fixtures import CONFIG, DECIDE_SECRET, SECRET, busy, running, served
from ugm import Resource
from ugm.cli.options import server_url
from ugm.server import create_app

#: A configuration that declares quota models.
MODELS = str(EXAMPLES / "models.yaml")
SERVER = "import sys; from ugm.cli import main; main()"


def words(line: str) -> list[str]:
    """Return a line without its blanks."""
    return line.split()


@pytest.fixture(name="url")
def _url() -> Iterator[str]:
    with running(served()) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    file = tmp_path / "queues.yaml"
    file.write_text(CONFIG)
    return file


def test_explain_a_denial(url: str) -> None:
    """A denial says why, who holds what is missing and which limits hold, and has a status of its own."""
    result = run("explain", url, "--user", "sue", "--group", "dev", "--queue", "root.a", "--usage", "memory=3")
    lines = [words(line) for line in result.stdout.splitlines()]

    assert result.exit_code == 3
    assert "  group 'dev' in root: 3 memory requested, 6 of 8 used, 1 too much (limit for 'dev')" in result.stdout
    assert "    held by 'app' of 'sue' in root.a: 6" in result.stdout
    assert ["user", "sue", "(*)", "root", "applications", "1", "3"] in lines
    assert ["queue", "root.a", "memory", "6", "9"] in lines


def test_explain_as_json(url: str) -> None:
    """As JSON it is what the server says."""
    result = run("explain", url, "--application", "app", "--usage", "memory=3", "--json")

    assert result.exit_code == 3
    assert json.loads(result.stdout)["text"] == str(busy().explain("app", Resource(memory=3)))


def test_explain_a_configuration(file: Path) -> None:
    """Of a configuration the limits are told as they are where nothing runs."""
    result = run("explain", str(file), "--user", "sue", "--queue", "root.a", "--usage", "memory=11")

    assert result.exit_code == 3
    assert "never more than 10 allowed (limit for '*')" in result.stdout


def test_explain_pending_limits() -> None:
    """A limit on pending requests counts requests, and the others count applications."""
    text = "partitions: [{queues: [{name: a, maxapplications: 2, ugm: {maxpending: 20}}]}]"
    result = run("explain", "-", "--user", "sue", "--queue", "root.a", "--usage", "memory=1", text=text)

    assert [line.split()[-4:-3] + line.split()[-3:] for line in result.stdout.splitlines()[-2:]] == [
        ["root.a", "applications", "0", "2"],
        ["root.a", "requests", "0", "20"],
    ]


def test_explain_with_models() -> None:
    """An explanation has the limits of the models; a tag selects the elastic group."""
    options = ("explain", MODELS, "--user", "ana", "--queue", "root.web", "--usage", "vcore=20", "--json")
    plain, tagged, unknown = (
        json.loads(run(*options, *tags).stdout) for tags in ((), ("--tag", "team=speech"), ("--tag", "team=none"))
    )

    assert [answer["allowed"] for answer in (plain, tagged, unknown)] == [True, True, False]
    assert [limit["name"] for limit in plain["limits"]] == ["ana", "operations", "web", "company"]
    assert [limit["name"] for limit in tagged["limits"]] == ["ana", "speech", "web", "company"]
    assert "'none'" in unknown["text"]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("10.0.0.7:80/quota", "http://10.0.0.7:80/quota"),
        ("https://quota.example.org", "https://quota.example.org"),
        ("queues.yaml", None),
        ("localhost", None),
        ("-", None),
    ],
)
def test_addresses(text: str, url: str | None) -> None:
    """A host with a port is an address, any other text is a file."""
    assert server_url(text) == url


def test_the_partition_of_a_server() -> None:
    """Without a name it is the only one, whatever its name, and of several the one called default."""
    options = ("--user", "a", "--queue", "root.a", "--usage", "memory=1", "--partition")
    for names, allowed in ((("lab",), True), (("lab", "default"), True), (("lab", "hall"), False)):
        with running(create_app({name: busy() for name in names})) as port:
            result = run("explain", f"http://127.0.0.1:{port}", *options[:-1])
            named = run("explain", f"http://127.0.0.1:{port}", *options, names[0])
        assert (result.exit_code, named.exit_code) == (0 if allowed else 2, 0)
        assert allowed or "choose a partition with --partition (defined: 'hall', 'lab')" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["FILE", "--user", "a", "--application", "b"], 2, "give either --user or --application"),
        (["FILE", "--application", "b"], 2, "--application requires the address of a running server"),
        (["FILE", "--user", "a", "--usage", "memory=x"], 2, "'x' is not a quantity"),
        (["FILE", "--user", "a", "--partition", "x"], 2, "no such partition"),
        (["FILE", "--user", "*"], 1, "the wildcard '*' is not a valid name (allowed: only in limits)"),
        (["nothing.yaml", "--user", "a"], 1, "the file cannot be read"),
        (["http://127.0.0.1:1", "--user", "a"], 1, "no response from http://127.0.0.1:1/api/v1: "),
        (["URL", "--application", "none"], 1, "there is no such application [application-unknown]"),
        (["URL", "--user", "a", "--partition", "x"], 1, "there is no partition 'x' [partition-unknown]"),
    ],
)
def test_explain_misused(arguments: list[str], status: int, text: str, url: str, file: Path) -> None:
    """What cannot be explained is said on the standard error."""
    result = run("explain", *[{"FILE": str(file), "URL": url}.get(argument, argument) for argument in arguments])

    assert result.exit_code == status
    assert text in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (["--writable"], 2, "--writable needs --token-file"),
        (["--token-file", "EMPTY"], 2, "is empty"),
        (["--token-file", "SHORT"], 1, "expected at least 16 characters"),
        (["--decide-token-file", "SHORT"], 1, "decide_token '15 characters': expected at least 16 characters"),
        (["--host-name", "http://a"], 1, "expected the name of a host"),
        (["--host", "no.such.host.invalid"], 1, "cannot listen on no.such.host.invalid port 8080"),
        (["--store", "quota.db"], 2, "--store needs --listen"),
        (["--partition", "default"], 2, "--partition needs --listen"),
        (["--listen", "unix:/none", "--client-token-file", "EMPTY"], 2, "is empty"),
        (["--certificate", "SHORT"], 2, "--certificate needs --listen"),
        (["--listen", "tls://127.0.0.1:0", "--key", "SHORT"], 2, "--key needs --certificate"),
    ],
)
def test_serve_misused(options: list[str], status: int, text: str, file: Path, tmp_path: Path) -> None:
    """A server that cannot start says why."""
    files = {"EMPTY": tmp_path / "empty", "SHORT": tmp_path / "short"}
    files["EMPTY"].write_text("\n")
    files["SHORT"].write_text("fifteen letters")
    result = run("serve", str(file), *[str(files.get(option, option)) for option in options])

    assert result.exit_code == status
    assert text in result.stderr


def test_serve_a_broken_configuration(file: Path) -> None:
    """A configuration with problems is not served."""
    file.write_text("partitions: [")
    result = run("serve", str(file))

    assert (result.exit_code, result.stdout) == (1, "")
    assert "[yaml-syntax]" in result.stderr


def test_serve_with_a_token(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a token the server can be written to, and watches its file unless told not to."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr("ugm.server.create_app", lambda _partitions, **options: made.append(options), raising=False)
    monkeypatch.setattr("ugm.server.serving.run", lambda _app, _listener, ready, **_: ready())
    token = tmp_path / "token"
    token.write_text(f"{SECRET}\n")
    other = tmp_path / "other"
    other.write_text(DECIDE_SECRET)
    options = ["--writable", "--token-file", str(token), "--decide-token-file", str(other), "--watch", "0"]
    result = run("serve", str(file), "--port", "0", *options)

    assert result.stdout.startswith("serving at http://127.0.0.1:")
    assert {name: made[0][name] for name in ("token", "decide_token", "read_only", "watch", "metrics")} == {
        "token": SECRET,
        "decide_token": DECIDE_SECRET,
        "read_only": False,
        "watch": None,
        "metrics": None,
    }


def test_serve(file: Path, tmp_path: Path) -> None:
    """The server prints its address, and serves metrics and a page.

    On SIGTERM the service ends like on `Service.stop`, which removes its socket and closes the store.
    """
    options = ["--listen", f"unix:{tmp_path}/socket", "--store", f"{tmp_path}/j", "--partition", "default"]
    arguments = [sys.executable, "-c", SERVER, "serve", str(file), "--port", "0", "--json", "--metrics", *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603 - our own program
        assert process.stdout is not None
        printed = json.loads(process.stdout.readline())
        answers = [urllib.request.urlopen(printed["url"] + path).status for path in ("/", "/metrics", "/api/v1/health")]  # noqa: S310 - our own server
        before = {path.name for path in tmp_path.iterdir()}
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)

    after = {path.name for path in tmp_path.iterdir()}
    assert (status, answers) == (0, [200, 200, 200])
    assert (printed["writable"], printed["config"]) == (False, str(file))
    assert {"socket", "j-wal"} <= before - after
