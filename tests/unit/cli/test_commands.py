"""The command: what it prints, where, and with which exit status."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import Result

from support.commands import run
from ugm import cli
from ugm.cli import commands

#: User 1 may run one job at a time.
CONFIG = """\
partitions:
  - name: default
    placementrules: [{name: provided, create: true}]
    queues: [{name: other}]
    limits:
      - limit: one at a time
        users: [user1]
        maxapplications: 1
"""

#: Two jobs of 100 s of user 1 in group 2 at site 3, 40 s apart.
WORKLOAD = """\
; Version: 2.2
1 0 -1 100 1 -1 -1 1 100 -1 1 1 2 -1 -1 3 -1 -1
2 40 -1 100 1 -1 -1 1 100 -1 1 1 2 -1 -1 3 -1 -1
"""


@pytest.fixture(name="files")
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("limits.yaml").write_text(CONFIG)
    Path("jobs.swf").write_text(WORKLOAD)
    return tmp_path


def simulate(*options: str) -> Result:
    """Run the replay of the two jobs."""
    return run("simulate", "jobs.swf", "--config", "limits.yaml", *options)


@pytest.mark.usefixtures("files")
def test_simulate() -> None:
    """The replay ends with a report, names both files, and succeeds."""
    result = simulate()

    assert result.exit_code == 0
    assert "jobs.swf under limits.yaml" in result.stdout
    assert "2 submitted: 2 started, 0 rejected, 0 still waiting" in result.stdout
    assert "mean 30s, p95 1m 00s, longest 1m 00s" in result.stdout
    assert result.stderr == ""


@pytest.mark.usefixtures("files")
def test_simulate_replaces_a_page_at_the_end() -> None:
    """A page keeps its content if the replay fails, and is replaced as a whole if it succeeds."""
    Path("page.html").write_text("old")
    failed = run("simulate", "limits.yaml", "--config", "limits.yaml", "--html", "page.html")

    assert failed.exit_code != 0
    assert Path("page.html").read_text() == "old"
    assert simulate("--html", "page.html").exit_code == simulate("--html", "page.html").exit_code == 0
    assert Path("page.html").read_text().startswith("<!doctype html>")
    assert Path("page.html").read_text().count("<html") == 1


@pytest.mark.usefixtures("files")
def test_simulate_with_reservations() -> None:
    """Each order is replayed without and with reservations, which are compared with the first replay."""
    options = ("--cluster", "vcore=1,memory=1Ti", "--reserve", "--html", "page.html")
    text = simulate(*options, "--order", "fifo", "--order", "share").stdout
    figures = json.loads(simulate(*options, "--json").stdout)

    assert re.search(r"fifo +fifo reserve +share +share reserve\n", text)
    assert re.search(r"vcore in use( +\d+%){4}\n", text)
    assert [(one["name"], one["order"], one["reserve"]) for one in figures["replays"]] == [
        ("fifo", "fifo", False),
        ("fifo reserve", "fifo", True),
    ]
    assert figures["comparison"]["variants"] == ["fifo", "fifo reserve"]
    assert "Jobs waiting: fifo reserve" in Path("page.html").read_text()


@pytest.mark.usefixtures("files")
def test_simulate_orders() -> None:
    """Several orders and configurations are compared with the first one, in the terminal, as JSON and as a page."""
    Path("free.yaml").write_text(CONFIG.replace("maxapplications: 1", "maxapplications: 2"))
    Path("jobs.swf").write_text("; UnixStartTime: 1132444805\n" + WORKLOAD.replace("-1 100", "30 100"))
    text = simulate("--order", "fifo", "--order", "share").stdout
    options = ("--config", "free.yaml", "--html", "page.html")
    both = simulate(*options)
    figures = json.loads(simulate(*options, "--order", "fair", "--order", "fifo", "--json").stdout)

    assert "jobs.swf under limits.yaml" in text
    assert re.search(r"mean wait +30s +30s\n", text)
    assert re.search(r"mean in the log +30s +30s\n", text)
    assert re.search(r"user1 +2 +30s +0s \(-30s\)", both.stdout)
    page = Path("page.html").read_text()
    assert "Mean wait by user, and its change from limits.yaml" in page
    assert "2005-11-20 00:00" in page
    assert [one["name"] for one in figures["replays"]] == [
        "limits.yaml fair",
        "limits.yaml fifo",
        "free.yaml fair",
        "free.yaml fifo",
    ]
    assert figures["replays"][0]["start_time"] == "2005-11-20T00:00:05.000Z"
    assert figures["comparison"]["users"][0]["changes"] == [0.0, 0.0, -30.0, -30.0]


@pytest.mark.usefixtures("files")
def test_simulate_json() -> None:
    """As JSON there are the figures of the report, the names of the files, and the time it took."""
    figures = json.loads(simulate("--json").stdout)

    assert (figures["workload"], figures["config"]) == ("jobs.swf", "limits.yaml")
    assert figures["waiting"] == {"jobs": 2, "delayed": 1, "total": 60, "p95": 60, "max": 60, "mean": 30.0}
    assert figures["limits"][0]["users"] == [{"user": "user1", "jobs": 1, "seconds": 60}]
    assert set(figures["timing"]) == {"seconds", "decisions_per_second"}


@pytest.mark.usefixtures("files")
def test_mapping_options() -> None:
    """Options say how users, queues and sizes are read from the log."""
    options = ("--queue-levels", "group, queue", "--prefix", "user=u", "--prefix", "group=team", "--until", "50")
    Path("limits.yaml").write_text(
        "partitions: [{ugm: {families: {gpu: [a100]}}, queues: [{name: team2, limits: "
        "[{limit: small, users: [u1], maxresources: {vcore: 500m, memory: 3Gi}}]}]}]"
    )

    sizes = ("--per-processor", "vcore=500m,memory=3Gi", "--json")
    figures = json.loads(simulate(*options, *sizes).stdout)
    gpus = ("--per-processor", "gpu=1", "--variant", "team2=gpu:a100", "--cluster", "vcore=9,memory=9Gi,gpu:a100=2")
    variants = json.loads(simulate(*options, *sizes, *gpus).stdout)

    assert {limit["resource"]: limit["peak"] for limit in variants["limits"]}["gpu:a100"] == 1
    assert "expected family:variant with an amount" in simulate("--variant", "queue2=tpu:v4").output
    assert figures["jobs"] == {"submitted": 2, "started": 1, "rejected": 0, "still_waiting": 1, "most_waiting": 1}
    assert {limit["queue_path"] for limit in figures["limits"]} == {"root.team2"}
    assert {limit["resource"]: limit["peak"] for limit in figures["limits"]} == {"vcore": 500, "memory": 3 * 2**30}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--queue-levels", "site"), "unknown field 'site' (allowed: user, group, executable, queue, partition)"),
        (("--prefix", "partition"), "expected FIELD=TEXT, found 'partition'"),
        (("--per-processor", "vcore=1Z"), "'1Z' is not a quantity: unknown suffix 'Z'"),
        (("--per-processor", "memory=500m"), "'500m' is not a quantity: unknown suffix 'm'"),
        (("--cluster", "vcore"), "expected NAME=QUANTITY, found 'vcore'"),
        (("--cluster", "vcore=1,"), "expected NAME=QUANTITY, found ''"),
        (("--cluster", "vcore=1,vcore=2"), "duplicate resource 'vcore'"),
        (("--until", "-1"), "-1 is not in the range x>=0"),
    ],
)
def test_wrong_usage(options: tuple[str, ...], said: str) -> None:
    """Wrong usage is told on the standard error, with exit status 2."""
    result = simulate(*options)

    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert result.stdout == ""


@pytest.mark.usefixtures("files")
def test_bad_workload() -> None:
    """A workload that cannot be read is told with its line, with exit status 1."""
    Path("jobs.swf").write_text(WORKLOAD + "3 50\n")

    result = simulate()

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "jobs.swf:4: expected 18 fields, found 2\n"


def problem_lines(text: str) -> list[str]:
    """Return the lines with problems, without the lines of the file."""
    return [line for line in text.splitlines() if not line.startswith("    ")]


@pytest.mark.usefixtures("files")
def test_validate_prints_all_problems() -> None:
    """Every problem of every file is a line with its place, its path, a sentence and a code."""
    Path("bad.yaml").write_text(CONFIG.replace("[user1]", '["*", user1, user1]').replace(": 1", ": one"))

    result = run("validate", "bad.yaml", "limits.yaml", "absent.yaml")

    lines = problem_lines(result.stdout)
    assert result.exit_code == 1
    assert result.stderr == f"{len(lines)} problems in 3 files\n"
    assert len(lines) > 2
    assert all(re.fullmatch(r"bad\.yaml:\d+:\d+: partitions\[0\]\S*: .+ \[[a-z-]+\]", line) for line in lines[:-1])
    assert re.fullmatch(r"absent\.yaml: .+ \[[a-z-]+\]", lines[-1])


@pytest.mark.usefixtures("files")
def test_validate_json() -> None:
    """As JSON each file has its problems, each with its place, path, code and message."""
    Path("bad.yaml").write_text(CONFIG.replace(": 1", ": one"))

    result = run("validate", "limits.yaml", "bad.yaml", "--json")

    said = json.loads(result.stdout)
    (problem,) = said["files"][1].pop("problems")
    assert result.exit_code == 1
    assert said == {
        "valid": False,
        "files": [{"file": "limits.yaml", "problems": [], "warnings": []}, {"file": "bad.yaml", "warnings": []}],
    }
    assert set(problem) == {"line", "column", "path", "code", "message"}
    assert problem["line"] == 8


def test_validate_standard_input() -> None:
    """A file called - is the standard input; its problems name it, whatever is wrong with the text."""
    good, bad, binary = (
        run("validate", "-", text=text) for text in (CONFIG, CONFIG.replace(": 1", ": one"), b"partitions: \xff")
    )

    assert (good.exit_code, good.stdout) == (0, "")
    assert bad.exit_code == 1
    assert bad.stdout.startswith("<stdin>:8:")
    assert binary.stdout.startswith("<stdin>:1:13: ")
    assert binary.stdout.endswith("the byte 0xFF is not UTF-8 [text-invalid]\n")


def test_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is that of the installed distribution."""
    monkeypatch.setattr("importlib.metadata.version", {"ugm": "1.2.3"}.__getitem__)

    assert run("--version").stdout == "ugm 1.2.3\n"


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without its packages the command says in one line which extra to install, with exit status 2."""
    monkeypatch.delitem(sys.modules, "ugm.cli.commands")
    monkeypatch.setitem(sys.modules, "click", None)

    with pytest.raises(SystemExit) as caught:
        cli.main()

    assert caught.value.code == 2
    assert capsys.readouterr().err == "ugm: the command needs click: install the extra 'cli'\n"


@pytest.mark.parametrize("command", list(commands.ugm.commands))
def test_help(command: str) -> None:
    """Every command answers -h as it does --help, and is listed with its whole purpose."""
    assert run(command, "-h").output == run(command, "--help").output
    (line,) = [line for line in run("--help").output.splitlines() if line.split()[:1] == [command]]
    assert line.endswith(".")
    assert not line.endswith("...")
