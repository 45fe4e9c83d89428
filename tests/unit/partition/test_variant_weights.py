"""Weights of the variants of a resource, in budgets and fair shares: each amount counts once."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig
from ugm.configuration.family_rules import normal_config

ANY, A100, V100 = Resource(gpu=2), Resource({"gpu:a100": 2}), Resource({"gpu:v100": 2})


class Setting:
    """A partition with the variants ``a100`` and ``v100`` of ``gpu``, whose clock is set."""

    def __init__(self, settings: str) -> None:
        self.now = 0
        self.partition = Partition(config(settings), clock=lambda: self.now)

    def run(self, user: str, usage: Resource, seconds: int = 60) -> None:
        """Let a user use something for some seconds."""
        self.partition.submit(user, UserGroup(user), "root.q")
        assert self.partition.allocate(user, user, usage, duration=seconds)
        self.now += seconds
        self.partition.release(user)
        self.partition.remove(user)
        self.partition.verify()

    @property
    def settled(self) -> dict[str, int | Fraction]:
        """The settled usage by the resource of the budget."""
        return {one.resource: one.settled for one in self.partition.budget_accounts()}


def config(settings: str, variants: str = "a100, v100") -> PartitionConfig:
    """Return a configuration with the queue ``q`` and the family ``gpu``."""
    text = f"partitions: [{{queues: [{{name: q}}], ugm: {{families: {{gpu: [{variants}]}}, {settings}}}}}]"
    return parse_config(text).partition()


@pytest.mark.parametrize(
    ("weights", "any_usage", "a100", "v100"),
    [
        ("{gpu: 1}", 2, 2, 2),
        ("{gpu:a100: 5/2}", 5, 5, 2),
        ("{gpu: 3, gpu:a100: 5/2}", 5, 5, 6),
        ("{gpu: 7, gpu:a100: 1/3, gpu:v100: 0}", Fraction(2, 3), Fraction(2, 3), 0),
        ("{gpu: 0, gpu:v100: 3}", 0, 0, 6),
    ],
)
def test_a_budget_of_the_family_counts_weighted_variants(
    weights: str, any_usage: int | Fraction, a100: int, v100: int
) -> None:
    """A variant counts with its own weight or else that of the family; an amount of any variant as assigned."""
    setting = Setting(f"budgets: [{{name: b, amounts: {{gpu: 10000}}, weights: {weights}}}]")
    expected: int | Fraction = 0
    for usage, weight in ((ANY, any_usage), (A100, a100), (V100, v100), (A100 + Resource(gpu=2), a100)):
        setting.run("sue", usage)
        expected += 60 * weight
        assert setting.settled.get("gpu", 0) == expected


def test_other_budgets_count_only_what_has_a_weight() -> None:
    """In a sum with another name, a variant without a weight counts as its family, and not at all if that has none."""
    setting = Setting("budgets: [{name: b, amounts: {units: 10000}, weights: {vcore: 1, gpu:a100: 5}}]")
    for usage in (ANY, V100, Resource(gpu=2) + V100):
        setting.run("sue", usage)

    assert setting.settled == {"units": 60 * (10 + 0 + 0)}


def test_a_budget_without_weights_counts_families_and_variants() -> None:
    """The family and the variant are limited separately."""
    setting = Setting("budgets: [{name: b, amounts: {gpu: 10000, gpu:v100: 1000}}]")
    for usage in (ANY, V100):
        setting.run("sue", usage)

    assert setting.settled == {"gpu": 240, "gpu:v100": 120}


def test_promises_are_weighted_and_assigned_to_what_the_budget_allows() -> None:
    """A check weighs the assigned variants, so an amount of any variant gets the one that is cheap enough."""
    setting = Setting("budgets: [{name: b, amounts: {gpu: 300}, weights: {gpu:a100: 5/2}}]")
    partition = setting.partition
    partition.submit("sue", UserGroup("sue"), "root.q")

    assert not partition.check("sue", A100, duration=61)
    assert partition.check("sue", A100, duration=60)
    assert partition.check("sue", V100, duration=150)
    assert not partition.check("sue", V100, duration=151)
    assert partition.allocate("0", "sue", ANY, duration=150).assign == V100
    [denial] = partition.check("sue", A100, duration=1).violations
    assert (denial.resource, denial.limit, denial.used, denial.requested) == ("gpu", 300, 300, 5)


def test_fair_shares_count_weighted_variants() -> None:
    """Who has used the heavier variant ranks behind, and amounts do not count for the family and the variant."""
    shares = "fairshare: {users: {ana: 1, ben: 1}, bin: 100, bins: 4, weights: {gpu: 2, gpu:a100: 2.5}}"
    setting = Setting(shares)
    setting.run("ana", A100)
    setting.run("ben", V100)

    [report] = setting.partition.model_reports()
    assert {one["user"]: (one["usage"], one["place"]) for one in report.state["users"]} == {
        "ana": ("300", 2),
        "ben": ("240", 1),
    }


def test_shares_without_a_weight_of_a_variant_stay() -> None:
    """Weights of families alone need no change; other resources keep their weights."""
    given = config("fairshare: {users: {ana: 1}, weights: {gpu: 2, vcore: 1/1000}}")

    assert normal_config(given).ugm == given.ugm


def test_a_budget_continues_when_a_variant_is_added() -> None:
    """A new variant counts like the family, so it does not change the weights."""
    budget = "budgets: [{name: b, amounts: {gpu: 10000}, weights: {gpu:a100: 5/2}}]"
    setting = Setting(budget)
    setting.run("sue", A100)
    setting.partition.configure(config(budget, "a100, v100, h100"))
    setting.run("sue", Resource({"gpu:h100": 1}))

    assert setting.settled == {"gpu": 360}


def test_wrong_weights_are_found_where_they_are() -> None:
    """The checks of a configuration see the weights as they are written."""
    with pytest.raises(Exception, match=r"(?s)weights\.gpu: 'x' is not a weight") as raised:
        config("fairshare: {users: {ana: 1}, weights: {gpu: x, gpu:a100: 1}}")
    assert str(raised.value).count("is not a weight") == 1
