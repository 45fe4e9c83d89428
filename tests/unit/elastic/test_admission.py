"""The limits of elastic groups as values."""

from __future__ import annotations

import pytest

from ugm import Resource
from ugm.elastic import AdmissionRules, ElasticGroup, ElasticQuota, ElasticTree, Pod
from ugm.errors import InvariantError


def test_limits_of_a_query() -> None:
    """A group has its own quota and a borrowable part, and only resources of the group itself are limited above."""
    groups = [
        ElasticGroup("team", "", Resource(gpu=2), Resource(cpu=0, gpu=6)),
        ElasticGroup("lab", "team", Resource(gpu=1), Resource(gpu=9)),
        ElasticGroup("other", "", Resource(gpu=4), Resource(gpu=8)),
    ]
    quota = ElasticQuota(ElasticTree(Resource(gpu=8), groups), rules=AdmissionRules(check_parents=True))
    lab, team = quota.limits(Pod("?", Resource(), "lab"))

    assert (lab.name, lab.max_resources, lab.guaranteed) == ("lab", Resource(gpu=6), Resource(gpu=1))
    assert (team.name, team.max_resources, team.guaranteed) == ("team", Resource(gpu=6), Resource(gpu=2))
    assert (lab.borrowable, team.borrowable) == (Resource(gpu=5), Resource(gpu=4))
    assert (lab.max_applications, lab.running_applications, lab.usage) == (0, 0, Resource(gpu=0))
    assert quota.limits(Pod("?", Resource(), "lab", preemptible=False))[1].max_resources == Resource(gpu=1)
    quota.verify()
    quota.tree.change_request("lab", Resource(gpu=1))
    with pytest.raises(InvariantError, match=r"elastic group 'lab', gpu: counts .* expected None"):
        quota.verify()


def test_guarantee_is_scaled_only_in_a_shortage() -> None:
    """Minimums above the total are scaled once the requests exceed the total, and not before."""
    groups = [ElasticGroup(name, "", Resource(gpu=6), Resource(gpu=8)) for name in ("lab", "web")]
    quota = ElasticQuota(ElasticTree(Resource(gpu=8), groups))
    (before,) = quota.limits(Pod("?", Resource(), "lab"))
    quota.expect(Pod("serve", Resource(gpu=8), "web"))
    (after,) = quota.limits(Pod("?", Resource(), "lab"))

    assert (before.max_resources, before.guaranteed) == (Resource(gpu=8), Resource(gpu=6))
    assert (after.max_resources, after.borrowable) == (Resource(gpu=4), Resource())
