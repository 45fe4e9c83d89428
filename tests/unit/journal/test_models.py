"""Quota models of a partition with a journal: declared ones are restored, others have to be supplied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.declared_models import ELASTIC, TREE, declaring, moved
from support.partition_fixtures import SUE
from ugm import Claim, RequestError, Resource, Violation
from ugm.events import Event, ModelsChanged
from ugm.journal import JournaledPartition, compact, open_partition
from ugm.journal.usage import Grouping
from ugm.journal.usage_intervals import UsageInterval, decode_intervals, encode_intervals


class Licences:
    """A model of the program."""

    def check(self, claim: Claim) -> Iterator[Violation]:  # noqa: ARG002 - as declared
        """Allow everything."""
        return iter(())

    def charge(self, claim: Claim) -> None:
        """Count nothing."""

    def refund(self, claim: Claim) -> None:
        """Count nothing."""


class Budget(Licences):
    """Another model of the program."""


def filled(path: Path) -> Path:
    """Return a journal of a partition with declared models, in which queue a has 5 units."""
    with open_partition(path, declaring(TREE, elastic=ELASTIC), cluster=Resource(gpu=10)) as partition:
        partition.submit("a", SUE, "root.a")
        partition.submit("b", SUE, "root.b")
        assert partition.allocate("a-0", "a", Resource(gpu=5))
        partition.request("b-0", "b", Resource(gpu=2))
    return path


@pytest.mark.parametrize("compacted", [False, True])
def test_declared_models_are_restored(tmp_path: Path, *, compacted: bool) -> None:
    """A journal that is opened without arguments has the models that its configuration declares, with their usage."""
    path = filled(tmp_path / "j")
    if compacted:
        compact(path)

    with open_partition(path) as partition:
        partition.verify()
        decision = partition.allocate("a-1", "a", Resource(gpu=4))
        states = [report.state for report in partition.model_reports()]
    assert [(one.kind, one.name) for one in decision.violations] == [
        ("elastic group", "a"),
        ("quota node", "a"),
        ("quota node", "root"),
    ]
    with open_partition(path) as partition:
        assert [report.state for report in partition.model_reports()] == states


def test_changes_of_models_are_restored(tmp_path: Path) -> None:
    """Models follow the configuration in the journal, and the nodes in it."""
    path = filled(tmp_path / "j")
    with open_partition(path) as partition:
        partition.configure(declaring(elastic=moved()))
        partition.update_node("cluster", Resource(gpu=7))

    with open_partition(path) as partition:
        [report] = partition.model_reports()
        assert report.state["total"] == {"gpu": 7}
        assert {group["group"] for group in report.state["groups"]} >= {"a", "all", "b"}
        partition.verify()


def recorded(partition: JournaledPartition) -> tuple[str, ...]:
    """Return the names of the models of the program."""
    return partition._state.added_models


@pytest.mark.parametrize("compacted", [False, True])
def test_models_of_the_program_are_named(tmp_path: Path, *, compacted: bool) -> None:
    """A journal that was used with models of the program is opened only if the program states its models."""
    path = tmp_path / "j"
    with open_partition(path, declaring(), models=[Licences(), Budget()]) as partition:
        assert recorded(partition) == ("Licences", "Budget")
    if compacted:
        compact(path)

    with pytest.raises(RequestError, match=r"used with Licences, Budget, which only the program can supply"):
        open_partition(path)
    with open_partition(path, models=[Licences()]) as partition:
        licences = partition._models.all[0]
        partition.replace_model(licences, Budget())
    with pytest.raises(RequestError, match="used with Budget, which"):
        open_partition(path)
    with open_partition(path, models=()) as partition:
        assert recorded(partition) == ()
    open_partition(path).journal.close()


def test_subscribers_learn_of_models(tmp_path: Path) -> None:
    """A change of the models of the program is an event, and opening with the same models is none."""
    seen: list[Event] = []
    for models in ([], [Licences()], [Licences()]):
        with open_partition(tmp_path / "j", models=models, subscribers=[lambda _, events: seen.extend(events)]):
            pass

    assert seen == [ModelsChanged((), ("Licences",))]


def test_usage_of_groups_and_nodes(tmp_path: Path) -> None:
    """Usage over time counts for the group or leaf and those above it, and moves with the configuration."""
    now = [0]
    path = tmp_path / "j"
    with open_partition(path, declaring(TREE, elastic=ELASTIC), clock=lambda: now[0] / 1000) as partition:
        partition.submit("a", SUE, "root.a")
        partition.allocate("a-0", "a", Resource(gpu=2))
        now[0] = 10
        partition.configure(declaring(elastic=moved()))
        now[0] = 15
        partition.configure(declaring())
        now[0] = 18
        partition.release("a-0")

        def sums(by: Grouping) -> dict[str | None, int]:
            return {row.name: row.amounts["gpu"] for row in partition.journal.usage(by)}

        for _ in range(2):
            assert sums("elastic-group") == {"a": 20, "b": 10, "all": 10, None: 6}
            assert sums("quota-node") == {"t/a": 20, "t/root": 20, None: 16}
            assert sums("user") == {"sue": 36}
            partition.journal.compact()


def test_records_of_older_versions() -> None:
    """Records of intervals without owners are read, and such intervals are written as before."""
    interval = UsageInterval("app", "sue", "root.a", None, 1, 2, {"gpu": 1})
    row = ["used", "app", "sue", "root.a", None, [[1, 2, {"gpu": 1}]]]

    assert encode_intervals([interval]) == row
    assert list(decode_intervals(row)) == [interval]
