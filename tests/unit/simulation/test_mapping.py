"""What the numbers of a log become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ugm import RequestError, Resource, UserGroup
from ugm.simulation import Job, JobMapping, SwfRecord, read_swf

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


LINE = "1 0 10 30 {allocated} -1 -1 {requested} 3600 -1 1 6 2 -1 1 0 -1 -1\n"


@pytest.mark.parametrize(("allocated", "requested", "cores"), [(0, 1, 1), (0, 8, 8), (-1, 4, 4), (2, 4, 2), (0, -1, 1)])
def test_no_allocated_processors(tmp_path: Path, allocated: int, requested: int, cores: int) -> None:
    """A job without allocated processors counts with the requested number."""
    text = LINE.format(allocated=allocated, requested=requested)
    log = tmp_path / "log.swf"
    log.write_text(text)
    (job,) = JobMapping().jobs(read_swf(log))
    assert job.usage["vcore"] == cores * 1000
