"""Misuse of elastic quotas: refused with the name of the argument, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ugm import RequestError, Resource
from ugm.elastic import (
    ElasticGroup,
    ElasticModel,
    ElasticQuota,
    ElasticTree,
    GroupError,
    Pod,
    Sharer,
    share,
    status,
    verify,
)

#: Of no use anywhere.
WRONG: Any = {"cpu": 1}
GROUP = ElasticGroup("a", max=Resource(cpu=10))
POD = Pod("p", Resource(cpu=1), "a")


@pytest.fixture(name="quota")
def _quota() -> ElasticQuota:
    return ElasticQuota(ElasticTree(Resource(cpu=10), [GROUP]))


def refused(call: Callable[..., object], *given: object) -> str:
    """Return the message of a refusal."""
    with pytest.raises(RequestError) as caught:
        call(*given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "", "pod.name '': a name is a text of 1 to 256 characters"),
        ("usage", WRONG, "pod.usage {'cpu': 1}: expected a Resource"),
        ("usage", Resource(cpu=-1), "pod.usage Resource(cpu=-1): the amount of cpu is negative"),
        ("group", None, "pod.group None: expected a text of up to 256 characters"),
        ("namespace", 3, "pod.namespace 3: expected a text of up to 256 characters"),
        ("priority", "high", "pod.priority 'high': expected an int"),
        ("started", 0.5, "pod.started 0.5: expected an int"),
        ("preemptible", 1, "pod.preemptible 1: expected True or False"),
    ],
)
def test_pods(quota: ElasticQuota, field: str, value: object, message: str) -> None:
    """A pod with invalid fields is not added, and not checked."""
    change: Any = {field: value}
    wrong = POD._replace(**change)

    for call in (quota.expect, quota.adopt, quota.check, quota.plan_preemption):
        assert refused(call, wrong) == message
    assert not quota.pods_in("a")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("parent", 3, "parent 3: expected a text"),
        ("max", WRONG, "max {'cpu': 1}: expected a Resource"),
        ("shared_weight", 1, "shared_weight 1: expected a Resource"),
        ("allow_lent", "false", "allow_lent 'false': expected True or False"),
        ("namespaces", "ns", "namespaces 'ns': expected a sequence"),
        ("tree_id", 3, "tree_id 3: expected a text"),
    ],
)
def test_groups(field: str, value: object, message: str) -> None:
    """A group with fields of the wrong type cannot be built."""
    change: Any = {field: value}

    assert refused(lambda: replace(GROUP, **change)) == message


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "", "group.name '': the elastic group has no name (allowed: 1 to 256 characters)"),
        ("namespaces", ("",), "group.namespaces ('',): the name has 0 characters (allowed: 1 to 256)"),
        ("tree_id", "i" * 257, f"group.tree_id {'i' * 257!r}: the name has 257 characters (allowed: up to 256)"),
    ],
)
def test_names_of_groups(quota: ElasticQuota, field: str, value: object, message: str) -> None:
    """A group with an invalid name is refused before anything has changed."""
    change: Any = {field: value}
    wrong = replace(GROUP, **change)

    for call in (quota.create, quota.update, quota.tree.put, lambda one: ElasticTree(groups=[one])):
        assert refused(call, wrong) == message
    assert quota.tree.groups == (GROUP,)


def test_other_arguments(quota: ElasticQuota) -> None:
    """Other arguments of the wrong type are named as well."""
    tree = quota.tree

    assert refused(quota.expect, WRONG) == "pod {'cpu': 1}: expected a Pod"
    assert refused(tree.put, WRONG) == "group {'cpu': 1}: expected an ElasticGroup"
    assert refused(ElasticTree, WRONG) == "total {'cpu': 1}: expected a Resource"
    assert refused(tree.change_request, "a", WRONG) == "delta {'cpu': 1}: expected a Resource"
    assert (
        refused(lambda: tree.change_used("a", POD.usage, non_preemptible=WRONG))
        == "non_preemptible {'cpu': 1}: expected a Resource"
    )
    assert refused(ElasticQuota, WRONG) == "tree {'cpu': 1}: expected an ElasticTree"
    assert refused(ElasticModel, WRONG) == "quota {'cpu': 1}: expected an ElasticQuota"
    assert refused(lambda: ElasticModel(quota, unrestricted=WRONG)) == "unrestricted {'cpu': 1}: expected True or False"
    for change in (tree.change_request, tree.change_used):
        change("a", POD.usage)
        assert refused(ElasticQuota, tree) == f"tree {tree!r}: expected a tree without requests and usage"
        change("a", Resource(cpu=-1))


def test_functions(quota: ElasticQuota) -> None:
    """Functions refuse arguments of the wrong type."""
    tree = quota.tree
    for call, message in (
        (lambda: share(WRONG, []), "available {'cpu': 1}: expected an int"),
        (lambda: share(1, WRONG, scale=WRONG), "scale {'cpu': 1}: expected True or False"),
        (lambda: share(1, 5), "sharers 5: expected several items, for example a list"),  # type: ignore[arg-type]
        (lambda: share(1, [WRONG]), "sharers {'cpu': 1}: expected a Sharer"),
        (lambda: share(1, [Sharer("", 1, 1, 1)]), "sharer.name '': a name is a text of 1 to 256 characters"),
        (lambda: status(WRONG, "a"), "tree {'cpu': 1}: expected an ElasticTree"),
        (lambda: verify(WRONG), "tree {'cpu': 1}: expected an ElasticTree"),
        (lambda: verify(tree, expected=WRONG), "expected {'cpu': 1}: expected an ElasticTree"),
        (lambda: quota.forget(WRONG), "pod {'cpu': 1}: there is no such pod"),
        (lambda: quota.forget_all([WRONG]), "names {'cpu': 1}: a name is a text of 1 to 256 characters"),
    ):
        assert refused(call) == message
    with pytest.raises(RequestError, match="different names"):
        share(1, [Sharer("a", 1, 1, 1), Sharer("a", 2, 1, 1)])
    with pytest.raises(RequestError, match="expected ints as amounts"):
        share(1, [Sharer("a", WRONG, 1, 1)])
    with pytest.raises(RequestError, match="expected a tree with the same groups"):
        verify(tree, expected=ElasticTree())


def test_unknown_names(quota: ElasticQuota) -> None:
    """A name of the wrong type is unknown."""
    for call in (quota.delete, quota.plan_revoke, quota.refuses_pods, lambda name: status(quota.tree, name)):
        with pytest.raises(GroupError, match=r"there is no such group \[not_found\]"):
            call(WRONG)
    assert not quota.has_pod(WRONG)
    assert quota.pod(WRONG) is None
    assert quota.pods_in(WRONG) == ()
