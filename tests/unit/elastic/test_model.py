"""Elastic quotas as a quota model."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ugm import Claim, RequestError, Resource, UserGroup
from ugm.configuration import ElasticConfig, ElasticGroupConfig
from ugm.elastic import DEFAULT_GROUP, ROOT_GROUP, ElasticGroup, ElasticModel, ElasticQuota, ElasticTree, Pod, verify
from ugm.elastic.model import GROUP_TAG, NAMESPACE_TAG
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


@pytest.mark.parametrize(
    ("tags", "options", "messages"),
    [
        (
            {GROUP_TAG: "typo"},
            {},
            "elastic group 'typo': there is no such group, and no default group is configured",
        ),
        (
            {},
            {},
            (
                "elastic group tag 'quota.scheduling.koordinator.sh/name': the application has no such tag, its "
                "namespace has no group, and no default group is configured"
            ),
        ),
        (
            {"team": "a", NAMESPACE_TAG: "unbound"},
            {},
            (
                "elastic group tag 'quota.scheduling.koordinator.sh/name': the application has no such tag, its "
                "namespace has no group, and no default group is configured"
            ),
        ),
        (
            {GROUP_TAG: "a"},
            {"group_tag": "team"},
            (
                "elastic group tag 'team': the application has no such tag, its namespace has no group, and no default "
                "group is configured"
            ),
        ),
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


def test_no_group_is_counted_if_it_runs(model: ElasticModel) -> None:
    """A claim that is adopted without a group is counted in the default group, which reduces the total for others."""
    model.charge(claim("x", group="typo"))
    assert model.quota.tree.used(DEFAULT_GROUP) == Resource(cpu=10)
    assert model.quota.tree.runtime(ROOT_GROUP) == Resource(cpu=50)
    model.refund(claim("x", group="typo"))
    assert model.quota.tree.used(DEFAULT_GROUP) == Resource()


def test_reset_keeps_everything_else(model: ElasticModel) -> None:
    """After a reset no claim is charged or expected; groups, other pods and earlier requests stay."""
    model.quota.adopt(Pod("daemon", Resource(cpu=3), "a"))
    model.charge(claim("x"))
    model.add_pending(claim("y", 20))
    model.reset()

    assert model.quota.pods_in("a") == (Pod("daemon", Resource(cpu=3), "a"),)
    assert model.quota.tree.request("a") == model.quota.tree.used("a") == Resource(cpu=3)
    model.charge(claim("y"))
    model.refund(claim("y"))
    model.reset()
    assert model.quota.tree.request("a") == Resource(cpu=3)


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
    groups = (ElasticGroupConfig(name, max=Resource(gpu=half)) for name in ("a", "b", "c"))
    config = ElasticConfig(groups=(*groups, ElasticGroupConfig("d", max=Resource(gpu=0, cpu=4))), unrestricted=True)
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
