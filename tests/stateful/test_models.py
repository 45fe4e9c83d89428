"""A partition with a store and all kinds of quota models against the naive model of partitions, step by step.

The naive model knows nothing of counters: for every step it makes new quota models and charges them with all live
allocations. The store is closed and opened again between. One of the models fails at some of its calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

import ugm.testing.partition_machine as drawn
from stateful.test_partition import StoreMachine
from support.examples import examples
from support.failing_models import Fuse, ResettableFailing
from support.partition_fixtures import BrokenError, NodesOfUsers
from support.quotatree_fixtures import document, manager_of
from ugm import AllocationRequest, Claim, RequestError, Resource
from ugm.configuration import ElasticConfig, ElasticGroup, GroupSource
from ugm.elastic import ElasticModel
from ugm.model import QuotaModel
from ugm.quotatree import ForestModel

SMALL: Final = settings(max_examples=examples(40), stateful_step_count=25)

ELASTIC: Final = ElasticConfig(
    groups=(
        ElasticGroup("team", min=Resource(memory=6, vcore=6), max=Resource(memory=20, vcore=20), is_parent=True),
        ElasticGroup("ana", parent="team", min=Resource(memory=4), max=Resource(memory=14, vcore=12)),
        ElasticGroup("bob", parent="team", min=Resource(vcore=3), max=Resource(memory=9, vcore=15)),
        ElasticGroup("cleo", min=Resource(memory=5), max=Resource(memory=16)),
    ),
    total=Resource(memory=24, vcore=22),
    group_by=(GroupSource(source="user"),),
)


def groups_of(claim: Claim) -> Mapping[str, str]:
    """Return the leaf of a claim in each tree: only two users have memory of their own."""
    memory = {"memory": claim.user.name} if claim.user.name != "cleo" else {}
    return {"cores": claim.user.name, **memory}


def forest_model() -> ForestModel:
    """Return a forest of two trees as a model, in which no allocation depends on the order of earlier ones."""
    cores = document(
        {"top!": ("nil", 25), "ana!": ("top", 14), "bob!": ("top", 11), "cleo!": ("top", 8)}, "cores", "vcore"
    )
    memory = document({"top!": ("nil", 18), "ana!": ("top", 12), "bob!": ("top", 10)}, "memory", "memory")
    return ForestModel(manager_of(cores, memory, forest="all"), "all", groups_of)


class ModelsMachine(StoreMachine):
    """Users, groups, queues, elastic groups, a quota forest, nodes of users, and a failing model."""

    def make_models(self) -> Sequence[QuotaModel]:
        """Return an elastic quota, a forest, a model of nodes, and a model that fails."""
        return [
            ElasticModel.declared(ELASTIC),
            forest_model(),
            NodesOfUsers(),
            ResettableFailing(30, resource="memory"),
        ]

    @rule(request=drawn.ASKS, call=st.sampled_from(["check", "charge"]), is_after=st.booleans())
    def fail(self, request: AllocationRequest, call: str, *, is_after: bool) -> None:
        """A model that fails leaves everything as it was."""
        failing = cast("ResettableFailing", self.models[-1])
        with self.nothing_changes():
            failing.arm(Fuse(call, 1, is_after))
            try:
                self.partition.allocate(*request[:3])
            except (BrokenError, RequestError):
                return
            finally:
                failing.arm(None)

    @invariant()
    def models_agree(self) -> None:
        """Every model has the limits and the usage of a new one that is charged with all allocations."""
        elastic, forest, nodes, failing = self.models
        fresh_elastic, fresh_forest, fresh_nodes, fresh_failing = self.model.charged_models()
        for model, fresh in ((elastic, fresh_elastic), (forest, fresh_forest)):
            limits, expected = (list(cast("ElasticModel", one).all_limits()) for one in (model, fresh))
            assert limits == expected
        assert vars(nodes) == vars(fresh_nodes)
        states = [cast("ResettableFailing", one).state() for one in (failing, fresh_failing)]
        assert states[0] == states[1]


TestModels = ModelsMachine.TestCase
TestModels.settings = SMALL
