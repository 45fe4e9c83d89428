"""Families of resources: a request for an amount of any variant, and for an amount of one variant.

A *family* is a resource whose amounts come in variants: ``gpu`` with ``gpu:a100`` and ``gpu:v100``. A vector in *normal
form* names the sum of its variants for the family, so each limit counts families and variants like any other resource.
The part of the sum that no variant has is *open*: it is assigned to variants when the request is granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Final, TypeAlias, cast, final

from ugm.errors import RequestError, quote
from ugm.resources import Resource

#: Between the name of a family and that of a variant.
SEPARATOR: Final = ":"
#: The maximum number of normal forms that are kept.
_MOST_KEPT: Final = 1024
#: The maximum number of variants whose orders are all tried.
_MOST_ORDERED: Final = 4


#: See `Families.choices`.
Choices: TypeAlias = "tuple[tuple[Resource, Resource | None], ...]"


def family_name(variant: str) -> str:
    """Return the family in the name of a variant; a name of another resource is returned as it is.

    >>> family_name("gpu:a100"), family_name("gpu")
    ('gpu', 'gpu')
    """
    return variant.partition(SEPARATOR)[0]


@final
class Families:
    """The families of a partition.

    Args:
        declared: the short names of the variants by family, in the order of preference.

    >>> families = Families({"gpu": ("a100", "v100")})
    >>> families.normal(Resource({"gpu:a100": 2}))
    Resource({'gpu': 2, 'gpu:a100': 2})
    >>> families.open_amounts(Resource({"gpu": 3, "gpu:a100": 1}))
    {'gpu': 2}
    """

    __slots__ = ("_kept", "family_of", "variants")

    def __init__(self, declared: Mapping[str, Sequence[str]]) -> None:
        #: The full names of the variants by family.
        self.variants: Final = {
            family: tuple(f"{family}{SEPARATOR}{short}" for short in shorts) for family, shorts in declared.items()
        }
        self.family_of: Final = {name: family for family, names in self.variants.items() for name in names}
        self._kept: Final[dict[tuple[Resource, Resource | None], Resource]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Families) and self.variants == other.variants

    def __hash__(self) -> int:
        return hash(tuple(self.variants.items()))

    def concern(self, amounts: Mapping[str, int]) -> bool:
        """Return whether amounts name a family or a variant, also one that is not declared."""
        return any(family_name(name) in self.variants for name in amounts)

    def normal(self, amounts: Resource, assigned: Resource | None = None, argument: str = "usage") -> Resource:
        """Return amounts in normal form: the same object if they are, and for equal amounts the same object each time.

        Args:
            amounts: the amounts.
            assigned: variants of the open amounts, which are added; None for none.
            argument: the name of the argument, for the error.

        Raises:
            RequestError: a variant is not declared, or the amount of a family is less than that of its variants.
        """
        if not self.variants or not self.concern(amounts):
            return amounts
        key = amounts, assigned
        found = self._kept.get(key)
        if found is None:
            found = self._normal(amounts, assigned or Resource(), argument)
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found

    def _normal(self, amounts: Resource, assigned: Resource, argument: str) -> Resource:
        sums = dict(amounts + assigned)
        for name in sums:
            family = family_name(name)
            if family in self.variants and name != family and name not in self.family_of:
                known = ", ".join(self.variants[family])
                raise RequestError(argument, amounts, f"{quote(name)} is no variant of {family} (declared: {known})")
        for family, names in self.variants.items():
            typed = sum(sums.get(name, 0) for name in names)
            if typed and sums.setdefault(family, typed) < typed:
                reason = f"the amount of {family}, {sums[family]}, is less than the sum of its variants, {typed}"
                raise RequestError(argument, amounts, reason)
        found = Resource(sums)
        return amounts if found == amounts else found

    def open_amounts(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """Return the amount of each family that no variant has, of amounts in normal form."""
        found = {}
        for family, names in self.variants.items():
            if (total := amounts.get(family, 0)) and (rest := total - sum(amounts.get(name, 0) for name in names)) > 0:
                found[family] = rest
        return found

    def is_final(self, amounts: Resource) -> bool:
        """Return whether amounts are in normal form, and nothing of them is open."""
        try:
            return not self.concern(amounts) or (self.normal(amounts) is amounts and not self.open_amounts(amounts))
        except RequestError:
            # For example, the growth of an allocation that changes to another variant.
            return False

    def choices(self, amounts: Resource) -> Choices:
        """Return what amounts become if one variant gets all open amounts, and these amounts; cached in the amounts.

        Returns:
            One pair for each variant; without open amounts, the normal form and None; none if several families are
            open.

        Raises:
            RequestError: as for `normal`.
        """
        known, choices = amounts.compiled
        if known is not self:
            normal = self.normal(amounts)
            needed = self.open_amounts(normal)
            singles = [Resource({name: needed[family]}) for family in needed for name in self.variants[family]]
            pairs = [(self.normal(normal, one), one) for one in singles] if needed else [(normal, None)]
            choices = tuple(pairs) if len(needed) <= 1 else ()
            amounts.compiled = self, choices
        return cast("Choices", choices)

    def capped(self, free: Resource, offered: Resource | None) -> Resource:
        """Return free amounts of which a family has at most those of its variants together, if all are limited.

        Args:
            free: the free amounts.
            offered: the amounts of all nodes; other variants have none. None if no node was registered yet.
        """
        amounts = dict(free)
        for family, names in self.variants.items():
            if offered is not None or all(name in free for name in names):
                most = sum(max(0, free.get(name, 0)) for name in names)
                amounts[family] = min(amounts.get(family, most), most)
        return Resource(amounts)

    def order(self, family: str, preferred: Iterable[str]) -> tuple[str, ...]:
        """Return the variants of a family, the preferred ones first."""
        names = self.variants[family]
        first = [name for name in preferred if name in names]
        return tuple(dict.fromkeys((*first, *names)))

    def require_assigned(self, amounts: Resource, assigned: Resource) -> None:
        """Check that variants are assigned to exactly the open amounts of a request.

        Raises:
            RequestError: they are not.
        """
        sums: dict[str, int] = {}
        for name, amount in assigned.items():
            family = self.family_of.get(name)
            if family is None or amount < 0:
                raise RequestError("assign", assigned, f"{quote(name)} is no variant of a family, or it is negative")
            sums[family] = sums.get(family, 0) + amount
        needed = self.open_amounts(amounts)
        for family in {**sums, **needed}:
            if sums.get(family, 0) != needed.get(family, 0):
                reason = f"it assigns {sums.get(family, 0)} {family}, and {needed.get(family, 0)} are requested of any"
                raise RequestError("assign", assigned, reason)


def is_equal(normal: Mapping[str, int], given: Mapping[str, int]) -> bool:
    """Return whether given amounts have a normal form, in which sums may be missing from the given ones.

    >>> is_equal({"gpu": 2, "gpu:a100": 2}, {"gpu:a100": 2}), is_equal({"gpu": 2}, {"gpu:a100": 2})
    (True, False)
    """
    missing = normal.keys() - given.keys()
    sums = {name: sum(most for one, most in given.items() if one.startswith(f"{name}{SEPARATOR}")) for name in missing}
    return {**given, **sums} == dict(normal)


def divide(amount: int, free: Mapping[str, int]) -> dict[str, int] | None:
    """Divide an amount among variants: all of it to the first that has enough, or else in their order.

    Returns:
        None if the amount is too large.

    >>> divide(2, {"gpu:a100": 1, "gpu:v100": 2}), divide(3, {"gpu:a100": 1, "gpu:v100": 2})
    ({'gpu:v100': 2}, {'gpu:a100': 1, 'gpu:v100': 2})
    """
    whole = next((name for name, most in free.items() if most >= amount), None)
    return {whole: amount} if whole is not None else _fill(amount, free)


def _fill(amount: int, free: Mapping[str, int]) -> dict[str, int] | None:
    parts = part_of(amount, free)
    return parts if sum(parts.values()) == amount else None


def part_of(amount: int, free: Mapping[str, int]) -> dict[str, int]:
    """Return as much of an amount as the variants have, in their order."""
    parts: dict[str, int] = {}
    for name, most in free.items():
        if (part := min(amount, most)) > 0:
            parts[name] = part
            amount -= part
    return parts


def divisions(amount: int, free: Mapping[str, int]) -> list[dict[str, int]]:
    """Return the divisions of an amount to try: each variant alone, then the orders in which variants can be filled."""
    found = [{name: amount} for name, most in free.items() if most >= amount]
    names = tuple(free)
    orders = permutations(names) if len(names) <= _MOST_ORDERED else [names]
    for order in orders:
        parts = _fill(amount, {name: free[name] for name in order})
        if parts is not None and parts not in found:
            found.append(parts)
    return found
