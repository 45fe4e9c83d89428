"""The Standard Workload Format: how it is read, and what the numbers of a log become."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from ugm import RequestError, Resource, UserGroup
from ugm.simulation import Job, JobMapping, SwfRecord, WorkloadError, read_swf

KIB = 2**10
GIB = 2**30

#: 4 processors allocated, 8 requested; 2 MiB used and 1 MiB requested for each.
RECORD = SwfRecord(7, 10, -1, 60, 4, -1, 2048, 8, 90, 1024, 1, 12, 3, 5, 2, 40, -1, -1)


def mapped(record: SwfRecord = RECORD, **options: Any) -> Job:  # noqa: ANN401 - any option of the mapping
    """Return the job of one record."""
    (job,) = JobMapping(**options).jobs([record])
    return job


def test_defaults() -> None:
    """Site and queue name the place, numbers get prefixes, the allocated processors and requested memory count."""
    usage = Resource(vcore=4000, memory=4 * 1024 * KIB)

    expected = Job(7, 10, 60, "root.site40.queue2", UserGroup("user12", ("group3",)), usage, requested_time=90)
    assert expected == mapped()
    assert mapped(RECORD._replace(requested_time=-1)).requested_time is None


@pytest.mark.parametrize(
    ("levels", "path"),
    [
        (("partition",), "root.site40"),
        (("queue", "partition"), "root.queue2.site40"),
        (("group", "user"), "root.group3.user12"),
        ((), "root.default"),
    ],
)
def test_queue_levels(levels: tuple[str, ...], path: str) -> None:
    """Any fields that are names may name the queue levels, from the top."""
    assert path == mapped(queue_levels=levels).queue


def test_no_default_queue() -> None:
    """Without any known level, and without a default queue, the job asks for none."""
    assert mapped(RECORD._replace(queue=-1, partition=-1), default_queue="").queue == ""


@pytest.mark.parametrize(
    ("requested", "used", "memory"), [(1024, 2048, 1024 * KIB), (-1, 2048, 2048 * KIB), (-1, -1, 3 * GIB)]
)
def test_memory(requested: int, used: int, memory: int) -> None:
    """Requested memory counts, else used memory, else the default; each for every processor."""
    record = RECORD._replace(requested_memory=requested, memory=used)

    assert 4 * memory == mapped(record, per_processor=Resource(memory=3 * GIB)).usage["memory"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue_levels": ("site",)}, "field 'site': expected one of user, group, executable, queue, partition"),
        ({"prefixes": {"job": "j"}}, "field 'job': expected one of user, group, executable, queue, partition"),
    ],
)
def test_bad_options(options: dict[str, Any], said: str) -> None:
    """Options that make no sense are refused at once."""
    with pytest.raises(RequestError) as caught:
        JobMapping(**options)

    assert said == str(caught.value)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ((-1, 0), "submit_time -1: expected a number of seconds from 0 to 10000000000"),
        ((10**10 + 1, 0), "submit_time 10000000001: expected a number of seconds from 0 to 10000000000"),
        ((0, 2**63 - 1), "run_time 9223372036854775807: expected a number of seconds from 0 to 10000000000"),
    ],
)
def test_bad_times(times: tuple[int, int], said: str) -> None:
    """A job comes after the start of the log, takes no negative time, and ends while waits can be counted."""
    with pytest.raises(RequestError) as caught:
        Job(1, *times, "root.a", UserGroup("sue"), Resource())

    assert said == str(caught.value)


def test_bad_logged_wait() -> None:
    """The waiting time of the log has the bounds of other times, so that it can be counted."""
    with pytest.raises(RequestError, match="logged_wait 10000000001: expected a number"):
        Job(1, 0, 0, "root.a", UserGroup("sue"), Resource(), logged_wait=10**10 + 1)


def test_variants() -> None:
    """The first variant of each resource that names a field of the job counts, for all of its further amounts."""
    amounts, none = Resource({"gpu": 2, "card": 1}), Resource(vcore=0)
    record = RECORD._replace(requested_memory=0)
    variants = {"queue9": "gpu:t4", "site40": "gpu:a100", "queue2": "gpu:v100", "executable5": "card:x"}

    usage = mapped(record, per_processor=amounts + none, variants=variants).usage
    assert usage == Resource({"gpu": 8, "gpu:a100": 8, "card": 4, "card:x": 4})
    assert mapped(record, per_processor=amounts + none).usage == Resource({"gpu": 8, "card": 4})
    assert mapped(record._replace(partition=-1), per_processor=amounts, variants=variants).usage["gpu:v100"] == 8
    for variant in ("a100", "tpu:v4"):
        with pytest.raises(RequestError, match="expected family:variant with an amount per processor"):
            JobMapping(per_processor=amounts, variants={"queue2": variant})


SIZED = "1 0 10 30 {allocated} -1 -1 {requested} 3600 -1 1 6 2 -1 1 0 -1 -1\n"


@pytest.mark.parametrize(("allocated", "requested", "cores"), [(0, 1, 1), (0, 8, 8), (-1, 4, 4), (2, 4, 2), (0, -1, 1)])
def test_no_allocated_processors(tmp_path: Path, allocated: int, requested: int, cores: int) -> None:
    """A job without allocated processors counts with the requested number."""
    text = SIZED.format(allocated=allocated, requested=requested)
    log = tmp_path / "log.swf"
    log.write_text(text)
    (job,) = JobMapping().jobs(read_swf(log))
    assert job.usage["vcore"] == cores * 1000


#: Job 7: submitted at 10, ran 60 s on 4 processors, user 12 of group 3 in queue 2 at site 40.
LINE = "7 10 -1 60 4 -1 2048 8 90 1024 1 12 3 5 2 40 -1 -1"


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
