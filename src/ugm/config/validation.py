"""The rules of a configuration as a whole: of the document, of partitions and of placement, and their application.

Each rule is one function; its docstring states the rule and its source. `ugm.queues` compiles the placement rules and
rejects invalid ones; this module reports its errors at their places and adds the checks that need the queues of the
configuration.

Warnings about a valid configuration that probably does not work as intended.

*Properties of queues.* Apache YuniKorn accepts any property, and uses the default for a value that it does not know.

*Amounts in the units of Apache YuniKorn before version 1.0.* Those files count memory in units of 10^6 bytes and
``vcore`` in thousandths, without suffixes. Today the same numbers are bytes and cores, so a limit of memory denies
nearly everything, and one of cores nothing. A mapping is reported if it has at least 1,000 cores and less than 100 kB
of memory for each of them, and its numbers are plausible in the old units.

*Resource names that are probably misspelt.* The names of resources are free, so ``max: {cpu: 8, Memory: 4Gi}`` is
valid. But no request names these resources, so the limit has no effect, and no error says so. A name is reported if it
differs by one edit from a known name: a letter added, left out or replaced, or two letters swapped. It is also reported
if it resembles a known name, or one that the configuration uses more often or earlier (see
`ugm.configuration.resource_names`). Names in the list of known names are never reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple, TypeVar

from ugm._documents.loader import MAX_DEPTH
from ugm.config.located import LocatedPartition, LocatedQueue, invalid_name_reason, normal_form
from ugm.config.queue_rules import LIMIT_RULES, QUEUE_RULES, SCHEDULE_RULES, guaranteed_fits_above
from ugm.configuration import ChildTemplate, FilterConfig, PlacementRule, QueueConfig, SchedulerConfig
from ugm.configuration.fields import ConfigValue, field_shapes
from ugm.configuration.model_kinds import declared_findings, definitions_of, unmapped_queues
from ugm.configuration.resource_names import (
    family_names,
    is_one_edit,
    is_slip,
    listed_resources,
    nearest,
    resembles,
    resource_vectors,
    stem,
    unlisted,
    unlisted_resources,
)
from ugm.configuration.scheduler import Finding, Path, threshold_findings
from ugm.errors import RequestError, cut, quote
from ugm.identity import MAX_NAME, ROOT
from ugm.queues import PlacementRules
from ugm.queues.placement import Filter, finder, is_pattern
from ugm.queues.tree import QueueSpecs
from ugm.resources import MEMORY, VCORE, Resource, format_amount, is_resource_name
from ugm.tracking.limits import Limits

#: In thousandths.
_LEAST_CORES: Final = 1_000_000
_LEAST_MEMORY: Final = 100
#: In the old unit, 10 PB.
_LARGEST_MEMORY: Final = 10**10
#: In bytes for each core.
_MOST_MEMORY: Final = 100_000
_OLD_UNIT: Final = 10**6


def old_units(config: SchedulerConfig) -> Iterator[Finding]:
    """Yield a warning for the first amounts that look like those of old files."""
    vectors = resource_vectors(config)
    found = [(path, amounts) for path, amounts in vectors if isinstance(amounts, Resource) and _is_old(amounts)]
    if found:
        path, amounts = found[0]
        yield Finding((*path, MEMORY), "units-old", _message(amounts, len(found)))


def _is_old(amounts: Resource) -> bool:
    vcore, memory = amounts.get(VCORE, 0), amounts.get(MEMORY, 0)
    return vcore >= _LEAST_CORES and _LEAST_MEMORY <= memory <= _LARGEST_MEMORY and memory * 1000 < _MOST_MEMORY * vcore


def _message(amounts: Resource, count: int) -> str:
    vcore, memory = amounts[VCORE] // 1000, amounts[MEMORY]
    places = f" (in {count} places)" if count > 1 else ""
    old_memory, old_vcore = format_amount(MEMORY, memory * _OLD_UNIT), format_amount(VCORE, vcore)
    return (
        f"memory {memory} is {memory:,} bytes and vcore {vcore} is {vcore:,} cores{places}; "
        f"before version 1.0 of Apache YuniKorn, the same numbers meant {old_memory} and {old_vcore} cores"
    )


#: The maximum number of warnings.
MAX_WARNINGS: Final = 100
_STANDARD: Final = (VCORE, MEMORY, "pods")
#: The maximum number of names of a configuration with which each name is compared: those with the most uses.
_MOST_COMPARED: Final = 100


class _Use(NamedTuple):
    """The first use of a resource name, and the number of its uses."""

    path: Path
    times: int


def misspelt_resources(config: SchedulerConfig, known: Iterable[str] = ()) -> Iterator[Finding]:
    """Yield a warning for each resource name that is probably misspelt, at its first use.

    A name is compared with known ones, and with those that the configuration uses most.

    Args:
        config: the configuration.
        known: names that are correct, for example the resources of a cluster.
    """
    uses: dict[str, _Use] = {}
    for path, amounts in resource_vectors(config):
        for name in amounts:
            first, times = uses.get(name, _Use((*path, name), 0))
            uses[name] = _Use(first, times + 1)
    listed = (name for one in config.partitions for name in (*one.ugm.resources, *family_names(one.ugm)))
    right = dict.fromkeys((*_STANDARD, *known, *listed))
    ranked = sorted((name for name in uses if name not in right), key=lambda name: -uses[name].times)[:_MOST_COMPARED]
    for name, use in uses.items():
        intended = None if name in right else _intended(name, right, ranked, uses)
        if intended is not None:
            places = f" (in {use.times} places)" if use.times > 1 else ""
            message = f"the resource {quote(name)} is probably misspelt{places}: did you mean {quote(intended)}?"
            yield Finding(use.path, "resource-name-misspelt", message)


def _intended(name: str, right: Iterable[str], ranked: Iterable[str], uses: Mapping[str, _Use]) -> str | None:
    """Return the name that was probably intended; None if the name is probably correct."""
    for other in right:
        if is_one_edit(name, other) or resembles(name, other):
            return other
    for other in ranked:
        if other == name:
            break
        is_same = stem(name) == stem(other) and resembles(name, other)
        if is_same or (uses[other].times > uses[name].times and is_slip(name, other)):
            return other
    return None


_POLICY: Final = "application.sort.policy"
#: The similarity of a misspelt property: high, because a scheduler may have properties of its own.
_SIMILAR: Final = 0.8


@cache
def _known() -> tuple[Mapping[str, str], tuple[Callable[[str, str], bool], ...]]:
    """Return the allowed values of each property, in words, and the functions that check a value."""
    # Few configurations have properties.
    from ugm.ordering import sort_settings  # noqa: PLC0415 - as above
    from ugm.preemption import settings  # noqa: PLC0415 - as above

    words = {**sort_settings.PROPERTIES, **settings.PROPERTIES}
    return words, (sort_settings.is_valid_value, settings.is_valid_value)


def property_warnings(config: SchedulerConfig) -> Iterator[Finding]:
    """Yield a warning for each property with an unknown value, a misspelt name, or without the shares it needs."""
    for index, partition in enumerate(config.partitions):
        for path, queue in _queues(partition, ("partitions", index)):
            for name, value in queue.properties.items():
                place, (words, checks) = (*path, "properties", name), _known()
                if name not in words:
                    yield from _misspelt(name, place)
                elif not all(is_valid(name, value) for is_valid in checks):
                    message = f"{quote(value)} is unknown, so the default is used (allowed: {words[name]})"
                    yield Finding(place, "queue-property-unknown", message)
                elif name == _POLICY and value.lower() == "share" and partition.ugm.fair_share is None:
                    message = "the partition has no shares of users, so 'fifo' is used (required: fairshare, below ugm)"
                    yield Finding(place, "fairshare-missing", message)


def _misspelt(name: str, place: Path) -> Iterator[Finding]:
    intended = nearest(name, _known()[0], similar=_SIMILAR)
    if intended is not None:
        message = f"the property {quote(name)} is probably misspelt: did you mean {quote(intended)}?"
        yield Finding(place, "queue-property-misspelt", message)


def _queues(value: object, path: Path) -> Iterator[tuple[Path, QueueConfig | ChildTemplate]]:
    """Yield the queues and templates in a part of a configuration."""
    if isinstance(value, ConfigValue):
        if isinstance(value, (QueueConfig, ChildTemplate)):
            yield path, value
        for shape in field_shapes(type(value)):
            yield from _queues(getattr(value, shape.name), (*path, shape.yaml_name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _queues(item, (*path, index))


def queues_without_group(config: SchedulerConfig) -> Iterator[Finding]:
    """Yield a warning for each queue in which a declared quota model denies every request."""
    for index, partition in enumerate(config.partitions):
        found = list(unmapped_queues(partition))
        if found:
            root = LocatedPartition(partition, ("partitions", index)).root
            places = {located.queue_path: located.path for located in root.walk()}
            for one in found:
                yield Finding((*places[one.queue_path], "name"), "queue-without-group", str(one))


#: The number of characters that a message shows of a queue path.
_LONGEST_PATH: Final = 1000
#: The rule whose queue is known without a submission.
_FIXED: Final = "fixed"
#: A rule or its filter.
_Part = TypeVar("_Part", PlacementRule, FilterConfig)


class _Rule(NamedTuple):
    rule: PlacementRule
    path: Path


def _chain(rule: PlacementRule, path: Path) -> list[_Rule]:
    """Return a rule and its parents, the outermost first: the order of their names in a queue path."""
    chain: list[_Rule] = []
    at: PlacementRule | None = rule
    while at is not None:
        chain.append(_Rule(at, path))
        at, path = at.parent, (*path, "parent")
    return chain[::-1]


def _chains(located: LocatedPartition) -> Iterator[list[_Rule]]:
    for index, rule in enumerate(located.partition.placement_rules):
        yield _chain(rule, (*located.path, "placementrules", index))


def _rules(located: LocatedPartition) -> Iterator[_Rule]:
    for chain in _chains(located):
        yield from chain


def placement_rule_can_be_used(located: LocatedPartition) -> Iterator[Finding]:
    """A rule can be compiled: its name is known, and its value and its filter are valid.

    Source: Apache YuniKorn, placement rules, "Configuration", "Fixed rule", "Tag rule" and "Filter".
    """
    for rule, path in _rules(located):
        if error := _refusal(finder, rule):
            yield _wrong_rule(rule, path, error)
        # Compile each part of the filter separately, so that all problems are reported.
        for part in _parts(rule.filter):
            if error := _refusal(Filter.compile, part):
                yield _wrong_filter(path, error)


def _refusal(compile_part: Callable[[_Part, str], object], part: _Part) -> RequestError | None:
    """Compile a part of a rule; return the error, or None."""
    try:
        compile_part(part, "")
    except RequestError as error:
        return error
    return None


def _wrong_rule(rule: PlacementRule, path: Path, error: RequestError) -> Finding:
    if error.argument == ".name":
        message = f"{quote(rule.name)}: {error.reason}"
        return Finding((*path, "name"), "placement-rule-name-invalid", message)
    at = (*path, "value")
    if not rule.value:
        return Finding(path, "placement-value-missing", error.reason, (at,))
    code = "placement-qualified-below-rule" if rule.parent and _is_qualified(rule.value) else "placement-value-invalid"
    return Finding(at, code, f"{quote(rule.value)}: {error.reason}")


def _wrong_filter(path: Path, error: RequestError) -> Finding:
    part = error.argument.removeprefix(".")
    at = (*path, "filter", part) if part == "type" else (*path, "filter", part, 0)
    return Finding(at, f"placement-filter-{part}-invalid", f"{quote(str(error.value))}: {error.reason}")


def _parts(filter_config: FilterConfig) -> Iterator[FilterConfig]:
    if filter_config.type:
        yield FilterConfig(type=filter_config.type)
    if filter_config.users:
        yield FilterConfig(users=filter_config.users)
    if filter_config.groups:
        yield FilterConfig(groups=filter_config.groups)


def placement_filter_names_are_valid(located: LocatedPartition) -> Iterator[Finding]:
    """A single entry of a filter list is a valid name or a regular expression.

    Among several entries, invalid names are accepted, because the scheduler ignores them.

    Source: Apache YuniKorn, placement rules, "Filter".
    """
    for kind, field, name, path in _single_names(located):
        if is_pattern([name]) or len(name) > MAX_NAME:
            continue
        if reason := invalid_name_reason(kind, name, located.partition.ugm.names):
            yield Finding(path, f"placement-filter-{field}-invalid", f"{reason}, and not a regular expression")


def _single_names(located: LocatedPartition) -> Iterator[tuple[str, str, str, Path]]:
    """Yield each name that is alone in a list of a filter: its kind, the field, the name and its path."""
    for rule, path in _rules(located):
        for kind, field, names in (("user", "users", rule.filter.users), ("group", "groups", rule.filter.groups)):
            if len(names) == 1:
                yield kind, field, names[0], (*path, "filter", field, 0)


def placement_queue_can_be_used(located: LocatedPartition) -> Iterator[Finding]:
    """The queue of a ``fixed`` rule exists or may be created. It is a leaf, or a parent if other rules add names.

    Source: Apache YuniKorn, placement rules, "Fixed rule".
    """
    queues = (*located.path, "queues")
    for chain in _chains(located):
        fixed = _fixed_part(chain)
        if not fixed or not all(rule.value for rule, _ in fixed) or any(_is_qualified(r.value) for r, _ in fixed[1:]):
            continue
        names = ".".join(rule.value.lower() for rule, _ in fixed).split(".", MAX_DEPTH)
        if names[0] != ROOT:
            names.insert(0, ROOT)
        found = _misplaced(located.root, names, create=chain[-1].rule.create, adds=len(fixed) < len(chain))
        if found:
            path = (*fixed[-1].path, "value")
            yield Finding(path, *found, (queues, *((*at, "value") for _, at in fixed)))


def _misplaced(root: LocatedQueue, names: list[str], *, create: bool, adds: bool) -> tuple[str, str] | None:
    """Follow a path from the root; return the code and the message if its queue cannot be used, else None."""
    above, wanted = root, cut(".".join(names), _LONGEST_PATH)
    for depth, name in enumerate(names[1:], start=1):
        if not above.queue.parent:
            leaf = cut(".".join(names[:depth]), _LONGEST_PATH)
            return "placement-below-leaf", f"the queue {wanted} cannot exist: {leaf} is a leaf"
        below = above.child(name)
        if below is None:
            return (
                None
                if create
                else ("placement-queue-missing", f"the queue {wanted} does not exist, and the rule does not create it")
            )
        above = below
    if adds and not above.queue.parent:
        return "placement-queue-not-parent", f"other rules add names to {wanted}, which is a leaf"
    if not adds and above.queue.parent:
        return "placement-queue-not-leaf", f"the rule places applications in {wanted}, which is not a leaf"
    return None


def _fixed_part(chain: list[_Rule]) -> list[_Rule]:
    """Return the ``fixed`` rules at the beginning of a chain, whose queue is known without a submission."""
    for position, (rule, _) in enumerate(chain):
        if rule.name.lower() != _FIXED:
            return chain[:position]
    return chain


def _is_qualified(value: str) -> bool:
    return value.lower().partition(".")[0] == ROOT


PLACEMENT_RULES: Final[tuple[Callable[[LocatedPartition], Iterator[Finding]], ...]] = (
    placement_rule_can_be_used,
    placement_filter_names_are_valid,
    placement_queue_can_be_used,
)
_WITHOUT_LIMITS: Final = (*QUEUE_RULES, *SCHEDULE_RULES)
_WITH_LIMITS: Final = (*_WITHOUT_LIMITS, *LIMIT_RULES)
_NODE_SORT_POLICIES: Final = ("", "fair", "binpacking")


def find_problems(config: SchedulerConfig) -> Iterator[Finding]:
    """Apply every rule to a configuration."""
    yield from partitions_exist(config)
    yield from partition_names_differ(config)
    for index, partition in enumerate(config.partitions):
        located = LocatedPartition(partition, ("partitions", index))
        for rule in PARTITION_RULES:
            yield from rule(located)
        yield from guaranteed_fits_above(located.root)
        for queue in located.root.walk():
            for queue_rule in _WITH_LIMITS if queue.queue.limits else _WITHOUT_LIMITS:
                yield from queue_rule(queue)


def partitions_can_be_used(config: SchedulerConfig) -> Iterator[Finding]:
    """A partition can compile the configuration.

    The other rules report the known reasons why it cannot, each at its place. This rule compiles the configuration, so
    that it finds all other reasons as well.
    """
    for index, partition in enumerate(config.partitions):
        try:
            Limits.compile(partition)
            definitions_of(normal_form(partition))
            QueueSpecs.compile(partition.root)
            PlacementRules(partition.placement_rules)
        except RequestError as error:
            yield Finding(("partitions", index), "partition-unusable", f"the partition cannot be used: {error}")


def partitions_exist(config: SchedulerConfig) -> Iterator[Finding]:
    """There is at least one partition.

    A document without partitions is more likely the wrong file than the wish to remove all limits. Apache YuniKorn
    accepts it.

    Source: Apache YuniKorn, partition and queue configuration, "Partitions".
    """
    if not config.partitions:
        yield Finding(("partitions",), "partitions-missing", "there is no partition (required: at least one)")


def partition_names_differ(config: SchedulerConfig) -> Iterator[Finding]:
    """No two partitions have the same name (case-insensitive).

    Source: Apache YuniKorn, partition and queue configuration, "Partitions".
    """
    first: dict[str, int] = {}
    for index, partition in enumerate(config.partitions):
        earlier = first.setdefault(partition.name, index)
        if earlier != index:
            message = f"the partition {quote(partition.name)} already exists (partitions[{earlier}])"
            path = ("partitions", index, "name")
            yield Finding(path, "partition-name-duplicate", message, (path, ("partitions", earlier, "name")))


def partition_name_is_short(located: LocatedPartition) -> Iterator[Finding]:
    """The name of a partition has at most 256 characters, like all names."""
    length = len(located.partition.name)
    if length > MAX_NAME:
        message = f"the name of the partition has {length} characters (allowed: up to {MAX_NAME})"
        yield Finding((*located.path, "name"), "partition-name-too-long", message)


def partition_has_queues(located: LocatedPartition) -> Iterator[Finding]:
    """A partition lists its queues, even if there are none below the root.

    Source: Apache YuniKorn, partition and queue configuration, "Queues".
    """
    if located.partition.queues is None:
        yield Finding(
            (*located.path, "queues"), "queues-missing", "the partition has no list of queues (allowed: an empty list)"
        )


def root_has_no_resources(located: LocatedPartition) -> Iterator[Finding]:
    """The root queue sets no resources, because its maximum is the sum of the nodes. An empty mapping counts as set.

    Source: Apache YuniKorn, resource quota management, on the quota of the root queue.
    """
    if located.partition.root_inserted:
        return
    resources = located.partition.root.resources
    path = (*located.path, "queues", 0, "resources")
    message = "the root queue must not set resources: its maximum is the sum of the nodes"
    for name, amounts in (("guaranteed", resources.guaranteed), ("max", resources.max)):
        if amounts is not None:
            yield Finding((*path, name), "root-has-resources", message)


def partition_limits_are_root_limits(located: LocatedPartition) -> Iterator[Finding]:
    """Limits of the partition and of the root queue are the same setting, and are equal if both are given.

    Quantities are compared by amount, so 1Gi equals 1024Mi; order and descriptions count.

    Source: Apache YuniKorn, user based quota enforcement, "Generic behaviour".
    """
    if located.partition.root_inserted:
        return
    limits, root_limits = located.partition.limits, located.partition.root.limits
    if limits and limits != root_limits:
        path = (*located.path, "limits")
        message = "the limits of the partition and those of its root queue are both given and differ"
        sources = (path, (*located.path, "queues", 0, "limits"))
        yield Finding(path, "partition-limits-differ", message, sources)


def node_sort_policy_is_known(located: LocatedPartition) -> Iterator[Finding]:
    """Nodes are sorted ``fair`` or ``binpacking``.

    Source: Apache YuniKorn, sorting policies, "Node sorting".
    """
    policy = located.partition.node_sort_policy.type
    if policy not in _NODE_SORT_POLICIES:
        message = f"unknown node sort policy {quote(policy)} (allowed: 'fair', 'binpacking')"
        yield Finding((*located.path, "nodesortpolicy", "type"), "node-sort-policy-unknown", message)


def node_sort_weights_are_not_negative(located: LocatedPartition) -> Iterator[Finding]:
    """The weight of a resource is 0 or more.

    Source: Apache YuniKorn, sorting policies, "Node sorting".
    """
    for name, weight in located.partition.node_sort_policy.resource_weights.items():
        if weight < 0:
            path = (*located.path, "nodesortpolicy", "resourceweights", name)
            yield Finding(
                path, "node-sort-weight-negative", f"the weight of {quote(name)} is {weight:g} (allowed: 0 or more)"
            )


def listed_resources_have_names(located: LocatedPartition) -> Iterator[Finding]:
    """Every name in the list of resources is a name of a resource, and occurs once."""
    listed = located.partition.ugm.resources
    for at, name in enumerate(listed):
        path = (*located.path, "ugm", "resources", at)
        if not is_resource_name(name):
            message = f"{quote(name)} is not a valid resource name (allowed: 1 to 256 characters without white space)"
            yield Finding(path, "resource-name-invalid", message)
        elif name in listed[:at]:
            yield Finding(path, "resource-duplicate", f"the resource {quote(name)} is listed twice")


def resources_are_listed(located: LocatedPartition) -> Iterator[Finding]:
    """If a partition lists its resources, its limits and weights name no others."""
    source = (*located.path, "ugm", "resources")
    for path, name in unlisted_resources(located.partition):
        place = (*located.path, *path)
        yield Finding(
            place, "resource-unlisted", unlisted(name, listed_resources(located.partition.ugm)), (place, source)
        )


def families_are_valid(located: LocatedPartition) -> Iterator[Finding]:
    """Families and their variants have valid names, and all named variants are declared."""
    queues = (queue for _, queue in located.partition.root.walk())
    settings = (one for queue in queues for one in (queue.ugm, *(limit.ugm for limit in queue.limits)))
    if located.partition.ugm.families or any(one.prefer for one in settings):
        from ugm.configuration.family_rules import family_findings  # noqa: PLC0415 - few configurations have families

        yield from (found.below(located.path) for found in family_findings(located.partition))


def declared_models_are_valid(located: LocatedPartition) -> Iterator[Finding]:
    """The declared quota models obey the rules of their kinds; see `ugm.configuration.model_kinds`."""
    return (found.below(located.path) for found in declared_findings(normal_form(located.partition)))


def thresholds_are_valid(located: LocatedPartition) -> Iterator[Finding]:
    """Thresholds are percentages that differ, and their hysteresis is less than the smallest of them."""
    path = (*located.path, "ugm", "thresholds")
    return (found.below(path) for found in threshold_findings(located.partition.ugm.thresholds))


PARTITION_RULES: Final[tuple[Callable[[LocatedPartition], Iterator[Finding]], ...]] = (
    partition_name_is_short,
    partition_has_queues,
    root_has_no_resources,
    partition_limits_are_root_limits,
    node_sort_policy_is_known,
    node_sort_weights_are_not_negative,
    listed_resources_have_names,
    resources_are_listed,
    families_are_valid,
    *PLACEMENT_RULES,
    declared_models_are_valid,
    thresholds_are_valid,
)
