"""A shared partition is asked what an embedded one is asked, and answers the same."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from support.partition_fixtures import Licences
from support.postgres import Server, shared_server
from ugm import Partition, RequestError, Resource, UserGroup, parse_config

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'ugm[postgres]'")

from ugm.shared import SharedPartition

pytestmark = pytest.mark.ci

__all__ = ["shared_server"]

SUE = UserGroup("sue", ("dev",))
CONFIG = """
partitions:
  - name: default
    placementrules: [{name: provided, create: true}]
    queues:
      - name: root
        limits: [{limit: each, users: ["*"], maxresources: {memory: 9, gpu: 2}}, {limit: team, groups: [dev], maxapplications: 5}]
        queues:
          - {name: prod, resources: {max: {memory: 10}}}
          - {name: made, parent: true, childtemplate: {resources: {max: {memory: 4}}}}
"""  # noqa: E501 - one limit a line would be no easier to read
QUESTIONS: dict[str, tuple[Any, ...]] = {
    "user_names": (),
    "group_names": (),
    "application_ids": (),
    "allocation_ids": (),
    "queue_paths": (),
    "user": ("sue",),
    "group": ("dev",),
    "user_utilization": ("sue",),
    "group_utilization": ("dev",),
    "queue_alone": ("root.prod",),
    "pending": ("root.prod",),
    "user_usage": ("sue",),
    "applications_by_id": (("app", "nothing"),),
    "allocations_by_id": (("y", "x", "nothing"),),
    "explain_submission": (SUE, "root.prod", Resource(memory=3)),
    "application_report": ("app",),
    "place": (SUE, "root.made.new"),
    "check": ("app", Resource(memory=3)),
    "explain": ("app", Resource(memory=3)),
    "limits": ("app",),
    "users": (),
    "groups": (),
    "nodes": (),
    "over_limit": (),
}


@pytest.fixture(scope="module")
def both(shared_server: Server) -> Iterator[tuple[Partition, SharedPartition]]:
    """Return an embedded and a shared partition to which the same has happened."""
    with SharedPartition(shared_server.conninfo, schema=shared_server.fresh_schema()) as shared:
        made = Partition(), shared
        for partition in made:
            partition.configure(parse_config(CONFIG).partition())
            partition.add_node("n", Resource(memory=100, gpu=4))
            partition.submit("app", SUE, "root.prod")
            partition.allocate("x", "app", Resource(memory=7, gpu=1))
            partition.request("y", "app", Resource(memory=2), priority=3)
        yield made


@pytest.mark.parametrize("held", [0, 1])
def test_what_is_held_counts_when_a_cluster_becomes_known(shared_server: Server, held: int) -> None:
    """What somebody holds and no node offers is over the limit of the root as soon as there is a node."""
    with SharedPartition(shared_server.conninfo, schema=shared_server.fresh_schema()) as shared:
        embedded = Partition()
        for partition in (embedded, shared):
            partition.adopt_application("app", SUE, "root.prod")
            partition.adopt("x", "app", Resource(gpu=held))
            partition.add_node("n", Resource())

        assert len(embedded.over_limit()) == held
        assert shared.over_limit() == embedded.over_limit()
        shared.verify()


def test_other_quota_models_are_refused(both: tuple[Partition, SharedPartition]) -> None:
    """A shared partition has no other quota models, so there is none to replace."""
    model = Licences(1)
    with pytest.raises(RequestError, match="no other quota models"):
        both[1].replace_model(model, model)


def operations(kind: type) -> dict[str, Any]:
    """Return the public operations of a class, by name."""
    return {name: member for name, member in inspect.getmembers(kind, callable) if not name.startswith("_")}


@pytest.mark.parametrize("question", QUESTIONS)
def test_both_answer_the_same(both: tuple[Partition, SharedPartition], question: str) -> None:
    """Whatever is asked, the shared partition says what the embedded one says."""
    embedded, shared = (getattr(partition, question)(*QUESTIONS[question]) for partition in both)

    assert shared == embedded


def test_the_configuration_is_the_same(both: tuple[Partition, SharedPartition]) -> None:
    """The configuration in force can be asked for; what has been through the database limits the same."""
    embedded, shared = both

    assert shared.config is not None
    assert not shared.plan(embedded.config).changes


@pytest.mark.parametrize("name", [name for name in operations(Partition) if name != "allocate_evicting"])
def test_every_operation_is_there(name: str) -> None:
    """A shared partition has the operations of an embedded one but `allocate_evicting`, with the same arguments."""
    ours, theirs = (inspect.signature(operations(kind)[name]) for kind in (SharedPartition, Partition))

    assert list(ours.parameters.values())[1:] == list(theirs.parameters.values())[1:]
