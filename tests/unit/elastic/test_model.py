"""Elastic quotas as a quota model."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ugm import Claim, RequestError, Resource, UserGroup
from ugm.configuration import ElasticConfig
from ugm.configuration.model_kinds import NAMESPACE_TAG
from ugm.elastic import DEFAULT_GROUP, ElasticGroup, ElasticModel, ElasticQuota, ElasticTree, Pod, verify
from ugm.elastic.model import GROUP_TAG
from ugm.model import SetupViolation

SUE = UserGroup("sue")


def claim(name: str, cpu: int = 10, *, group: str = "a", priority: int = 0) -> Claim:
    """Return a claim of an application in a group."""
    return Claim(name, "app", Resource(cpu=cpu), "root.q", SUE, {GROUP_TAG: group}, priority)


@pytest.fixture(name="model")
def _model() -> ElasticModel:
    groups = [ElasticGroup(name, "", Resource(cpu=20), Resource(cpu=100)) for name in ("a", "b")]
    parent = ElasticGroup("p", max=Resource(cpu=100), is_parent=True, namespaces=("ns",))
    return ElasticModel(ElasticQuota(ElasticTree(Resource(cpu=60), [*groups, parent])))


def test_parents_take_nothing(model: ElasticModel) -> None:
    """A claim on a parent group is denied for good, by name or by namespace."""
    by_namespace = claim("x")._replace(tags={NAMESPACE_TAG: "ns"})
    for one in (claim("x", group="p"), by_namespace):
        messages = [str(violation) for violation in model.check(one)]
        assert messages == ["elastic group 'p': 10 cpu requested, never more than 0 allowed"]
        assert [limit.max_resources for limit in model.limits(one)] == [Resource(cpu=0)]
        assert not list(model.guarantees(one))


def test_the_youngest_is_evicted(model: ElasticModel) -> None:
    """Of equal claims, the one that was charged last is evicted, unless it was refunded and restored at once."""
    for name in ("old", "young"):
        model.charge(claim(name, 10))
    model.charge(claim("b-1", 40, group="b"))
    urgent = claim("urgent", 11, priority=1)
    assert model.evictions(urgent) == ("young",)

    for name in ("young", "old"):
        model.refund(claim(name, 10))
    for name in ("young", "old"):
        model.charge(claim(name, 10))
    assert model.evictions(urgent) == ("young",)

    model.refund(claim("old", 10))
    for one in (claim("b-2", 0, group="b"), claim("old", 10)):
        model.charge(one)
    assert model.evictions(urgent) == ("old",)


def test_borrowers_return_what_runs(model: ElasticModel) -> None:
    """A borrower is listed with its running allocations; the usage of the claimant includes what it requests."""
    model.quota.create(ElasticGroup("c", "", Resource(cpu=1, gpu=1), Resource(cpu=100, gpu=4)))
    model.charge(claim("b-1", 40, group="b"))
    model.add_pending(claim("b-2", 5, group="b"))
    (borrower,) = model.borrowers(claim("x", 20, group="c"), ())

    assert (borrower.name, borrower.allocation_ids) == ("b", ("b-1",))
    assert [(one.name, one.resource, one.used) for one in borrower.entitled] == [("c", "cpu", 20), ("c", "gpu", 0)]


def test_room_of_the_runtime_alone(model: ElasticModel) -> None:
    """The room of a group is known for its runtime, and not for its minimum."""
    model.add_pending(claim("a-1", 80))

    assert (model.room("elastic group", "a", "cpu"), model.room("elastic group minimum", "a", "cpu")) == (60, None)


def test_evictions_in_a_group_without_weight() -> None:
    """Evicted allocations request nothing any more, so a group that cannot borrow has its minimum for the claim."""
    groups = [
        ElasticGroup("a", "", Resource(cpu=20), Resource(cpu=100), Resource(cpu=0, memory=1)),
        ElasticGroup("idle", "", Resource(cpu=10), Resource(cpu=100)),
    ]
    model = ElasticModel(ElasticQuota(ElasticTree(Resource(cpu=20), groups)))
    model.charge(claim("low", 10))
    urgent = claim("urgent", 20, priority=1)

    assert [violation.limit for violation in model.check(urgent)] == [20]
    assert model.evictions(urgent) == ("low",)
    assert (model.quota.tree.request("a"), model.quota.tree.used("a")) == (Resource(cpu=10), Resource(cpu=10))
    model.refund(claim("low", 10))
    assert list(model.check(urgent)) == []


NO_TAG = (
    "elastic group tag {!r}: the application has no such tag, its namespace has no group, and no default group is "
    "configured"
)
UNKNOWN = "elastic group 'typo': there is no such group, and no default group is configured"


@pytest.mark.parametrize(
    ("tags", "options", "messages"),
    [
        ({GROUP_TAG: "typo"}, {}, UNKNOWN),
        ({}, {}, NO_TAG.format(GROUP_TAG)),
        ({"team": "a", NAMESPACE_TAG: "unbound"}, {}, NO_TAG.format(GROUP_TAG)),
        ({GROUP_TAG: "a"}, {"group_tag": "team"}, NO_TAG.format("team")),
    ],
)
def test_no_group_is_denied(model: ElasticModel, tags: dict[str, str], options: dict[str, Any], messages: str) -> None:
    """A claim without a group is denied for good, with the reason; a default group or an option accepts it."""
    one = claim("x")._replace(tags=tags)
    strict = ElasticModel(model.quota, **options)
    (violation,) = strict.check(one)
    assert (str(violation), violation.can_wait, isinstance(violation, SetupViolation)) == (messages, False, True)
    assert not list(strict.evictions(one._replace(priority=9)))
    assert pickle.loads(pickle.dumps(violation)) == violation  # noqa: S301 - made here

    assert not list(ElasticModel(model.quota, **options, unrestricted=True).check(one))
    model.quota.create(ElasticGroup(DEFAULT_GROUP, max=Resource(cpu=15)))
    assert not list(strict.check(one))
    assert [each.name for each in strict.check(one._replace(usage=Resource(cpu=16)))] == [DEFAULT_GROUP]


def test_differences_from_the_ledger(model: ElasticModel) -> None:
    """The self-check names each claim with another amount or state, and each pod that the ledger does not have."""
    model.charge(claim("x"))
    model.add_pending(claim("y"))

    differs = [f"the pod of allocation '{name}' differs from the ledger" for name in "xy"]
    assert list(model.verify({"x": claim("x", 11), "y": claim("y")}, {})) == differs
    assert list(model.verify({"x": claim("x")}, {})) == ["there is a pod for 'y', which is not in the ledger"]


def test_reset_keeps_everything_else(model: ElasticModel) -> None:
    """After a reset no claim is charged or expected; groups, other pods and earlier requests stay."""
    charging, waiting = (model.charge, model.refund), (model.add_pending, model.remove_pending)
    daemons = tuple(Pod(name, Resource(cpu=3), "a") for name in ("charged", "waited"))
    for daemon, (count, uncount) in zip(daemons, (charging, waiting), strict=True):
        count(claim(daemon.name))
        uncount(claim(daemon.name))
        model.quota.adopt(daemon)
    model.charge(claim("x"))
    model.add_pending(claim("y", 20))
    model.reset()

    assert model.quota.pods_in("a") == daemons
    assert model.quota.tree.request("a") == model.quota.tree.used("a") == Resource(cpu=6)
    model.charge(claim("y"))
    model.refund(claim("y"))
    model.reset()
    assert model.quota.tree.request("a") == Resource(cpu=6)


def test_a_query_that_is_interrupted(model: ElasticModel) -> None:
    """Pods that are left out for a query count again after an exception."""
    model.charge(claim("x"))
    with pytest.raises(ZeroDivisionError):
        model.quota.if_forgotten(("x",), lambda: 1 // 0)

    assert model.quota.tree.request("a") == model.quota.tree.used("a") == Resource(cpu=10)


def test_a_failure_changes_nothing(model: ElasticModel) -> None:
    """An invalid claim is refused, and an earlier charge of its allocation stays."""
    model.charge(claim("x"))
    wrong = claim("x")._replace(usage=Resource(cpu=-1))
    for call in (model.charge, model.add_pending, model.check, model.evictions):
        with pytest.raises(RequestError):
            call(wrong)
    with pytest.raises(RequestError):
        model.add_pending(claim("x"))

    assert model.quota.tree.request("a") == model.quota.tree.used("a") == Resource(cpu=10)
    verify(model.quota.tree)
    model.reset()
    assert not model.quota.has_pod("x")


def test_only_maximums_limit_without_a_total() -> None:
    """Without a total and without nodes, every group gets its maximum, also if the sums exceed 64 bits."""
    half = 2**62
    groups = (ElasticGroup(name, max=Resource(gpu=half)) for name in ("a", "b", "c"))
    config = ElasticConfig(groups=(*groups, ElasticGroup("d", max=Resource(gpu=0, cpu=4))), unrestricted=True)
    model = ElasticModel.declared(config)
    model.charge(claim("outside", group="")._replace(usage=Resource(gpu=half)))
    for name in ("a", "b", "c"):
        one = claim(name, group=name)._replace(usage=Resource(gpu=half))
        assert not list(model.check(one))
        assert not list(model.shortage(one, ()))
        model.charge(one)
        assert [each.limit for each in model.check(one._replace(allocation_id="more"))] == [half]

    assert not list(model.check(claim("d", 4, group="d")))
    (violation,) = model.check(claim("d", group="d")._replace(usage=Resource(gpu=1)))
    assert not violation.can_wait
