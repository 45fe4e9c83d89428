"""Laws of quota models that change with the configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from support.declared_models import ELASTIC, TREE, declaring, moved
from support.examples import examples
from support.partition_fixtures import SUE
from ugm import Partition, Resource
from ugm.configuration import PartitionConfig

CONFIGS: Final = (
    declaring(),
    declaring(TREE),
    declaring(elastic=ELASTIC),
    declaring(TREE, elastic=moved()),
    declaring(replace(TREE, forest="f"), elastic=replace(ELASTIC, total=Resource(gpu=6))),
)
STEPS: Final = st.one_of(
    st.tuples(st.just("configure"), st.sampled_from(CONFIGS), st.booleans()),
    st.tuples(st.sampled_from(["allocate", "request", "release"]), st.integers(0, 5), st.integers(1, 6)),
    st.tuples(st.just("resize"), st.integers(0, 12), st.none()),
)


def partition() -> Partition:
    """Return a partition with an application in each of two queues."""
    made = Partition(CONFIGS[0], cluster=Resource(gpu=10))
    for queue in ("a", "b"):
        made.submit(queue, SUE, f"root.{queue}")
    return made


def change(of: Partition, config: PartitionConfig, *, planned: bool) -> None:
    """Put a configuration in force, and compare the plan for it with the result."""
    plan = of.plan(config)
    if planned:
        of.apply(plan, confirm=True)
    else:
        of.configure(config)
    assert of.exceeded_limits() == plan.exceeded
    assert bool(of.plan(config).changes) is False


@settings(max_examples=examples(40))
@given(st.lists(STEPS, max_size=15))
def test_models_follow_the_configuration(steps: list[tuple[str, object, object]]) -> None:
    """Whatever the order of changes, the models agree with the ledger, and plans with their application."""
    used = partition()
    for kind, what, amount in steps:
        if kind == "configure":
            assert isinstance(what, PartitionConfig)
            change(used, what, planned=bool(amount))
        elif kind == "resize":
            used.update_node("cluster", Resource(gpu=int(str(what))))
        elif kind == "release":
            used.release(f"x-{what}")
        elif used.allocation(f"x-{what}") is None:
            step = used.request if kind == "request" else used.allocate
            step(f"x-{what}", "ab"[int(str(what)) % 2], Resource(gpu=int(str(amount))))
        used.verify()
