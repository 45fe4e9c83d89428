"""Usage over time: exact sums, whatever was folded and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

import pytest

from support.partition_fixtures import BOB, config, memory
from support.store_fixtures import APPLICATION, allocation, fold, held, put
from support.tracking_fixtures import Wrong
from ugm import RequestError, UserGroup
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.rows import AllocationState, Change, ConfigurationRow
from ugm.store import Store, StoreReader, UsageQuery, copy_store, delete_usage, open_store, usage_of
from ugm.store.reader import StoreLocation

#: Another application, of another user in another queue.
_BOBS = APPLICATION._replace(application_id="bob", user=BOB, queue_path="root.b")


def sums(location: StoreLocation, by: Wrong, **options: Wrong) -> dict[str | None, int]:
    """Return the memory of every row, until the second 9."""
    chosen: Wrong = {"clock": lambda: 9.0} | options
    return {row.name: row.amounts.get("memory", 0) for row in usage_of(location, by, **chosen)}


def grant(name: str, application: str, amount: int) -> Change:
    """Return a grant."""
    return Change("allocation", name, None, allocation(name, amount)._replace(application_id=application))


@pytest.fixture(name="store", params=["folded", "tail"])
def _store(location: StoreLocation, request: pytest.FixtureRequest, slow_folds: None) -> Iterator[Store]:  # noqa: ARG001 - a fixture
    """A store: 3 from 1000 to 5000, 5 until 7000, nothing until 9000; and 2 of another user from 4000 on."""
    with open_store(location) as store:
        put(store, Change("application", "app", None, APPLICATION), Change("application", "bob", None, _BOBS), at=1000)
        put(store, held("a"), at=1000)
        put(store, grant("b", "bob", 2), at=4000)
        if request.param == "folded":
            fold(store)
        put(store, Change("allocation", "a", allocation("a"), allocation("a", 5)), at=5000)
        ending = allocation("a", 5, AllocationState.TERMINATING)
        put(store, Change("allocation", "a", allocation("a", 5), ending), at=6000)
        put(store, Change("allocation", "a", ending, None), at=7000)
        yield store


def test_no_group(store: Store, location: StoreLocation) -> None:
    """Usage without a group has its own row after the others; a user with groups counts for the first one."""
    free = APPLICATION._replace(application_id="free", user=UserGroup("amy"), group=None)
    uncounted = APPLICATION._replace(application_id="none", user=UserGroup("cid", ("ops", "dev")), group=None)
    put(store, Change("application", "free", None, free), Change("application", "none", None, uncounted), at=9000)
    put(store, grant("f", "free", 7), grant("g", "none", 1), at=9000)
    found = usage_of(location, "group", since=9, clock=lambda: 10)
    assert [(row.name, row.amounts["memory"]) for row in found] == [("dev", 2000), ("ops", 1000), (None, 7000)]


def test_deleting_usage(store: Store, location: StoreLocation, tmp_path: Path) -> None:
    """Usage moves with a store; usage before an instant can be deleted, and a query for it is refused."""
    fold(store)
    copy_store(location, tmp_path / "copy")
    assert sums(tmp_path / "copy", "user") == sums(location, "user")
    delete_usage(location, 6000)
    assert sums(location, "user") == {"sue": 5000, "bob": 6000}
    assert sums(location, "user", since=6) == {"sue": 5000, "bob": 6000}
    with pytest.raises(RequestError) as caught:
        sums(location, "user", since=5.999)
    assert str(caught.value) == (
        "since '1970-01-01 00:00:05 UTC': usage before 1970-01-01 00:00:06 UTC is no longer known"
    )
    with pytest.raises(
        RequestError, match="before '1970-01-01 00:00:09 UTC': usage after now, 1970-01-01 00:00:08 UTC"
    ):
        delete_usage(location, 9000, clock=lambda: 8)
    assert sums(location, "user", since=6) == {"sue": 5000, "bob": 6000}


def test_the_calendar(location: StoreLocation) -> None:
    """Sums follow the calendar of a time zone, in which a day may have 25 hours."""
    zone = ZoneInfo("Europe/Berlin")
    begin, end = (datetime(2026, 10, *each, tzinfo=zone).timestamp() for each in ((24, 12), (26, 6)))
    with open_store(location) as store:
        put(store, Change("application", "app", None, APPLICATION), grant("a", "app", 1), at=int(begin) * 1000)
        days = usage_of(location, "user", period="day", zone="Europe/Berlin", clock=lambda: end)
        months = usage_of(location, "user", period="month", zone="Europe/Berlin", clock=lambda: end)
    assert [row.amounts["memory"] // 3_600_000 for row in days] == [12, 25, 6]
    assert [row.amounts["memory"] // 3_600_000 for row in months] == [43]


@pytest.mark.parametrize(("argument", "value"), [("by", "nobody"), ("period", "hour"), ("queue", "batch")])
def test_invalid_arguments(location: StoreLocation, argument: str, value: str) -> None:
    """An invalid argument is refused."""
    open_store(location).close()
    options: Wrong = {"by": "user", argument: value}
    with pytest.raises(RequestError):
        usage_of(location, **options)


@pytest.mark.parametrize("seed", range(3))
def test_against_a_sum_over_every_millisecond(location: StoreLocation, seed: int) -> None:
    """The sums equal those of an observer that samples every instant."""
    random, now, naive = Random(seed), 1, dict[str, int]()
    sizes: dict[str, int] = {}
    with open_store(location) as store:
        put(store, Change("application", "app", None, APPLICATION), Change("application", "bob", None, _BOBS), at=now)
        for _ in range(80):
            name = random.choice("abcd")
            owner, before, after = ("app" if name < "c" else "bob"), sizes.get(name, 0), random.randrange(4)
            old, new = (
                allocation(name, one)._replace(application_id=owner) if one else None for one in (before, after)
            )
            sizes[name] = after
            if before != after:
                put(store, Change("allocation", name, old, new), at=now)
            if random.random() < 0.2:
                fold(store)
            elapsed = random.randrange(3)
            for each, size in sizes.items():
                key = "app" if each < "c" else "bob"
                naive[key] = naive.get(key, 0) + size * elapsed
            now += elapsed
        found = sums(location, "application", clock=lambda: now / 1000)
    assert found == {name: total for name, total in naive.items() if total}


def test_a_configuration_is_stored(location: StoreLocation) -> None:
    """A fold reads the configuration that earlier leaders have stored."""
    row = ConfigurationRow(CompiledConfig.of(config("{name: a}")))
    with open_store(location) as store:
        put(store, Change("configuration", "", None, row), Change("application", "app", None, APPLICATION), at=0)
    with open_store(location) as store:
        put(store, Change("allocation", "a", None, allocation("a")._replace(usage=memory(2))), at=1000)
        assert sums(location, "elastic-group", clock=lambda: 2) == {None: 2000}


@pytest.mark.usefixtures("store")
def test_only_some_names(location: StoreLocation) -> None:
    """A query for some names has the same rows of these, for subjects with and without a column of their own."""
    for by, name in (("user", "sue"), ("queue", "root.b"), ("application", "app"), ("group", "dev")):
        everything = UsageQuery(by, period=2)  # type: ignore[arg-type]  # one of them
        with StoreReader(location) as reader:
            chosen = reader.usage(everything._replace(names={name, "other"}), 9000)
            assert chosen == tuple(row for row in reader.usage(everything, 9000) if row.name == name) != ()


@pytest.mark.usefixtures("store")
def test_periods_of_seconds(location: StoreLocation) -> None:
    """A period can be a number of seconds; there are not too many of them."""
    rows = usage_of(location, "user", since=0, until=9, period=4, queue="root.a", clock=lambda: 9.0)
    assert [(row.begin, row.end, row.amounts["memory"]) for row in rows] == [
        (0, 4, 3 * 3000),
        (4, 8, 3 * 1000 + 5 * 2000),
    ]
    for period in (0, -1):
        with pytest.raises(RequestError, match="periods"):
            usage_of(location, "user", period=period)
    with pytest.raises(RequestError, match="at most 10000 periods"):
        usage_of(location, "user", since=0, period=1, clock=lambda: 20_000)
