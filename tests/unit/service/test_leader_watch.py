"""A standby notices a leader that is silent, and not one that is busy."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from time import monotonic

import pytest

from support.partition_fixtures import Waiting, memory
from support.service_fixtures import CONFIG, eventually, running, started
from ugm import RequestError
from ugm.journal import JournalError
from ugm.journal.follower import Follower
from ugm.journal.leader_file import read_leader
from ugm.journal.log import LeaderRecord
from ugm.service import Service, ServiceSettings
from ugm.service.leader_watch import LeaderWatch


def test_busy_leader_renews_its_record(tmp_path: Path) -> None:
    """A leader that commits without a pause is not silent."""
    with running(tmp_path, journal="j") as service, started(service) as partition:
        end, number, silences = monotonic() + 1, 0, []
        while monotonic() < end:
            futures = [partition.promise(partition.allocate, f"{number}-{one}", "app", memory(0)) for one in range(9)]
            assert all(future.result() for future in futures)
            number += 1
            record = read_leader(str(tmp_path / "j"))
            assert record is not None
            silences.append(record.silent_for)
        # A process that does not get a processor for a moment renews it a little later.
        assert sorted(silences)[len(silences) * 9 // 10] < 0.3


def test_outage_keeps_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While the log cannot be read, a standby keeps its state and logs the reason once."""
    loads, polls, load, poll = [], count(), Follower._load, Follower.poll

    def load_counted(follower: Follower) -> None:
        loads.append(follower)
        load(follower)

    def poll_sometimes(follower: Follower, *, acknowledged: bool = True) -> int:
        if next(polls) < 5:
            raise JournalError("journal", "it cannot be read")
        return poll(follower, acknowledged=acknowledged)

    with running(tmp_path, "leader", journal="j"):
        monkeypatch.setattr(Follower, "_load", load_counted)
        monkeypatch.setattr(Follower, "poll", poll_sometimes)
        with running(tmp_path, "standby", journal="j"):
            eventually(lambda: next(polls) > 20)
    assert len(loads) == 1
    assert [record.levelname for record in caplog.records if "followed" in record.message] == ["WARNING"]


def test_models_of_an_earlier_leadership(tmp_path: Path) -> None:
    """A process that leads again uses its quota models again, with the claims of the log alone."""
    model = Waiting()
    for number in range(2):
        service = Service(tmp_path / "j", f"unix:{tmp_path / 's'}", config=CONFIG, models=[model])
        service.start()
        with started(service) as partition:
            assert partition.allocate(f"a-{number}", "app", memory(1))
            assert sorted(model.charged) == [f"a-{each}" for each in range(number + 1)]
        service.stop()


@pytest.mark.parametrize("takeover", [0.0, 0.49, float("nan")])
def test_takeover_is_longer_than_a_lease(takeover: float) -> None:
    """A standby must not replace a leader that may still answer queries without asking the log."""
    with pytest.raises(RequestError, match="expected at least"):
        ServiceSettings(takeover=takeover)


def test_watch_does_not_count_its_own_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader is silent if its record was looked at often and did not change."""
    clock = [0.0]
    monkeypatch.setattr("ugm.service.leader_watch.monotonic", lambda: clock[0])
    watch, record = LeaderWatch(0.5), LeaderRecord(1, "name", "unix:/x", 0, 0.0)
    assert not watch.is_silent(record)
    clock[0] += 100
    assert not watch.is_silent(record)
    looks = 0
    while not watch.is_silent(record):
        clock[0] += 0.02
        looks += 1
    assert 15 < looks < 30
    assert not watch.is_silent(record._replace(renewed_at=1))
    assert not watch.is_silent(None)


def test_watch_that_looks_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy process notices a silent leader after a few looks, and a process that was stopped does not after one."""
    clock = [0.0]
    monkeypatch.setattr("ugm.service.leader_watch.monotonic", lambda: clock[0])
    watch, record = LeaderWatch(2.0), LeaderRecord(1, "name", "unix:/x", 0, 0.0)
    looks = 0
    while not watch.is_silent(record):
        clock[0] += 0.4
        looks += 1
    assert looks == 6
    watch.is_silent(record._replace(renewed_at=1))
    for _ in range(4):
        clock[0] += 100
        assert not watch.is_silent(record._replace(renewed_at=1))
    clock[0] += 100
    assert watch.is_silent(record._replace(renewed_at=1))
