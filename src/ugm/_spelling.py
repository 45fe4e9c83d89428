"""The comparison of names, for suggestions of the right spelling.

A name resembles another one if both have the same stem, or differ by one probable slip. The stem is the name without
differences that people make by habit: capitals, hyphens, a plural, a doubled letter, the domain of a vendor. The words
of a closed list, such as keys, are compared more loosely, because a word outside of the list is wrong in any case.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

__all__ = ["did_you_mean", "is_one_edit", "is_slip", "nearest", "resembles", "stem"]

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
    plain = {_plain(known): known for known in words}
    found = get_close_matches(_plain(word), plain, n=1, cutoff=similar)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    return re.sub(r"[-_ .]", "", word.lower())


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return the end of a message that names the similar word of a closed list; empty if there is none."""
    found = nearest(word, tuple(words))
    return "" if found is None else f"; did you mean {found!r}?"
