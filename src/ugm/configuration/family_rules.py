"""The families of a configuration: their rules, and the amounts that follow from them.

A guarantee of variants is one of the family, too, so `normal_config` adds the sums. The maximum of an elastic group has
an amount for each resource, so those that follow from others are added: a variant has at most that of its family.

Weights of variants count in place of that of the family. A usage names both, so its amounts would count twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Final

from ugm.configuration.resource_names import resource_vectors
from ugm.configuration.scheduler import (
    ROOT_GROUP,
    BudgetConfig,
    ElasticConfig,
    ElasticGroup,
    Finding,
    PartitionConfig,
    Path,
    QueueConfig,
    QueueResources,
)
from ugm.errors import RequestError, quote
from ugm.families import SEPARATOR, Families, family_name
from ugm.resources import MAX_QUANTITY, Resource, is_resource_name, sum_of

#: The fields of guarantees, in which the amount of a family must not be less than the sum of its variants.
_GUARANTEES: Final = ("guaranteed", "min", "total")


def normal_config(config: PartitionConfig) -> PartitionConfig:
    """Return a partition whose guarantees are in normal form, and whose weights count each amount once.

    The weights of the result are parts of the declared ones, so a second call would change them again.

    Raises:
        RequestError: a guarantee of a family is less than the sum of those of its variants.
    """
    if not config.ugm.families:
        return config
    config, families = normal_guarantees(config), Families(config.ugm.families)
    budgets, shares = config.ugm.budgets, config.ugm.fair_share
    settings = replace(
        config.ugm,
        budgets=tuple(replace(one, weights=_budget_weights(one, families)) for one in budgets),
        fair_share=None if shares is None else replace(shares, weights=_share_weights(shares.weights, families)),
    )
    return replace(config, ugm=settings)


def normal_guarantees(config: PartitionConfig) -> PartitionConfig:
    """Return a partition whose guarantees are in normal form.

    Raises:
        RequestError: as for `normal_config`.
    """
    families, elastic = Families(config.ugm.families), config.ugm.elastic
    root = _normal_queue(config.root, families)
    settings = config.ugm if elastic is None else replace(config.ugm, elastic=_normal_elastic(elastic, families))
    return replace(config, queues=(root,), limits=(), ugm=settings)


def _normal_queue(queue: QueueConfig, families: Families) -> QueueConfig:
    template = queue.child_template
    if template is not None:
        template = replace(template, resources=_normal_resources(template.resources, families))
    return replace(
        queue,
        resources=_normal_resources(queue.resources, families),
        child_template=template,
        queues=tuple(_normal_queue(child, families) for child in queue.queues),
    )


def _normal_resources(resources: QueueResources, families: Families) -> QueueResources:
    if resources.guaranteed is None:
        return resources
    return replace(resources, guaranteed=families.normal(resources.guaranteed, argument="guaranteed"))


def _normal_elastic(elastic: ElasticConfig, families: Families) -> ElasticConfig:
    total = None if elastic.total is None else families.normal(elastic.total, argument="total")
    return replace(elastic, total=total, groups=tuple(_normal_group(group, families) for group in elastic.groups))


def _normal_group(group: ElasticGroup, families: Families) -> ElasticGroup:
    return replace(group, min=families.normal(group.min, argument="min"), max=_implied(group.max, families))


def _implied(most: Resource, families: Families) -> Resource:
    """Return a maximum with the amounts that follow from those of families and variants."""
    amounts = dict(most)
    for family, names in families.variants.items():
        if family in most:
            amounts = {**dict.fromkeys(names, most[family]), **amounts}
        elif any(name in most for name in names):
            known = [most.get(name, MAX_QUANTITY) for name in names]
            amounts = {**amounts, **dict(zip(names, known, strict=True)), family: min(sum(known), MAX_QUANTITY)}
    return Resource(amounts)


def _normal_if_valid(elastic: ElasticConfig, families: Families) -> ElasticConfig:
    with suppress(RequestError):
        return _normal_elastic(elastic, families)
    return ElasticConfig()


def _sums_fit(elastic: ElasticConfig, families: Families) -> Iterator[Finding]:
    """The minimums of the highest elastic groups do not exceed the total, for each family and variant."""
    total = elastic.total or Resource()
    sums = sum_of(group.min for group in elastic.groups if group.parent == ROOT_GROUP or group.is_root)
    for name in (*families.variants, *families.family_of):
        if elastic.total is not None and sums.get(name, 0) > total.get(name, 0):
            amounts = f"{sums[name]} {name} guaranteed, {total.get(name, 0)} there"
            message = (
                f"the guarantees of elastic groups cannot be met: {amounts}, {sums[name] - total.get(name, 0)} missing"
            )
            yield Finding(("ugm", "elastic", "total"), "family-guarantees-unmet", message, (("ugm", "elastic"),))


def _budget_weights(budget: BudgetConfig, families: Families) -> Mapping[str, Fraction]:
    """Return weights of which those of a family and of a variant add up to the declared one of the variant.

    A variant without a weight needs none here, so a budget continues when such a variant is declared.
    """
    found = dict(budget.weights)
    for family, names in families.variants.items():
        if listed := [name for name in names if name in found]:
            # A budget of the family counts it.
            own = found.get(family, Fraction(family in budget.amounts))
            least = min(own, *(found[name] for name in listed))
            found |= {name: found.get(name, own) - least for name in (listed if least == own else names)}
            found[family] = least
    return found


def _share_weights(weights: Mapping[str, str], families: Families) -> Mapping[str, str]:
    """Return weights in which those of a family are weights of its variants. Texts need not be valid here."""
    found = dict(weights)
    for family, names in families.variants.items():
        if family in found and any(name in found for name in names):
            found = {**dict.fromkeys(names, found[family]), **found, family: "0"}
    return found


def family_findings(config: PartitionConfig) -> Iterator[Finding]:
    """Yield the violations of the rules of families, with their paths below the partition.

    A family and its variants have names without ``:``. A variant that is named anywhere is declared. Where a guarantee
    names a family and variants, its amount of the family is not less than the sum; a total of elastic groups has no
    more than the sum. Queues prefer declared variants.
    """
    yield from _name_findings(config.ugm.families)
    families = Families(config.ugm.families)
    yield from _amount_findings(config, families)
    elastic = config.ugm.elastic
    if elastic is not None and elastic.total is not None:
        yield from _sums_fit(_normal_if_valid(elastic, families), families)
    for queue_path, queue in config.root.walk():
        place = ("ugm", "families")
        for name in queue.ugm.prefer:
            if name not in families.family_of:
                yield Finding(place, "variant-unknown", f"{queue_path} prefers {quote(name)}: not declared")
        for at, limit in enumerate(queue.limits):
            if limit.ugm.prefer:
                yield Finding(place, "prefer-in-limit", f"{queue_path} limits[{at}] prefers variants: only a queue can")


def _name_findings(declared: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    for family, shorts in declared.items():
        for at, short in enumerate(shorts):
            place: Path = ("ugm", "families", family, at)
            if SEPARATOR in family or SEPARATOR in short or not is_resource_name(f"{family}{SEPARATOR}{short}"):
                yield Finding(place, "family-name-invalid", f"{quote(short)} of {quote(family)} is not a valid name")
            elif short in shorts[:at]:
                yield Finding(place, "family-duplicate", f"the variant {quote(short)} is listed twice")


def _amount_findings(config: PartitionConfig, families: Families) -> Iterator[Finding]:
    for path, amounts in resource_vectors(config):
        for name in amounts:
            if name not in families.family_of and SEPARATOR in name and families.concern({name: 0}):
                known = ", ".join(families.variants[family_name(name)])
                yield Finding((*path, name), "variant-unknown", f"{quote(name)} is not declared (declared: {known})")
        if path[-1] in _GUARANTEES and isinstance(amounts, Mapping):
            try:
                left = families.open_amounts(families.normal(Resource(amounts)))
            except RequestError as error:
                yield Finding(path, "family-sum-above", error.reason)
                continue
            for family, amount in left.items() if path[-1] == "total" else ():
                known = ", ".join(families.variants[family])
                message = f"{amount} {family} have no variant, so nothing can use them (declared: {known})"
                yield Finding(path, "family-total-open", message)
