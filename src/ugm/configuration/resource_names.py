"""The names of resources in a configuration, and in requests: those of a closed list, or any.

A limit of ``gpu`` does not limit a request for ``GPU``. A partition may therefore close the list of its names. Without
a list, a name that resembles a limited one is reported once. A name is compared only when a vector with it is compiled
and the name was not requested before, so decisions do not take longer.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, final

from ugm.configuration.fields import ConfigValue, field_shapes
from ugm.configuration.scheduler import (
    BudgetConfig,
    Extensions,
    FairShareConfig,
    PartitionConfig,
    Path,
    QuotaTreeDocument,
)
from ugm.counters import Layout
from ugm.errors import RequestError, ResourceNameWarning, quote
from ugm.families import Families
from ugm.resources import MEMORY, VCORE, Resource

_OTHER_WORDS: Final = {
    **dict.fromkeys(("cpu", "core", "vcpu", "millicore", "millicpu"), "vcore"),
    **dict.fromkeys(("mem", "ram", "memorie", "memorys"), "memory"),
}
#: The prefixes of resources in the quotas of Kubernetes.
_PREFIX: Final = re.compile(r"(?:requests|limits)\.")
_DOUBLED: Final = re.compile(r"([^\W\d_])\1+")
#: The maximum length of names that are compared.
_LONGEST: Final = 64
#: The minimum length of names that are compared by edits; shorter ones often differ by one letter on purpose.
_SHORTEST: Final = 5
#: The similarity of words of a closed list, from 0 to 1.
_SIMILAR: Final = 0.6
#: The maximum number of names that a partition compares.
_MAX_SEEN: Final = 100
#: Resources that nearly every request names.
_STANDARD: Final = (VCORE, MEMORY)
#: The types of fields that are mappings by resource.
_BY_RESOURCE: Final = (Resource, Mapping[str, float], Mapping[str, Fraction])


def resource_vectors(value: object, path: Path = ()) -> Iterator[tuple[Path, Iterable[str]]]:
    """Yield the path and the names of every mapping or list of resources in a part of a configuration."""
    if isinstance(value, QuotaTreeDocument):
        yield (*path, "spec", "resourceNames"), value.resources
        yield from (((*path, "spec", "nodes", node.name, "quota"), node.quota) for node in value.nodes)
    elif isinstance(value, BudgetConfig) and value.weights:
        # The name of its amounts is that of the weighted sum.
        yield (*path, "weights"), value.weights
    elif isinstance(value, ConfigValue):
        if isinstance(value, FairShareConfig):
            yield (*path, "weights"), value.weights
        for shape in field_shapes(type(value)):
            given, place = getattr(value, shape.name), (*path, shape.yaml_name)
            if shape.kind in _BY_RESOURCE:
                yield place, given or ()
            else:
                yield from resource_vectors(given, place)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from resource_vectors(item, (*path, index))


def listed_resources(settings: Extensions) -> tuple[str, ...]:
    """Return the closed list of the resources of a partition with those of its families; empty for any resource."""
    # Families may be listed, too.
    return tuple(dict.fromkeys((*settings.resources, *family_names(settings)))) if settings.resources else ()


def family_names(settings: Extensions) -> Iterator[str]:
    """Yield the names of the families of a partition, and of their variants."""
    for family, variants in Families(settings.families).variants.items():
        yield from (family, *variants)


def unlisted_resources(partition: PartitionConfig) -> Iterator[tuple[Path, str]]:
    """Yield the path of each resource that is not in the closed list of a partition, and its name."""
    listed = frozenset(listed_resources(partition.ugm))
    if listed:
        for path, names in resource_vectors(partition):
            yield from (((*path, name), name) for name in names if name not in listed)


@final
class RequestNames:
    """The names of resources that requests may have, and those that they probably should have.

    Args:
        listed: the closed list; empty for none.
        modelled: the names that other quota models use.
        seen: the names that were requested before.
    """

    def __init__(
        self, listed: frozenset[str] = frozenset(), modelled: frozenset[str] = frozenset(), seen: set[str] | None = None
    ) -> None:
        self.listed: Final = listed
        self._modelled: Final = modelled
        self.seen: Final = set[str]() if seen is None else seen

    def with_names(self, listed: frozenset[str], modelled: frozenset[str]) -> RequestNames:
        """Return other names for the same partition."""
        return RequestNames(listed, modelled, self.seen)

    def allow(self, names: Collection[str]) -> bool:
        """Return whether all names are allowed."""
        return not self.listed or self.listed.issuperset(names)

    def require(self, argument: str, amounts: Mapping[str, int] | None) -> None:
        """Check the names of amounts.

        Raises:
            RequestError: a name is not in the closed list.
        """
        if amounts is None or self.allow(amounts):
            return
        name = next(name for name in amounts if name not in self.listed)
        raise RequestError(argument, amounts, unlisted(name, self.listed))

    def examine(self, usage: Resource, layout: Layout) -> None:
        """Check the names of a request, and warn about those that resemble a limited one.

        Raises:
            RequestError: a name is not in the closed list.
        """
        self.require("usage", usage)
        for name, amount in usage.amounts.items():
            if amount and name not in _STANDARD and name not in layout.positions and name not in self.seen:
                self._notice(name, self._modelled | layout.limited)

    def _notice(self, name: str, known: frozenset[str]) -> None:
        if len(self.seen) >= _MAX_SEEN:
            return
        self.seen.add(name)
        intended = None if name in known else next((one for one in sorted(known) if resembles(name, one)), None)
        if intended is not None:
            found = quote(intended)
            _warn(f"a request names the resource {quote(name)}, which no limit names: did you mean {found}?")


def unlisted(name: str, listed: Collection[str]) -> str:
    """Return the message about a name that is not in a closed list."""
    known = ", ".join(sorted(listed))
    return f"the resource {quote(name)} is not listed{did_you_mean(name, sorted(listed))} (listed: {known})"


def _warn(message: str) -> None:
    import logging  # noqa: PLC0415 - takes long, and few requests have misspelt names

    logging.getLogger("ugm.partition").warning(message)
    frame, level = sys._getframe(0), 1  # noqa: SLF001 - there is no other way to find the caller in Python 3.11
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("ugm."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ResourceNameWarning, stacklevel=level)


# The comparison of names, for suggestions of the right spelling.
#
# A name resembles another one if both have the same stem, or differ by one probable slip. The stem is the name without
# differences that people make by habit: capitals, hyphens, a plural, a doubled letter, the domain of a vendor. The
# words of a closed list, such as keys, are compared more loosely, because any other word is wrong.


def stem(name: str) -> str:
    """Return the part of the name of a resource that distinguishes it.

    >>> stem("nvidia.com/GPUs"), stem("requests.cpu"), stem("vcores"), stem("hugepages-2Mi")
    ('gpu', 'vcore', 'vcore', 'hugepages2mi')
    """
    word = _PREFIX.sub("", name.lower(), count=1)
    domain, _, rest = word.rpartition("/")
    short = _DOUBLED.sub(r"\1", rest.replace("-", "").replace("_", "")).removesuffix("s")
    return short if domain else _OTHER_WORDS.get(short, short)


def resembles(name: str, other: str) -> bool:
    """Return whether a name is probably a misspelling of another one.

    >>> resembles("nvidia.com/gpus", "gpu"), resembles("nvidia.com/gpu", "amd.com/gpu"), resembles("tpu", "gpu")
    (True, False, False)
    """
    if name == other or max(len(name), len(other)) > _LONGEST:
        return False
    if stem(name) == stem(other):
        domains = {each.lower().rpartition("/")[0] for each in (name, other)} - {""}
        return len(domains) <= 1
    return is_slip(name, other)


def is_slip(one: str, other: str) -> bool:
    """Return whether two names differ by a probable mistake; numbers and last letters often distinguish names."""
    left, right, end = _difference(one, other)
    if len(left) == 2 and left == right[::-1]:  # noqa: PLR2004 - two letters swapped
        return left.isalpha()
    replaced_at_end = len(left) == len(right) == 1 and end == 0
    is_long = min(len(one), len(other)) >= _SHORTEST
    return is_long and is_one_edit(one, other) and (left + right).isalpha() and not replaced_at_end


def is_one_edit(one: str, other: str) -> bool:
    """Return whether two names differ by a letter added, left out or replaced, or by two letters swapped."""
    left, right, _ = _difference(one, other)
    return len(left) + len(right) == 1 or len(left) == len(right) == 1 or (len(left) == 2 and left == right[::-1])  # noqa: PLR2004 - two letters swapped


def _difference(one: str, other: str) -> tuple[str, str, int]:
    """Return the different middle parts of two names, and the length of their common end."""
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return one[start : len(one) - end], other[start : len(other) - end], end


def nearest(word: str, words: Collection[str], similar: float = _SIMILAR) -> str | None:
    """Return the word of a closed list that was probably meant; None if none is similar.

    >>> nearest("partition", ["checksum", "partitions"]), nearest("max_applications", ["maxapplications"])
    ('partitions', 'maxapplications')
    """
    if len(word) > _LONGEST:
        return None
    for known in words:
        if resembles(word, known):
            return known
    from difflib import get_close_matches  # noqa: PLC0415 - only for an error

    plain = {_plain(known): known for known in words}
    found = get_close_matches(_plain(word), plain, n=1, cutoff=similar)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    return re.sub(r"[-_ .]", "", word.lower())


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return the end of a message that names the similar word of a closed list; empty if there is none."""
    found = nearest(word, tuple(words))
    return "" if found is None else f"; did you mean {found!r}?"
