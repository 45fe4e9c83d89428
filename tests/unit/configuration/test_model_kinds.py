"""The registry of quota models that a configuration can declare."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module

import pytest

from support.places import model_packages
from ugm import RequestError, parse_config
from ugm._documents.loader import DocumentFormat
from ugm.configuration import Extensions, PartitionConfig, QuotaNodeConfig, QuotaTreeConfig, QuotaTreeDocument
from ugm.configuration.model_kinds import (
    DOCUMENT_MODULES,
    ModelKind,
    declared_findings,
    definitions_of,
    reported_uses,
    unmapped_queues,
)

CONFIG = parse_config(
    """
    partitions:
    - queues: [{name: prod}]
      ugm:
        elastic: {groups: [{name: ml, max: {gpu: 4}}]}
        quotatrees:
        - tree:
            kind: QuotaTree
            metadata: {name: t}
            spec: {resourceNames: [cpu], nodes: {root: {quota: {cpu: 4}}, leaf: {parent: root, quota: {cpu: 4}}}}
          defaultgroup: leaf
        budgets: [{name: b, elasticgroup: ml, amounts: {gpu: 8}}]
        fairshare: {defaultshares: 1}
    """
).partition()


def loaded_by(text: str) -> set[str]:
    """Return the packages of quota models that a new interpreter loads for a configuration."""
    program = f"import sys, ugm; ugm.parse_config({text!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    packages = {name.split(".")[1] for name in done.stdout.split() if name.startswith("ugm.")}
    return packages & model_packages()


def test_kinds_are_in_order() -> None:
    """Models are made in one order, in which a budget comes after the models whose groups it limits."""
    assert [(one.setting, one.kind, one.name, one.has_past) for one in definitions_of(CONFIG)] == [
        ("elastic", "elastic groups", "", False),
        ("quota_trees", "quota tree", "t", True),
        ("budgets", "budgets", "", True),
        ("fair_share", "fair shares", "", True),
    ]


def test_definitions_are_values() -> None:
    """Equal parts of a configuration give equal definitions, also in another process."""
    definitions = definitions_of(CONFIG)

    assert definitions == definitions_of(CONFIG) == pickle.loads(pickle.dumps(definitions))  # noqa: S301 - made here
    assert definitions_of(None) == definitions_of(PartitionConfig()) == ()


def test_a_budget_depends_on_the_models_that_it_limits() -> None:
    """A budget of an elastic group is made again if the groups change, and one of a queue is not."""
    before = definitions_of(CONFIG)[2].content

    assert [one.setting for one in (*before.groups, *before.trees)] == ["elastic"]


@pytest.mark.parametrize(
    ("declared", "loaded"),
    [
        ("elastic: {groups: [{name: ml, max: {gpu: 4}}]}", {"elastic"}),
        ("budgets: [{name: b, amounts: {gpu: 8}}]", {"budgets"}),
        pytest.param("fairshare: {defaultshares: 1}", {"fairness"}, marks=pytest.mark.ci),
    ],
)
def test_only_declared_kinds_are_loaded(declared: str, loaded: set[str]) -> None:
    """The module of a kind is imported when a configuration declares such a model."""
    assert loaded_by(f"partitions: [{{queues: [{{name: prod}}], ugm: {{{declared}}}}}]") == loaded


def test_parts_and_rules_of_every_kind() -> None:
    """Each kind shows its parts in comparisons, and a valid configuration breaks none of its rules."""
    parts = [kind for one in definitions_of(CONFIG) for (kind, _), _ in one.parts()]

    assert set(parts) == {"settings", "elastic group", "quota node", "budget"}
    assert list(declared_findings(CONFIG)) == []
    assert list(unmapped_queues(CONFIG)) == list(unmapped_queues(None)) == []


def test_uses_of_unknown_models() -> None:
    """The report of a model that the program has added describes no known limits."""
    assert list(reported_uses("Licences", {"accounts": 7})) == []
    assert list(reported_uses("FairShares", {})) == []


def test_documents_have_formats() -> None:
    """Each module of documents defines a format."""
    for module in DOCUMENT_MODULES.values():
        assert isinstance(import_module(module).FORMAT, DocumentFormat)


def test_trees_with_one_name() -> None:
    """Two quota trees with the same name cannot be defined."""
    tree = QuotaTreeConfig(tree=QuotaTreeDocument("t", nodes=(QuotaNodeConfig("root"),)))
    with pytest.raises(RequestError) as caught:
        definitions_of(PartitionConfig(ugm=Extensions(quota_trees=(tree, tree))))

    assert str(caught.value) == "config 't': two quota trees have this name"


def test_a_kind_says_what_it_lacks() -> None:
    """A kind defines its models and their rules; queues without a group and uses of limits are optional."""
    kind = ModelKind()
    for call in (
        lambda: kind.definitions(CONFIG, ()),
        lambda: kind.build(None),
        lambda: kind.parts(definitions_of(CONFIG)[0]),
        lambda: kind.findings(CONFIG),
    ):
        with pytest.raises(NotImplementedError):
            call()
    assert (kind.unmapped_queues(CONFIG), kind.uses({})) == ((), ())
