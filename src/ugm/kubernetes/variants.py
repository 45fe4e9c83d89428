"""Variants of a resource, such as models of GPUs, from the labels of nodes.

Kubernetes counts ``nvidia.com/gpu`` of all models together. The model is a label of the node, which a pod can require.
Rules map labels to variants: ``{"nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB": "nvidia.com/gpu:a100"}``. An amount of
a known variant is counted for the family and for the variant; see `ugm.families`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

from ugm.arguments import require_mapping
from ugm.errors import RequestError
from ugm.families import SEPARATOR, family_name
from ugm.kubernetes.manifests import Fields, read_manifest
from ugm.resources import Resource

__all__ = ["NOTHING", "node_offers", "require_variants", "required_values", "with_variants"]

#: No rules, or no labels.
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_AFFINITY: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def node_offers(manifest: Mapping[str, object], variants: Mapping[str, str] = NOTHING) -> Resource:
    """Return the allocatable amounts of a node.

    Args:
        manifest: the node.
        variants: the variant for each label of nodes, as ``label=value``.

    Raises:
        ManifestError: the manifest has another kind, an amount is invalid, or no label names the variant of an amount.
        RequestError: a label or a variant is invalid.

    >>> node = {"metadata": {"labels": {"model": "T4"}}, "status": {"allocatable": {"gpu": 8}}}
    >>> node_offers(node, {"model=T4": "gpu:t4"})
    Resource({'gpu': 8, 'gpu:t4': 8})
    """
    node = read_manifest(manifest, "Node")
    metadata, labels = node.mapping("metadata"), node.at(("metadata", "labels"))
    allocatable = node.at(("status", "allocatable")).amounts()
    offers = with_variants(allocatable, variants, lambda label: {labels.text(label)} - {None})
    for family in {family_name(variant) for variant in variants.values()}:
        if offers.get(family) and not any(name.startswith(f"{family}{SEPARATOR}") for name in offers):
            raise metadata.error("labels", f"expected one of those that name variants of {family}")
    return offers


def with_variants(
    amounts: Resource, variants: Mapping[str, str], values_of: Callable[[str], Collection[object]]
) -> Resource:
    """Return amounts with those of variants: if all possible values of the labels of a family stand for one variant.

    Args:
        amounts: the amounts.
        variants: the variant for each label, as ``label=value``.
        values_of: returns the possible values of a label; none if all are possible.

    Raises:
        RequestError: a label or a variant is invalid.
    """
    families, found = dict[str, dict[str, str]](), dict(amounts)
    for selector, variant in require_variants(variants).items():
        families.setdefault(family_name(variant), {})[selector] = variant
    for family, rules in families.items():
        labels = {selector.partition("=")[0] for selector in rules}
        possible = {rules.get(f"{label}={value}") for label in labels for value in values_of(label)}
        name = possible.pop() if len(possible) == 1 and family in amounts else None
        if name is not None:
            found[name] = amounts[family]
    return Resource(found)


def require_variants(variants: object) -> dict[str, str]:
    """Return rules, after checking that each maps a label with its value to a variant.

    Raises:
        RequestError: one does not.
    """
    rules = require_mapping("variants", variants)
    for selector, variant in rules.items():
        if type(selector) is not str or not all(selector.partition("=")):
            raise RequestError("variants", selector, "expected label=value")
        if type(variant) is not str or not all(variant.partition(SEPARATOR)):
            raise RequestError("variants", variant, f"expected family{SEPARATOR}variant")
    return rules


def required_values(spec: Fields, label: str) -> set[str]:
    """Return the values of a label that the node of a pod must have; empty if other values are possible.

    Raises:
        ManifestError: the node selector or the affinity is invalid.
    """
    selected = spec.mapping("nodeSelector").text(label)
    if selected is not None:
        return {selected}
    found: set[str] = set()
    # A node has to fit one of the terms.
    for term in spec.at(_AFFINITY).mappings("nodeSelectorTerms"):
        values = [_values(one) for one in term.mappings("matchExpressions") if one.text("key") == label]
        if not any(values):
            return set()
        found |= next(filter(None, values))
    return found


def _values(expression: Fields) -> set[str]:
    """Return the values that an expression allows; empty for an expression without a list of them."""
    values = expression.values.get("values") if expression.text("operator") == "In" else []
    if not isinstance(values, list | tuple) or not all(type(value) is str for value in values):
        raise expression.error("values", "expected a list of texts")
    return set(values)
