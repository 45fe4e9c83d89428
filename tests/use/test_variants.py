"""Families of resources: the example of two teams, restarts, configurations, services and hosts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Final, TypeVar

import pytest
from starlette.testclient import TestClient

from support.places import EXAMPLES
from support.service_fixtures import client_of_service
from ugm import (
    AllocationRequest,
    ConfigError,
    Manager,
    Partition,
    RequestError,
    Resource,
    UserGroup,
    load_config,
    parse_config,
)
from ugm.configuration import PartitionConfig
from ugm.partition import AbstractPartition, RunningApplication
from ugm.server import create_app
from ugm.store import open_partition

TOKEN: Final = "a token of about 30 characters"  # noqa: S105 - for a server of the test
ANA: Final = UserGroup("ana")
A100, V100 = Resource({"gpu:a100": 1}), Resource({"gpu:v100": 1})
PLAIN: Final = parse_config("partitions: [{queues: [{name: any}, {name: models}]}]").partition()
ELASTIC: Final = """
partitions:
- ugm:
    families: {gpu: [a100, v100]}
    elastic:
      groupby: [{source: queue}]
      groups:
      - {name: any, min: {gpu: 10}, max: {gpu: 20}}
      - {name: models, min: {"gpu:a100": 5, "gpu:v100": 5}, max: {"gpu:a100": 10, "gpu:v100": 10}}
  queues: [{name: any}, {name: models}]
