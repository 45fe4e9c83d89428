"""``ugm simulate --preempt``: guarantees, waits and lost work with and without preemption."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from ugm import InvariantError, Partition
from ugm.cli import commands

#: The queue of site 3 has a guarantee of one core, and preempts after a minute.
CONFIG = """\
partitions:
- placementrules: [{name: provided}]
  queues:
  - {name: site3, resources: {guaranteed: {vcore: 1}}, properties: {preemption.delay: 60s}}
  - {name: site4}
"""

#: A job of 1000 s at site 4 fills the only core; a job of 100 s at site 3 follows after 10 s.
WORKLOAD = """\
; UnixStartTime: 1132444805
1 0 -1 1000 1 -1 -1 1 1000 -1 1 1 2 -1 -1 4 -1 -1
2 10 -1 100 1 -1 -1 1 100 -1 1 2 2 -1 -1 3 -1 -1
"""

#: The workload in a cluster of one core.
ONE_CORE = ("--memory", "0", "--cluster", "vcore=1")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sites.yaml").write_text(CONFIG)
    Path("jobs.swf").write_text(WORKLOAD)


def simulate(*options: str) -> Result:
    """Run the replay of the two jobs."""
    return CliRunner().invoke(commands.ugm, ["simulate", "jobs.swf", "--config", "sites.yaml", *options])


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells of each line of a table, by the first one."""
    lines = (re.split(" {2,}", line.strip()) for line in text.splitlines())
    return {first: cells for first, *cells in lines}


def test_terminal() -> None:
    """The report has the replay without preemption first, and a column for each fate of victims."""
    result = simulate(*ONE_CORE, "--preempt", "restart", "--preempt", "continue")
    found = rows(result.stdout)

    assert result.exit_code == 0, result.stderr
    assert "jobs.swf under sites.yaml, with preemption" in found
    assert found["without"] == ["restart", "continue"]
    assert found["evictions"] == ["0", "1", "1"]
    assert found["lost run time"] == ["0s", "1m 40s", "0s"]
    assert found["mean wait"] == ["8m 15s", "45s", "45s"]
    assert found["from plan to start"] == ["0s", "30s", "30s"]
    assert found["self-check"] == ["clean"] * 3
    # Each table of guarantees has the queue in one line.
    assert len(re.findall(r"root\.site3 +1 vcore +16m 30s +1m 30s +1m 30s\n", result.stdout)) == 3


def test_json() -> None:
    """JSON has the library's report of every replay, with the fate of victims; null for none."""
    found = json.loads(simulate(*ONE_CORE, "--preempt", "restart", "--stop-time", "0", "--json").stdout)
    without, restart = found["replays"]

    assert (found["workload"], found["stop_time"]) == ("jobs.swf", 0)
    assert [(one["name"], one["preempt"]) for one in (without, restart)] == [("without", None), ("restart", "restart")]
    assert (without["evictions"], restart["evictions"], restart["lost"]) == (0, 1, 70)
    assert [one["guarantees"][0]["longest_unmet"] for one in (without, restart)] == [990, 60]
    assert restart["start_time"] == "2005-11-20T00:00:05.000Z"
    assert restart["plans"] == {"plan": 1}


def test_page() -> None:
    """The page has the same tables and is well-formed."""
    assert simulate(*ONE_CORE, "--preempt", "restart", "--html", "page.html").exit_code == 0
    text = Path("page.html").read_text()
    page = ET.fromstring(text.partition("\n")[2])  # noqa: S314 - ours
    cells = ["".join(cell.itertext()) for cell in page.iter() if cell.tag.endswith("td")]

    assert cells[: cells.index("longest wait")][-3:] == ["mean wait", "8m 15s", "45s"]
    assert cells[-4:] == ["root.site3", "1 vcore", "16m 30s", "1m 30s"]
    assert "Time in which guarantees were unmet" in text


def test_several_configurations() -> None:
    """Each configuration is replayed with and without preemption; a queue may have a guarantee in one of them only."""
    Path("other.yaml").write_text(CONFIG.replace("name: site4", "name: site4, resources: {guaranteed: {vcore: 1}}"))
    result = simulate("--config", "other.yaml", *ONE_CORE, "--preempt", "continue", "--json")
    names = [one["name"] for one in json.loads(result.stdout)["replays"]]
    text = simulate("--config", "other.yaml", *ONE_CORE, "--preempt", "continue", "--top", "1").stdout

    assert names == ["sites.yaml without", "sites.yaml continue", "other.yaml without", "other.yaml continue"]
    # In the second configuration, nothing is preempted: the victim is within a guarantee, too.
    evictions = [one["evictions"] for one in json.loads(result.stdout)["replays"]]
    assert evictions == [0, 1, 0, 0]
    assert "1 more queue" in text
    assert "root.site4" not in text


def test_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings of the self-check are printed with the name of the replay, and the exit status is 1."""

    def damaged(_partition: Partition) -> None:
        raise InvariantError(("user 'user1' in root: 3 counted, 2 found",))

    monkeypatch.setattr(Partition, "verify", damaged)
    result = simulate(*ONE_CORE, "--preempt", "restart")

    assert result.exit_code == 1
    assert "restart: user 'user1' in root: 3 counted, 2 found" in result.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--preempt", "restart"), "--preempt needs --cluster"),
        ((*ONE_CORE, "--preempt", "restart", "--preempt", "restart"), "--preempt is given twice"),
        ((*ONE_CORE, "--preempt", "restart", "--order", "fair"), "cannot be combined with --order"),
        ((*ONE_CORE, "--preempt", "restart", "--reserve"), "cannot be combined with --reserve"),
        (
            (*ONE_CORE, "--preempt", "restart", "--until", "9", "--no-reclaim"),
            "--preempt cannot be combined with --no-reclaim and --until",
        ),
        (
            (*ONE_CORE, "--preempt", "restart", "--group-limits", "unless-user-limited"),
            "cannot be combined with --group-limits",
        ),
        ((*ONE_CORE, "--stop-time", "5"), "--stop-time needs --preempt"),
        ((*ONE_CORE, "--preempt", "restart", "--stop-time", "-1"), "-1 is not in the range x>=0"),
        ((*ONE_CORE, "--preempt", "resume"), "'resume' is not one of 'restart', 'continue'"),
    ],
)
def test_refusals(options: tuple[str, ...], said: str) -> None:
    """Options that a replay with preemption does not follow are refused before anything is replayed."""
    result = simulate(*options)

    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())


def test_no_guarantee() -> None:
    """Without a guarantee, preemption has no effect, so the configuration is refused by its name."""
    Path("sites.yaml").write_text(CONFIG.replace("guaranteed", "max"))
    result = simulate(*ONE_CORE, "--preempt", "restart")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "no queue of sites.yaml has a guarantee" in result.stderr


def test_standard_input() -> None:
    """A log is read once for each replay, so it cannot be the standard input."""
    arguments = ["simulate", "-", "--config", "sites.yaml", *ONE_CORE, "--preempt", "restart"]
    result = CliRunner().invoke(commands.ugm, arguments, input=WORKLOAD)

    assert result.exit_code == 2
    assert "a pipe can be read only once" in result.stderr
