"""A leader compacts its log regularly, and clients notice nothing."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from unittest.mock import Mock

import pytest

import ugm
from support.logs import own_records
from ugm import Resource, UserGroup, parse_config
from ugm.journal import JournalError, inspect
from ugm.partition import AbstractPartition
from ugm.service import Service, ServiceSettings, compactor
from ugm.service.compactor import compact_regularly

CONFIG = parse_config("partitions: [{name: default, queues: [{name: a, resources: {max: {memory: 1Gi}}}]}]").partition()


def compacted(path: Path, least: int) -> int:
    """Return the number of the last compacted change, once it is high enough or a minute has passed."""
    end = monotonic() + 60
    while (found := inspect(path).compacted) < least and monotonic() < end:
        sleep(0.1)
    return found


def churn(partition: AbstractPartition) -> None:
    """Make 60 changes that leave no allocation."""
    for number in range(30):
        assert partition.allocate(str(number), "app", Resource(memory=1))
        assert partition.release(str(number))


def test_many_live_allocations_delay_a_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction waits until there are twice as many changes as live allocations."""
    monkeypatch.setattr(compactor, "_PAUSE", 0)
    journal, decided = Mock(compact_in_background=Mock(side_effect=asyncio.CancelledError)), count()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(compact_regularly(journal, lambda: next(decided), lambda: 20, 10))
    # The first number is the start, 40 is enough, and 41 is the start of the next compaction.
    assert next(decided) == 42


@pytest.mark.parametrize("failure", [OSError("no process"), JournalError("j", "no process")])
def test_another_attempt(failure: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A compaction that fails for any reason is logged, and tried again after more changes."""
    monkeypatch.setattr(compactor, "_PAUSE", 0)
    journal, decided = Mock(compact_in_background=Mock(side_effect=[failure, asyncio.CancelledError])), count()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(compact_regularly(journal, lambda: next(decided), lambda: 0, 10))
    assert journal.compact_in_background.call_count == 2
    assert [record.message for record in own_records(caplog)] == [f"the log was not compacted: {failure}"]


def test_the_log_of_a_service_is_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After enough changes the log begins with the state, and the service continues with the next changes."""
    monkeypatch.setattr(compactor, "_PAUSE", 0.1)
    path, address = tmp_path / "quota.journal", f"unix:{tmp_path}/socket"
    service = Service(path, address, config=CONFIG, settings=ServiceSettings(compact_after=20))
    service.start()
    try:
        with ugm.connect(address) as partition:
            partition.submit("app", UserGroup("sue"), "root.a")
            churn(partition)
            first = compacted(path, 20)
            churn(partition)
            second = compacted(path, first + 20)
            partition.verify()
            sessions = partition.sessions.sessions()
    finally:
        service.stop()

    assert 20 <= first < second
    assert [report.allocations for report in sessions] == [0]
    assert inspect(path).allocations == 0


def test_compaction_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service with a bound of 0 never compacts its log."""
    monkeypatch.setattr(compactor, "_PAUSE", 0.05)
    path, address = tmp_path / "quota.journal", f"unix:{tmp_path}/socket"
    service = Service(path, address, config=CONFIG, settings=ServiceSettings(compact_after=0))
    service.start()
    try:
        with ugm.connect(address) as partition:
            partition.submit("app", UserGroup("sue"), "root.a")
            sleep(0.3)
    finally:
        service.stop()

    assert inspect(path).compacted == 0
