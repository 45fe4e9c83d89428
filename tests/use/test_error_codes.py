"""Every error has a stable code, which is also that of REST; that of an id in use names the property that differs."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module

import pytest

from support.places import DOCS
from ugm import AllocationRequest, Partition, RequestError, Resource, UgmError, UserGroup, parse_config
from ugm.errors import ERROR_CODES

CONFIG = "partitions: [{queues: [{name: q}, {name: r}]}]"
ANA = UserGroup("ana")
ONE = Resource(vcore=1000)


@pytest.fixture(name="partition")
def _partition() -> Partition:
    """Return a partition with pending and held allocations, and a failing application."""
    partition = Partition(parse_config(CONFIG).partition())
    partition.submit("app", ANA, "root.q", tags={"team": "x"})
    partition.allocate("app.0", "app", ONE)
    partition.request("pending", "app", ONE, priority=1)
    partition.allocate("held", "app", ONE, duration=60)
    for name in ("other", "bad"):
        partition.submit(name, ANA, "root.q")
    partition.allocate("bad.0", "bad", ONE)
    partition.fail("bad")
    return partition


def classes(kind: type[UgmError]) -> Iterator[type[UgmError]]:
    """Yield all classes of errors."""
    for name in ("store", "service", "elastic", "kubernetes", "simulation", "cli", "server"):
        import_module(f"ugm.{name}")
    for found in kind.__subclasses__():
        yield found
        yield from classes(found)


CALLS: list[tuple[str, Callable[[Partition], object]]] = [
    ("application-unknown", lambda p: p.allocate("x", "none", ONE)),
    ("application-failing", lambda p: p.allocate("x", "bad", ONE)),
    ("allocation-unknown", lambda p: p.resize("none", ONE)),
    ("id-in-use", lambda p: p.allocate("app.0", "app", Resource(vcore=5))),
    ("id-in-use", lambda p: p.submit("app", UserGroup("ben"), "root.q")),
    ("queue-unknown", lambda p: p.set_queue_quota("root.none", ONE)),
    ("not-empty", lambda p: p.complete("app")),
    ("state-conflict", lambda p: p.replace("app.0", "x", ONE)),
    ("argument-invalid", lambda p: p.allocate("", "app", ONE)),
    ("partition-unknown", lambda _: parse_config(CONFIG).partition("none")),
]


@pytest.mark.parametrize(("code", "call"), CALLS)
def test_a_call_has_a_specific_code(partition: Partition, code: str, call: Callable[[Partition], object]) -> None:
    """A program can distinguish the reasons of a refused call by the code of the error."""
    with pytest.raises(RequestError) as caught:
        call(partition)

    assert caught.value.code == code
    assert pickle.loads(pickle.dumps(caught.value)).code == code  # noqa: S301 - our own data


def test_every_class_has_a_known_code() -> None:
    """The code of every class of errors is in the table."""
    found = {kind.code for kind in classes(UgmError)}

    assert found <= ERROR_CODES.keys()
    assert inspect.signature(RequestError).parameters["code"].default in ERROR_CODES


def test_the_page_lists_the_codes() -> None:
    """The page on errors has exactly the codes of the table, each with its status."""
    text = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    lists = re.findall(r"^- (\d+): ((?:`[a-z-]+`[,.]\s*)+)$", text, re.MULTILINE)
    listed = {code: int(status) for status, codes in lists for code in re.findall(r"`([a-z-]+)`", codes)}

    assert listed == {code: known.status for code, known in ERROR_CODES.items()}


@pytest.mark.parametrize(
    ("allocation_id", "application_id", "vcore", "more", "reason"),
    [
        ("pending", "app", 1000, {}, "another priority: 1 in use, 0 requested"),
        ("pending", "app", 500, {"priority": 1}, "another usage: vcore 1 in use, vcore 500m requested"),
        ("pending", "app", 1000, {"priority": 1, "duration": 60}, "another duration: None in use, 60 requested"),
        ("pending", "other", 1000, {"priority": 1}, "another application_id: 'app' in use, 'other' requested"),
        ("held", "app", 1000, {"preemptible": False, "duration": 60}, "another preemptible: True in use, False"),
        ("held", "app", 1000, {}, "another duration: 60 in use, None requested"),
        ("held", "app", 1000, {"duration": 60, "node": "n"}, "another node: None in use, 'n' requested"),
    ],
)
def test_allocations(
    partition: Partition, allocation_id: str, application_id: str, vcore: int, more: Mapping[str, object], reason: str
) -> None:
    """The error of an allocation id in use names the property that differs, and both values."""
    request = AllocationRequest(allocation_id, application_id, Resource(vcore=vcore), **more)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match=reason) as caught:
        partition.allocate_all([request])

    assert caught.value.code == "id-in-use"


@pytest.mark.parametrize(
    ("user", "queue", "tags", "reason"),
    [
        ("ben", "root.q", {"team": "x"}, "another user: 'ana' in use, 'ben' requested"),
        ("ana", "root.r", {"team": "x"}, "another queue: 'root.q' in use, 'root.r' requested"),
        ("ana", "root.q", {}, "another tags: {'team': 'x'} in use, {} requested"),
    ],
)
def test_applications(partition: Partition, user: str, queue: str, tags: dict[str, str], reason: str) -> None:
    """The error of an application id in use names the argument that differs, and both values."""
    with pytest.raises(RequestError) as caught:
        partition.submit("app", UserGroup(user), queue, tags=tags)

    assert reason in str(caught.value)
