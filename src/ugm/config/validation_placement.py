"""Validation of placement rules: each rule can be compiled, and the queue of a ``fixed`` rule can be used.

`ugm.queues` compiles the rules and rejects invalid ones; this module reports its errors at their places and adds the
checks that need the queues of the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from ugm._documents.builder import MAX_DEPTH
from ugm._documents.places import Path
from ugm.config.findings import Finding, LocatedPartition, LocatedQueue
from ugm.config.names import invalid_name_reason
from ugm.configuration import FilterConfig, PlacementRule
from ugm.errors import RequestError, cut, quote
from ugm.identity import MAX_NAME, ROOT
from ugm.queues.filters import Filter, is_pattern
from ugm.queues.pattern_syntax import MAX_LENGTH
from ugm.queues.patterns import compile_pattern
from ugm.queues.placement_rules import finder

__all__ = ["PLACEMENT_RULES", "placement_patterns_are_short"]

#: The maximum number of characters of all patterns together, after repetitions are expanded: each takes time and
#: memory.
_MAX_PATTERN_SIZE: Final = 20_000
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


def placement_patterns_are_short(located_partitions: Iterable[LocatedPartition]) -> Iterator[Finding]:
    """The regular expressions of all filters have at most 20,000 characters; with more, no other rule is checked.

    Repetitions count as if they were written out. The bound protects ugm; Apache YuniKorn has none.
    """
    total = 0
    for located in located_partitions:
        for *_, name, path in _single_names(located):
            total += _size(name) if is_pattern([name]) else 0
            if total > _MAX_PATTERN_SIZE:
                limit = f"allowed: {_MAX_PATTERN_SIZE} characters"
                message = f"the patterns of all filters together are too long ({limit})"
                yield Finding(path, "placement-patterns-too-long", message)


def _size(pattern: str) -> int:
    # An invalid pattern counts as well, because detecting the error takes time.
    if len(pattern) > MAX_LENGTH:
        return 1
    try:
        return max(len(pattern), compile_pattern(pattern).size)
    except RequestError:
        return len(pattern)


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
