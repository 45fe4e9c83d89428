"""The reader of the Standard Workload Format."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ugm.simulation import SwfRecord, WorkloadError, read_swf

#: Job 7: submitted at 10, ran 60 s on 4 processors, user 12 of group 3 in queue 2 at site 40.
LINE = "7 10 -1 60 4 -1 2048 8 90 1024 1 12 3 5 2 40 -1 -1"

RECORD = SwfRecord(7, 10, -1, 60, 4, -1, 2048, 8, 90, 1024, 1, 12, 3, 5, 2, 40, -1, -1)


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    return tmp_path / "log.swf"


def reason(file: Path, text: str) -> str:
    """Return what the reader says to a file with *text*, without the name of the file."""
    file.write_text(text)
    with pytest.raises(WorkloadError) as caught:
        list(read_swf(file))
    return str(caught.value).removeprefix(str(file))


def test_comments_and_blank_lines(file: Path) -> None:
    """Comments, indented ones too, and blank lines are no jobs; they may be in any encoding."""
    file.write_bytes("; Version: 2.2\n  ; Acknowledge: Zoë\n\n \t\n".encode("latin-1") + LINE.encode())

    assert list(read_swf(file)) == [RECORD]


@pytest.mark.parametrize("status", [2, 3, 4])
def test_partial_executions(file: Path, status: int) -> None:
    """Parts of a job that was stopped in between are left out; the job has a line of its own."""
    file.write_text(f"{LINE}\n{LINE.replace('1024 1', f'1024 {status}')}\n")

    assert list(read_swf(file)) == [RECORD]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (LINE + " 0", "expected 18 fields, found 19"),
        (LINE.replace("60", "1e3"), "run_time is '1e3', expected a whole number from -1 to 10000000000"),
        (LINE.replace("60", "٦٠"), f"run_time is '{4 * chr(0xFFFD)}', expected a whole number from -1 to 10000000000"),
        (LINE.replace("60", "6.5"), "run_time is '6.5', expected a whole number from -1 to 10000000000"),
        (LINE.replace("4 -1", "4 1.2.3"), f"cpu_time is '1.2.3', expected a number from -1 to {10**15}"),
        (LINE.replace("60", "-2"), "run_time is '-2', expected a whole number from -1 to 10000000000"),
        (LINE.replace("7 10", "7 -1"), "submit_time is '-1', expected a whole number from 0 to 10000000000"),
        (LINE.replace("7 10", f"7 {10**11}"), f"submit_time is '{10**11}', expected a whole number from 0 to {10**10}"),
        (
            LINE.replace("60 4", f"60 {10**16}"),
            f"processors is '{10**16}', expected a whole number from -1 to {10**15}",
        ),
        (LINE.replace("4 -1", f"4 {10**15}.5"), f"cpu_time is '{10**15}.5', expected a number from -1 to {10**15}"),
    ],
)
def test_malformed(file: Path, line: str, said: str) -> None:
    """A line that is not of the format ends the reading with its number and what is wrong with it."""
    assert f":3: {said}" == reason(file, f"; a comment\n{LINE}\n{line}\n")


def test_out_of_order(file: Path) -> None:
    """Lines are in the order of their submit times, as the format asks."""
    assert reason(file, f"{LINE}\n8 9{LINE[4:]}\n") == ":2: submitted at 9, but an earlier line is from 10"


def test_damaged_gzip(file: Path) -> None:
    """Compressed data that are none are an error."""
    file.write_bytes(gzip.compress(LINE.encode())[:10] + b"rubbish")

    with pytest.raises(WorkloadError, match=r":1: the compressed data are damaged or incomplete$"):
        list(read_swf(file))
