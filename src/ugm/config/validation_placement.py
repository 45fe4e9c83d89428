"""The rules of placement rules: what a scheduler would refuse to start with, or never be able to obey."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from ugm.config.findings import Finding, PartitionSpot, QueueSpot
from ugm.config.loader import MAX_DEPTH
from ugm.config.places import Path, cut
from ugm.config.scalars import quote
from ugm.config.schema import PlacementRule
from ugm.config.validation_limits import GROUP_NAME, USER_NAME
from ugm.identity import ROOT

__all__ = ["PLACEMENT_RULES", "placement_patterns_are_short"]

_RULE_NAME: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9_]*")
_FILTER_TYPES: Final = ("", "allow", "deny")
#: One of these makes a text a pattern and not a name that is misspelt.
_PATTERN_SIGN: Final = re.compile(r"[\^$*+?()\[{}|]")
#: What the peer's patterns do not have, because it cannot be matched in linear time.
_BACKTRACKING: Final = re.compile(r"\(\?(?:[=!>(#]|<[=!]|P[=>])|\\[1-9]")
#: Sets within sets, which the peer reads in another way.
_NESTED_SET: Final = re.compile(r"(?<!\\)\[(?:[^\]\\]|\\.)*?(?:\[|--|&&|~~|\|\|)")
_LONGEST_PATTERN: Final = 1000
#: What Python's patterns have and the peer's do not: other characters than those of names, by their number.
_NUMBERED: Final = re.compile(r"\\[uUN]")
#: The most characters that all patterns have together: to compile one takes microseconds for each.
_MOST_PATTERNS: Final = 100_000
#: How much of the path of a queue a sentence shows.
_LONGEST_PATH: Final = 1000
#: The rule whose queue is known from the configuration alone.
_FIXED: Final = "fixed"
#: Rules that say nothing without a value.
_WITH_VALUE: Final = (_FIXED, "tag")


class _Rule(NamedTuple):
    rule: PlacementRule
    path: Path


def _chain(rule: PlacementRule, path: Path) -> list[_Rule]:
    """Return a rule and its parents, the outermost first: the order in which they add to a queue path."""
    chain: list[_Rule] = []
    at: PlacementRule | None = rule
    while at is not None:
        chain.append(_Rule(at, path))
        at, path = at.parent, (*path, "parent")
    return chain[::-1]


def _chains(spot: PartitionSpot) -> Iterator[list[_Rule]]:
    for index, rule in enumerate(spot.partition.placement_rules):
        yield _chain(rule, (*spot.path, "placementrules", index))


def placement_rule_name_is_valid(spot: PartitionSpot) -> Iterator[Finding]:
    """The name of a placement rule is an identifier.

    Source: Apache YuniKorn, placement rules, "Configuration".
    """
    for chain in _chains(spot):
        for rule, path in chain:
            if not _RULE_NAME.fullmatch(rule.name):
                message = f"{quote(rule.name)} is no name of a placement rule: letters, digits and _"
                yield Finding((*path, "name"), "placement-rule-name-invalid", message)


def placement_rule_has_value(spot: PartitionSpot) -> Iterator[Finding]:
    """A ``fixed`` rule has a queue, and a ``tag`` rule a tag, as its value.

    Source: Apache YuniKorn, placement rules, "Fixed rule" and "Tag rule".
    """
    for chain in _chains(spot):
        for rule, path in chain:
            if rule.name.lower() in _WITH_VALUE and not rule.value:
                message = f"the placement rule {rule.name} needs a value"
                yield Finding(path, "placement-value-missing", message, ((*path, "value"),))


def placement_filter_type_is_known(spot: PartitionSpot) -> Iterator[Finding]:
    """A filter is of type ``allow`` or ``deny``, in any case, or of none, which is ``allow``.

    Source: Apache YuniKorn, placement rules, "Filter".
    """
    for chain in _chains(spot):
        for rule, path in chain:
            if rule.filter.type.lower() not in _FILTER_TYPES:
                message = f"the filter type {quote(rule.filter.type)} is neither 'allow' nor 'deny'"
                yield Finding((*path, "filter", "type"), "placement-filter-type-invalid", message)


def placement_filter_names_are_valid(spot: PartitionSpot) -> Iterator[Finding]:
    """What stands alone in a filter list is a name or a regular expression.

    Of several, those that are no names are not looked at: the scheduler ignores them, as it does elsewhere.

    Source: Apache YuniKorn, placement rules, "Filter".
    """
    for chain in _chains(spot):
        for rule, path in chain:
            lists = (("users", rule.filter.users, USER_NAME), ("groups", rule.filter.groups, GROUP_NAME))
            for field, names, valid in lists:
                if len(names) == 1 and not valid.fullmatch(names[0]) and not _is_pattern(names[0]):
                    message = f"{quote(names[0])} is neither a name of a {field[:-1]} nor a regular expression"
                    yield Finding((*path, "filter", field, 0), f"placement-filter-{field}-invalid", message)


def placement_patterns_are_short(spots: Iterable[PartitionSpot]) -> Iterator[Finding]:
    """The regular expressions of all filters have 100,000 characters at most; with more, none is looked at.

    It protects the reader alone: the peer sets no bound.
    """
    total = 0
    for spot in spots:
        for chain in _chains(spot):
            for rule, path in chain:
                for field, names in (("users", rule.filter.users), ("groups", rule.filter.groups)):
                    total += min(len(names[0]), _LONGEST_PATTERN) if len(names) == 1 else 0
                    if total > _MOST_PATTERNS:
                        message = f"the filters have patterns of more than {_MOST_PATTERNS} characters together"
                        yield Finding((*path, "filter", field, 0), "placement-patterns-too-long", message)


def _is_pattern(text: str) -> bool:
    if len(text) > _LONGEST_PATTERN or not _PATTERN_SIGN.search(text):
        return False
    # Names are ASCII, and sets of other characters take long to compile.
    if not text.isascii() or _NUMBERED.search(text):
        return False
    if _BACKTRACKING.search(text) or _NESTED_SET.search(text):
        return False
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError, FutureWarning):
        return False
    return True


def placement_chain_is_qualified_once(spot: PartitionSpot) -> Iterator[Finding]:
    """Only the outermost ``fixed`` rule of a chain may give a path from the root: the others add to it.

    Source: Apache YuniKorn, placement rules, "Fixed rule".
    """
    for chain in _chains(spot):
        for rule, path in _fixed_part(chain)[1:]:
            if _is_qualified(rule.value):
                message = f"{quote(rule.value)} starts at the root, but the parent rule has said where to start"
                yield Finding((*path, "value"), "placement-qualified-below-rule", message)


def placement_queue_can_be_used(spot: PartitionSpot) -> Iterator[Finding]:
    """The queue of a ``fixed`` rule exists or may be created, and is a leaf, or a parent if other rules add to it.

    Source: Apache YuniKorn, placement rules, "Fixed rule".
    """
    queues = (*spot.path, "queues")
    for chain in _chains(spot):
        fixed = _fixed_part(chain)
        if not fixed or not all(rule.value for rule, _ in fixed) or any(_is_qualified(r.value) for r, _ in fixed[1:]):
            continue
        names = ".".join(rule.value.lower() for rule, _ in fixed).split(".", MAX_DEPTH)
        if names[0] != ROOT:
            names.insert(0, ROOT)
        found = _misplaced(spot.root, names, create=chain[-1].rule.create, adds=len(fixed) < len(chain))
        if found:
            path = (*fixed[-1].path, "value")
            yield Finding(path, *found, (queues, *((*at, "value") for _, at in fixed)))


def _misplaced(root: QueueSpot, names: list[str], *, create: bool, adds: bool) -> tuple[str, str] | None:
    """Follow a path from the root; return the code and the sentence if it cannot be used."""
    above, wanted = root, cut(".".join(names), _LONGEST_PATH)
    for depth, name in enumerate(names[1:], start=1):
        if not above.queue.parent:
            leaf = cut(".".join(names[:depth]), _LONGEST_PATH)
            return "placement-below-leaf", f"there can be no queue {wanted}: {leaf} is a leaf"
        below = above.child(name)
        if below is None:
            return None if create else ("placement-queue-missing", f"there is no queue {wanted}, and none is created")
        above = below
    if adds and not above.queue.parent:
        return "placement-queue-not-parent", f"other rules add to {wanted}, which is a leaf"
    if not adds and above.queue.parent:
        return "placement-queue-not-leaf", f"applications are placed in {wanted}, which is not a leaf"
    return None


def _fixed_part(chain: list[_Rule]) -> list[_Rule]:
    """Return the beginning of a chain whose queue is known: its ``fixed`` rules up to the first of another kind."""
    for position, (rule, _) in enumerate(chain):
        if rule.name.lower() != _FIXED:
            return chain[:position]
    return chain


def _is_qualified(value: str) -> bool:
    return value.lower().partition(".")[0] == ROOT


PLACEMENT_RULES: Final[tuple[Callable[[PartitionSpot], Iterator[Finding]], ...]] = (
    placement_rule_name_is_valid,
    placement_rule_has_value,
    placement_filter_type_is_known,
    placement_filter_names_are_valid,
    placement_chain_is_qualified_once,
    placement_queue_can_be_used,
)