"""


P = TypeVar("P", bound=AbstractPartition)


def example() -> PartitionConfig:
    """Return the configuration of the example program."""
    return load_config(EXAMPLES / "variants.yaml").partition()


def with_teams(partition: P) -> P:
    """Add ten cards of each model, and an application of each team."""
    for model in ("a100", "v100"):
        partition.add_node(f"node-{model}", Resource({f"gpu:{model}": 10}))
    for team in ("any", "models"):
        assert partition.submit(team, ANA, f"root.{team}")
    return partition


@pytest.fixture(name="partition")
def _partition() -> Partition:
    return with_teams(Partition(example()))


def _orders() -> Iterator[tuple[str, ...]]:
    """Yield all orders of five requests for two cards of any model, one for five A100 and one for five V100."""
    yield from sorted(set(permutations(("any",) * 5 + ("gpu:a100", "gpu:v100"))))


def test_resize_to_another_variant(partition: Partition) -> None:
    """An allocation of one card may become one of two cards of another model."""
    assert partition.allocate("one", "any", Resource(gpu=1), assign=A100)

    assert partition.resize("one", Resource({"gpu:v100": 2}))
    assert partition.allocation("one").usage == Resource({"gpu": 2, "gpu:v100": 2})  # type: ignore[union-attr] # it is held
    partition.verify()


def test_waiting_for_different_variants(partition: Partition) -> None:
    """A request for a free card is woken although an older one of its application waits for another model."""
    for name, usage in (("a", A100), ("v", V100)):
        assert partition.allocate(name, "any", Resource({next(iter(usage)): 10}))
    for name, assign in (("first", A100), ("second", V100)):
        assert partition.request(name, "models", Resource(gpu=1), assign=assign)
    assert partition.wake() == ()
    partition.release("v")

    assert [one.allocation_id for one in partition.wake()] == ["second"]


@pytest.mark.parametrize("config", [example(), parse_config(ELASTIC).partition()], ids=["queues", "elastic"])
def test_both_guarantees_hold_in_every_order(config: PartitionConfig) -> None:
    """One team gets ten cards of any model and the other five of each, in every order of the requests."""
    orders = list(_orders())
    assert len(orders) == 42
    for order in orders:
        partition = with_teams(Partition(config))
        for number, name in enumerate(order):
            team, usage = ("any", Resource(gpu=2)) if name == "any" else ("models", Resource({name: 5}))
            assert partition.allocate(f"{number}", team, usage), order
        partition.verify()


def test_borrowed_cards_come_back(partition: Partition) -> None:
    """Cards beyond the guarantee are lent, and a plan takes back only these."""
    for number in range(20):
        assert partition.allocate(f"a-{number}", "any", Resource(gpu=1))
    for name in ("gpu:a100", "gpu:v100"):
        request = AllocationRequest(name, "models", Resource({name: 5}))
        plan = partition.plan_preemption(request, since=0)
        assert len(plan.victims) == 5
        for victim in plan.victims:
            partition.release(victim.allocation_id)
        assert partition.allocate(request)
    queue = partition.queue("root.any")
    assert queue is not None
    assert queue.usage == Resource({"gpu": 10, "gpu:a100": 5, "gpu:v100": 5})


def test_a_store_keeps_assignments(tmp_path: Path) -> None:
    """A partition that is opened again has the same variants, and a repeated call gets the same answer."""
    location = str(tmp_path / "quota.db")
    with open_partition(location, example()) as partition:
        with_teams(partition)
        decision = partition.allocate("a", "any", Resource(gpu=3), prefer=("gpu:v100",))
        partition.request("later", "any", Resource(gpu=2), prefer=("gpu:v100",))
    with open_partition(location) as partition:
        assert decision.assign == Resource({"gpu:v100": 3})
        assert partition.allocate("a", "any", Resource(gpu=3), prefer=("gpu:v100",)) == decision
        assert partition.allocate("later", "any", Resource(gpu=2)).assign == Resource({"gpu:v100": 2})
        with pytest.raises(RequestError, match="another usage"):
            partition.allocate("a", "any", Resource(gpu=2))
        partition.verify()


def test_pending_requests_count_only_for_the_family(partition: Partition) -> None:
    """A request that waits is woken when any variant is free again."""
    assert partition.allocate("all", "any", Resource({"gpu:a100": 10, "gpu:v100": 10}))
    partition.request("waits", "models", Resource(gpu=2))
    waiting = partition.waiting_list()
    assert waiting.wake() == ()
    partition.resize("all", Resource({"gpu:a100": 10, "gpu:v100": 8}))
    assert [one.allocation_id for one in waiting.wake()] == ["waits"]
    decision = partition.allocate("waits", "models", Resource(gpu=2))
    assert decision.assign == Resource({"gpu:v100": 2})
    partition.verify()


def test_headroom_is_what_variants_leave() -> None:
    """No more of a family is free than of its variants together, so each request within the headroom fits."""
    text = """
    partitions:
    - ugm: {families: {gpu: [a100, v100]}}
      queues: [{name: q, resources: {max: {gpu: 8, "gpu:a100": 3, "gpu:v100": 4}}}]
    """
    partition = Partition(parse_config(text).partition())
    partition.submit("app", ANA, "root.q")
    assert partition.headroom("app") == Resource({"gpu": 7, "gpu:a100": 3, "gpu:v100": 4})
    assert partition.check("app", Resource(gpu=7)).assign == Resource({"gpu:a100": 3, "gpu:v100": 4})
    assert not partition.check("app", Resource(gpu=8))
    partition = Partition(parse_config(text.replace(', "gpu:v100": 4', "")).partition())
    partition.submit("app", ANA, "root.q")
    # No node has a V100, and no limit names one.
    partition.add_node("n", Resource({"gpu:a100": 9}))
    assert partition.headroom("app") == Resource({"gpu": 3, "gpu:a100": 3})
    assert not partition.check("app", Resource(gpu=4))
    assert partition.explain("app", Resource(gpu=4)).headroom == partition.headroom("app")


def test_limits_of_models_divide_an_amount() -> None:
    """If only a quota model limits the variants, an amount is divided among them, too."""
    text = ELASTIC.replace("min: {gpu: 10}, max: {gpu: 20}", 'max: {"gpu:a100": 3, "gpu:v100": 4}')
    partition = with_teams(Partition(parse_config(text).partition()))
    partition.request("a", "any", Resource(gpu=7))
    assert partition.allocate("a", "any", Resource(gpu=7)).assign == Resource({"gpu:a100": 3, "gpu:v100": 4})
    denial = partition.allocate("b", "any", Resource(gpu=1))
    assert "elastic group 'any': 1 gpu requested, 7 of 7 used, 1 too much" in str(denial)
    partition.release("a")
    partition.verify()


def test_running_work_agrees_without_variants(partition: Partition) -> None:
    """A host that knows only the number of cards reports no difference, and one that knows the model neither."""
    partition.allocate("a", "any", Resource(gpu=2))
    for usage in (Resource(gpu=2), Resource({"gpu:a100": 2}), Resource({"gpu": 2, "gpu:a100": 2})):
        assert not partition.audit([("a", "any", usage)])
        running = RunningApplication("any", ANA, "root.any", [("a", usage)])
        assert partition.synchronize([running]).corrected == ()
    other = RunningApplication("any", ANA, "root.any", [("a", Resource({"gpu:v100": 2}))])
    assert partition.audit([("a", "any", Resource({"gpu:v100": 2}))])
    assert partition.synchronize([other]).corrected == ("a",)
    row = partition.allocation("a")
    assert row is not None
    assert row.usage == Resource({"gpu": 2, "gpu:v100": 2})
    partition.verify()


def test_a_gang_takes_what_is_left(partition: Partition) -> None:
    """Each member of a gang is assigned after those before it."""
    gang = [AllocationRequest(f"g-{number}", "models", Resource(gpu=4)) for number in range(6)]
    assert not partition.allocate_all(gang)
    assert partition.allocate_all(gang[:5])
    rows = [partition.allocation(one.allocation_id) for one in gang[:5]]
    assert sorted(str(row.assign) for row in rows if row) == [
        "gpu:a100 2, gpu:v100 2",
        *["gpu:a100 4"] * 2,
        *["gpu:v100 4"] * 2,
    ]
    partition.verify()


def test_sizes_keep_their_variants(partition: Partition) -> None:
    """A resized allocation keeps its cards, and a real allocation those of its placeholder."""
    assert partition.allocate("a", "any", Resource(gpu=2), prefer=("gpu:v100",))
    assert partition.resize("a", Resource(gpu=3)).assign == Resource({"gpu:v100": 3})
    assert partition.resize("a", Resource(gpu=1)).assign == Resource({"gpu:v100": 1})
    assert partition.allocate("p", "any", Resource(gpu=2), placeholder=True, prefer=("gpu:v100",))
    assert partition.replace("p", "real", Resource(gpu=2)).assign == Resource({"gpu:v100": 2})
    partition.verify()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"usage": Resource({"gpu:h100": 1})}, "is no variant of gpu"),
        ({"usage": Resource({"gpu": 1, "gpu:a100": 2})}, "less than the sum of its variants"),
        ({"usage": Resource(gpu=2), "assign": A100}, "it assigns 1 gpu, and 2 are requested of any"),
        ({"usage": A100, "assign": A100}, "it assigns 1 gpu, and 0 are requested of any"),
        ({"usage": Resource(gpu=1), "assign": Resource(gpu=1)}, "is no variant of a family"),
        ({"usage": Resource(gpu=1), "prefer": ("gpu",)}, "there is no such variant"),
    ],
)
def test_misuse_is_an_error(partition: Partition, options: dict[str, object], reason: str) -> None:
    """Amounts and variants have to agree."""
    with pytest.raises(RequestError, match=reason):
        partition.allocate("a", "any", **options)  # type: ignore[arg-type]
    assert partition.allocation("a") is None


def test_families_need_a_declaration() -> None:
    """Without families, a variant is a resource like any other, and a manager has none."""
    partition = Partition(PLAIN)
    partition.submit("any", ANA, "root.any")
    assert partition.allocate("a", "any", A100)
    with pytest.raises(RequestError, match="no families"):
        partition.allocate("b", "any", Resource(gpu=1), assign=A100)
    with pytest.raises(RequestError, match="families need a Partition"):
        Manager(example())


def test_families_are_added_and_removed() -> None:
    """A plan assigns what exists, and removes the assignment with the families."""
    partition = Partition(PLAIN)
    with_teams(partition)
    partition.update_node("node-a100", Resource({"gpu": 10, "gpu:a100": 10}))
    partition.update_node("node-v100", Resource({"gpu": 10, "gpu:v100": 10}))
    assert partition.allocate("typed", "models", Resource({"gpu:v100": 9}))
    assert partition.allocate("any", "any", Resource(gpu=2))
    partition.request("waits", "any", Resource(gpu=1))
    plan = partition.plan(example())
    partition.apply(plan, confirm=True)
    held = {name: partition.allocation(name) for name in ("typed", "any", "waits")}
    assert [str(one.usage) for one in held.values() if one] == ["gpu 9, gpu:v100 9", "gpu 2, gpu:a100 2", "gpu 1"]
    partition.verify()
    partition.apply(partition.plan(PLAIN), confirm=True)
    row = partition.allocation("any")
    assert row is not None
    assert (row.usage, row.assign) == (Resource(gpu=2), None)
    partition.verify()


def test_a_variant_in_use_cannot_be_removed(partition: Partition) -> None:
    """A configuration without a variant that something uses is refused, and nothing has changed."""
    assert partition.allocate("a", "models", A100)
    fewer = parse_config("partitions: [{ugm: {families: {gpu: [v100]}}, queues: [{name: any}, {name: models}]}]")
    with pytest.raises(RequestError, match="no variant of gpu"):
        partition.configure(fewer.partition())
    partition.verify()
    assert partition.allocate("b", "models", V100)


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ('queues: [{name: q, ugm: {prefer: ["gpu:a100"]}}]', "root.q prefers 'gpu:a100': not declared"),
        (
            'queues: [], ugm: {families: {gpu: [a]}}, limits: [{users: [x], ugm: {prefer: ["gpu:a"], maxpending: 1}}]',
            "root limits[0] prefers variants: only a queue can",
        ),
        ("queues: [], ugm: {families: {gpu: [a100, a100]}}", "the variant 'a100' is listed twice"),
        ('queues: [{name: q, resources: {max: {"gpu:h100": 1}}}], ugm: {families: {gpu: [a100]}}', "'gpu:h100' is not"),
        ("queues: [], ugm: {families: {gpu: [a]}, elastic: {total: {gpu: 2}}}", "2 gpu have no variant, so"),
    ],
)
def test_mistakes_in_a_file_are_named(partition: str, message: str) -> None:
    """A preference, a list or an amount that would have no effect is a problem of the file."""
    with pytest.raises(ConfigError) as refused:
        parse_config(f"partitions: [{{{partition}}}]")
    assert message in str(refused.value)


def test_guarantees_that_cannot_be_met_are_named() -> None:
    """A plan and the validation state what is missing."""
    partition = Partition(PLAIN)
    partition.add_node("node", Resource({"gpu:a100": 4, "gpu:v100": 20}))
    plan = partition.plan(example())
    assert "guarantees of queues: 5 gpu:a100 guaranteed, 4 there, 1 missing" in str(plan)
    text = ELASTIC.replace("groupby:", 'total: {"gpu:a100": 4, "gpu:v100": 14}\n      groupby:')
    with pytest.raises(ConfigError) as refused:
        parse_config(text)
    assert "20 gpu guaranteed, 18 there, 2 missing" in str(refused.value)
    assert "5 gpu:a100 guaranteed, 4 there, 1 missing" in str(refused.value)


def test_over_a_service_and_rest() -> None:
    """A client of a service and REST get the same answers, with the variants and the reasons."""
    with client_of_service(example()) as client:
        with_teams(client)
        decision = client.allocate("a", "any", Resource(gpu=2), prefer=("gpu:v100",))
        assert decision.assign == Resource({"gpu:v100": 2})
        denial = client.allocate("b", "any", Resource(gpu=7), assign=Resource({"gpu:v100": 7}))
        assert "3 of 8 free for this team, 5 kept for the guarantee of root.models" in str(denial)
        assert denial.can_wait is False
        allocation = client.allocation("a")
        assert allocation is not None
        assert allocation.usage == Resource({"gpu": 2, "gpu:v100": 2})
    partition = with_teams(Partition(example()))
    rest = TestClient(create_app({"default": partition}, decide_token=TOKEN), base_url="http://localhost")
    body = {"allocation_id": "r", "application_id": "any", "usage": {"gpu": 2}, "prefer": ["gpu:v100"]}
    answer = rest.post("/api/v1/partition/default/allocate", json=body, headers={"authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.json()["assign"]) == (200, {"gpu:v100": 2})
    again = body | {"allocation_id": "s", "assign": {"gpu:a100": 2}}
    answer = rest.post("/api/v1/partition/default/allocate", json=again, headers={"authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.json()["assign"]) == (200, {"gpu:a100": 2})
