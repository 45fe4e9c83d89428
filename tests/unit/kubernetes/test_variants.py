"""Variants of resources from the labels of nodes: what nodes offer, and what pods request."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ugm import RequestError, Resource
from ugm.kubernetes import ManifestError, node_offers, pod_usage, read_pod

GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"
VARIANTS: Final = {f"{PRODUCT}=SXM4": f"{GPU}:a100", f"{PRODUCT}=PCIe": f"{GPU}:a100", f"{PRODUCT}=V100": f"{GPU}:v100"}
ANY: Final = Resource({GPU: 2})
A100: Final = Resource({GPU: 2, f"{GPU}:a100": 2})


def pod(**spec: object) -> dict[str, Any]:
    """Return a pod with two GPUs."""
    return {"spec": {"containers": [{"resources": {"limits": {GPU: 2}}}], **spec}}


def requiring(*terms: list[dict[str, object]]) -> dict[str, Any]:
    """Return a pod with a required affinity: each term is a list of expressions."""
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


def one_of(*values: str, key: str = PRODUCT, operator: str = "In") -> dict[str, object]:
    """Return an expression."""
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    "manifest",
    [
        pod(nodeSelector={PRODUCT: "SXM4", "zone": "a"}),
        requiring([one_of("SXM4")]),
        requiring([one_of("SXM4", "PCIe")]),
        requiring([one_of("SXM4"), one_of("a", key="zone")], [one_of("PCIe")]),
    ],
)
def test_a_pod_that_needs_one_model_requests_the_variant(manifest: dict[str, Any]) -> None:
    """Several values, or terms, may stand for the same variant."""
    assert pod_usage(manifest, VARIANTS) == A100
    assert read_pod(manifest, variants=VARIANTS).usage == A100
    assert pod_usage(manifest) == ANY


@pytest.mark.parametrize(
    "manifest",
    [
        pod(),
        pod(nodeSelector={"zone": "SXM4"}),
        pod(nodeSelector={PRODUCT: "T4"}),
        requiring(),
        requiring([one_of("SXM4", "V100")]),
        requiring([one_of("SXM4")], [one_of("V100")]),
        requiring([one_of("SXM4")], [one_of("a", key="zone")]),
        requiring([one_of("SXM4", operator="Gt")]),
        requiring([{"key": PRODUCT, "operator": "Exists"}]),
    ],
)
def test_other_pods_request_any_variant(manifest: dict[str, Any]) -> None:
    """So do pods with a value for which there is no rule."""
    assert pod_usage(manifest, VARIANTS) == ANY


def test_a_running_pod_uses_the_variant_of_its_node() -> None:
    """The labels of the node count for pods that do not request a variant."""
    assert pod_usage(pod(), VARIANTS, {PRODUCT: "PCIe"}) == A100
    assert pod_usage(pod(nodeSelector={PRODUCT: "SXM4"}), VARIANTS, {PRODUCT: "V100"}) == A100
    assert pod_usage(pod(), VARIANTS, {PRODUCT: "T4", "zone": "a"}) == ANY


def test_a_label_may_stand_for_variants_of_several_resources() -> None:
    """Each value of it belongs to one of them."""
    rules, manifest = {"model=x": "card:x", "model=y": f"{GPU}:y"}, pod(nodeSelector={"model": "x"})

    assert pod_usage(manifest, rules) == ANY
    assert pod_usage(manifest, {"model=x": f"{GPU}:x"}) == Resource({GPU: 2, f"{GPU}:x": 2})


def test_a_node_offers_its_variant() -> None:
    """The label of the node names it; other resources stay."""
    node = {
        "kind": "Node",
        "metadata": {"labels": {PRODUCT: "V100"}},
        "status": {"allocatable": {GPU: "8", "cpu": "4"}},
    }

    assert node_offers(node, VARIANTS) == Resource({GPU: 8, f"{GPU}:v100": 8, "vcore": 4000})
    assert node_offers(node) == Resource({GPU: 8, "vcore": 4000})
    assert node_offers({"status": {"allocatable": {"cpu": "4"}}}, VARIANTS) == Resource(vcore=4000)
    # No limit of a variant would count its GPUs.
    with pytest.raises(ManifestError, match=r"metadata.labels .*: expected one of those that name variants of nvidia"):
        node_offers({"metadata": {"labels": {PRODUCT: "T4"}}, "status": {"allocatable": {GPU: 8}}}, VARIANTS)


@pytest.mark.parametrize("expression", [one_of() | {"values": "SXM4"}, one_of() | {"values": [1]}])
def test_invalid_values_are_errors(expression: dict[str, object]) -> None:
    """The error names the place."""
    with pytest.raises(ManifestError, match=r"nodeSelectorTerms\[0\].matchExpressions\[0\].values .*list of texts"):
        pod_usage(requiring([expression]), VARIANTS)


@pytest.mark.parametrize(
    "variants", [{PRODUCT: f"{GPU}:a100"}, {f"{PRODUCT}=SXM4": GPU}, {1: f"{GPU}:a"}, {"a=b": 1}, 1]
)
def test_invalid_rules_are_errors(variants: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """A rule maps a label with its value to a variant of a family."""
    with pytest.raises(RequestError, match=r"expected (label=value|family:variant|a mapping)"):
        pod_usage(pod(), variants)
