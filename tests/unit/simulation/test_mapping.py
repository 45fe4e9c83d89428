"""What the numbers of a log become."""

from __future__ import annotations

from typing import Any

import pytest

from ugm import RequestError, Resource, UserGroup
from ugm.simulation import Job, JobMapping, SwfRecord

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
        (("executable",), "root.executable5"),
        ((), "root.default"),
    ],
)
def test_queue_levels(levels: tuple[str, ...], path: str) -> None:
    """Any fields that are names may name the queue levels, from the top."""
    assert path == mapped(queue_levels=levels).queue


def test_unknown_level_is_left_out() -> None:
    """A level that the log leaves unknown is left out."""
    assert mapped(RECORD._replace(queue=-1)).queue == "root.site40"


def test_no_known_level() -> None:
    """Without any known level the job is in the default queue."""
    assert mapped(RECORD._replace(queue=-1, partition=-1), default_queue="batch").queue == "root.batch"


def test_no_default_queue() -> None:
    """Without any known level, and without a default queue, the job asks for none."""
    assert mapped(RECORD._replace(queue=-1, partition=-1), default_queue="").queue == ""


def test_prefixes() -> None:
    """Prefixes can be chosen for each field; the others keep theirs."""
    job = mapped(prefixes={"user": "u", "partition": ""})

    assert (job.user.name, job.queue, job.user.groups) == ("u12", "root.40.queue2", ("group3",))


def test_unknown_user_and_group() -> None:
    """An unknown user has a name of its own, and a user of an unknown group has no groups."""
    assert UserGroup("nobody") == mapped(RECORD._replace(user=-1, group=-1), unknown_user="nobody").user


@pytest.mark.parametrize(("allocated", "requested", "vcore"), [(4, 8, 4000), (-1, 8, 8000), (-1, -1, 1000)])
def test_processors(allocated: int, requested: int, vcore: int) -> None:
    """Allocated processors count, else requested ones, else one."""
    assert vcore == mapped(RECORD._replace(processors=allocated, requested_processors=requested)).usage["vcore"]


@pytest.mark.parametrize(
    ("requested", "used", "memory"), [(1024, 2048, 1024 * KIB), (-1, 2048, 2048 * KIB), (-1, -1, 3 * GIB)]
)
def test_memory(requested: int, used: int, memory: int) -> None:
    """Requested memory counts, else used memory, else the default; each for every processor."""
    record = RECORD._replace(requested_memory=requested, memory=used)

    assert 4 * memory == mapped(record, memory_per_processor=3 * GIB).usage["memory"]


def test_no_memory() -> None:
    """With a default of 0, jobs of unknown memory ask for none."""
    record = RECORD._replace(requested_memory=-1, memory=-1)

    assert Resource(vcore=4000) == mapped(record, memory_per_processor=0).usage


def test_cores_per_processor() -> None:
    """A processor may count as more or less than a core."""
    assert mapped(vcore_per_processor=500).usage["vcore"] == 2000


def test_unknown_run_time() -> None:
    """A job of unknown run time, as one that was cancelled, takes no time."""
    assert mapped(RECORD._replace(run_time=-1)).run_time == 0


def test_values_are_shared() -> None:
    """Equal users and usages are one object, however many jobs have them."""
    one, other = JobMapping().jobs([RECORD, RECORD._replace(number=8)])

    assert one.user is other.user
    assert one.usage is other.usage


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue_levels": ("site",)}, "field 'site': expected one of user, group, executable, queue, partition"),
        ({"prefixes": {"job": "j"}}, "field 'job': expected one of user, group, executable, queue, partition"),
        ({"vcore_per_processor": -1}, "vcore_per_processor -1: expected an int >= 0"),
        ({"memory_per_processor": -1}, "memory_per_processor -1: expected an int >= 0"),
    ],
)
def test_bad_options(options: dict[str, Any], said: str) -> None:
    """Options that make no sense are refused at once."""
    with pytest.raises(RequestError) as caught:
        JobMapping(**options)

    assert said == str(caught.value)


def test_bad_prefix() -> None:
    """A prefix that makes no queue name is found with the first job."""
    with pytest.raises(RequestError, match="expected 'root', or names below it separated by single dots"):
        mapped(prefixes={"partition": "a site "})


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ((-1, 0), "submit_time -1: expected a number of seconds >= 0"),
        ((0, -1), "run_time -1: expected a number of seconds >= 0"),
        ((10**10 + 1, 0), "submit_time 10000000001: expected at most 10000000000 seconds"),
        ((0, 2**63 - 1), "run_time 9223372036854775807: expected at most 10000000000 seconds"),
    ],
)
def test_bad_times(times: tuple[int, int], said: str) -> None:
    """A job comes after the start of the log, takes no negative time, and ends while waits can be counted."""
    with pytest.raises(RequestError) as caught:
        Job(1, *times, "root.a", UserGroup("sue"), Resource())

    assert said == str(caught.value)
