"""Warnings about resource names that are probably misspelt.

The problem: the names of resources are free, so ``max: {cpu: 8, Memory: 4Gi}`` is valid. But no request names these
resources, so the limit has no effect, and no error says so.

The idea: a name is reported if it has the same stem as a known name, or as one that the configuration uses more often
or earlier (see `ugm._spelling`), or if it differs by one edit. An edit is a letter added, left out or replaced, or two
letters swapped. Two names that are one edit apart become equal when at most one letter is left out of
each; so an index of the known names, and of these names without each of their letters, finds the candidates without
comparing all pairs.

Invariant: a name in the list of known names is never reported. Names of the configuration are compared with each other
only if the difference is unlikely to be deliberate: numbers and last letters often distinguish names.

The cost: linear in the number of names: each has at most `_LONGEST` + 1 entries in the index, and each entry at most
`_MAX_SIMILAR` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ugm._documents.places import Path
from ugm._spelling import is_one_edit, is_slip, resembles, stem
from ugm.config.findings import Finding
from ugm.configuration import SchedulerConfig
from ugm.configuration.vectors import resource_vectors
from ugm.errors import quote
from ugm.resources import MEMORY, VCORE

__all__ = ["MAX_WARNINGS", "misspelt_resources"]

#: The search ends after this many warnings.
MAX_WARNINGS: Final = 100

_STANDARD: Final = (VCORE, MEMORY, "pods")
#: The maximum length of names that are compared by edits.
_LONGEST: Final = 64
#: The maximum number of names of a configuration that are compared with each other.
_MAX_COMPARED: Final = 2_000
#: The maximum number of names that are compared because they are equal without one letter: known ones, then those with
#: the most uses.
_MAX_SIMILAR: Final = 16


class _Use(NamedTuple):
    """The first use of a resource name, and the number of its uses."""

    path: Path
    times: int


def misspelt_resources(config: SchedulerConfig, known: Iterable[str] = ()) -> Iterator[Finding]:
    """Yield a warning for each resource name that is probably misspelt, at its first use.

    Args:
        config: the configuration.
        known: names that are correct, for example the resources of a cluster.
    """
    uses: dict[str, _Use] = {}
    for path, amounts in resource_vectors(config):
        for name in amounts:
            first, times = uses.get(name, _Use((*path, name), 0))
            uses[name] = _Use(first, times + 1)
    listed = [name for partition in config.partitions for name in partition.ugm.resources]
    suggestions = _Suggestions(uses, (*_STANDARD, *known, *listed))
    warnings = 0
    for name, use in uses.items():
        intended = suggestions.of(name)
        if intended is None:
            continue
        warnings += 1
        if warnings > MAX_WARNINGS:
            return
        places = f" (in {use.times} places)" if use.times > 1 else ""
        message = f"the resource {quote(name)} is probably misspelt{places}: did you mean {quote(intended)}?"
        yield Finding(use.path, "resource-name-misspelt", message)


class _Suggestions:
    """Finds the name that was probably intended."""

    def __init__(self, uses: Mapping[str, _Use], known: tuple[str, ...]) -> None:
        self._uses: Final = uses
        self._known: Final = frozenset(known)
        #: Names by their stem. In both indexes, known names come first, then names by frequency.
        self._same: Final[dict[str, str]] = {}
        #: Names by their spelling, and by their spelling without each of their letters.
        self._near: Final[dict[str, list[str]]] = {}
        ranked = sorted(uses, key=lambda name: -uses[name].times)
        for name in dict.fromkeys((*known, *ranked)):
            self._same.setdefault(stem(name), name)
        for name in dict.fromkeys((*known, *(ranked if len(ranked) <= _MAX_COMPARED else ()))):
            for part in _without_one(name):
                similar = self._near.setdefault(part, [])
                if len(similar) < _MAX_SIMILAR:
                    similar.append(name)

    def of(self, name: str) -> str | None:
        """Return the name that was probably intended; None if the name is probably correct."""
        if name in self._known:
            return None
        if resembles(name, same := self._same[stem(name)]):
            return same
        for part in _without_one(name):
            for other in self._near.get(part, ()):
                if self._is_intended(name, other):
                    return other
        return None

    def _is_intended(self, name: str, other: str) -> bool:
        if other in self._known:
            return is_one_edit(name, other)
        return other in self._uses and self._uses[other].times > self._uses[name].times and is_slip(name, other)


def _without_one(name: str) -> Iterator[str]:
    """Yield a name, and the name without each of its letters; names one edit apart share one of these texts."""
    if len(name) <= _LONGEST:
        yield name
        for at, letter in enumerate(name):
            # Without any of several equal letters in a row, the name is the same.
            if name[at - 1 : at] != letter:
                yield name[:at] + name[at + 1 :]
