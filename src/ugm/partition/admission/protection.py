"""The protection of guarantees of variants from amounts of any variant.

The problem: a team with a guarantee of ten cards of any model may get the ten cards that another team is guaranteed by
model. Then the second guarantee cannot be met, although there are enough cards for both.

The idea: guarantees of variants reserve cards. The other cards of each variant are the *room* for guarantees of any
variant. What a group uses within its guarantee is its own, as far as there is room; the rest is borrowed and can be
reclaimed. So an amount of any variant

1. is assigned to cards that no guarantee of another group needs now, as far as there are any;
2. otherwise, if it is within the guarantee of its group, only to a variant with room: borrowed cards can be reclaimed
   for the guarantees there;
3. otherwise to any free card, because it is borrowed itself.

The amount that is a group's own is a maximum flow: from the room of each variant through the usage of groups to their
guarantees of any variant. It equals the smallest cut, over all sets of variants. It is computed only if the first rule
does not suffice.

Source: the non-goals of the Koordinator proposal on elastic quotas leave this open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Final, NamedTuple, final

from ugm.decision import KEPT, Violation
from ugm.families import SEPARATOR, Families, divide
from ugm.identity import is_below
from ugm.model import Claim, GuaranteedGroup, GuaranteeingModel, Guarantees
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.application import Application
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import Allocation
from ugm.resources import Resource

__all__ = ["OwnAmount", "UnmetGuarantee", "VariantProtection", "unsatisfiable"]

#: The kind of a violation by a configuration.
UNMET: Final = "guarantees"
_NOTHING: Final[Mapping[str, int]] = {}


@final
class VariantProtection:
    """The guarantees of a partition; the caller holds the lock.

    Args:
        state: the partition.
        models: its quota models.
    """

    __slots__ = ("_models", "_queues", "_state")

    def __init__(self, state: PartitionState, models: ModelSet) -> None:
        self._state: Final = state
        self._models: Final = models
        #: The guarantees of queues that name a family, by path, of a configuration.
        self._queues: tuple[CompiledConfig | None, Mapping[str, Mapping[str, int]]] = None, {}

    def rooms(
        self,
        application: Application,
        row: Allocation,
        amount: int,
        free: Mapping[str, int],
        before: Mapping[str, int],
        *,
        is_empty: bool = False,
    ) -> Iterator[dict[str, int]]:
        """Yield the amounts of each variant that a request may use, in the order of the rules.

        Args:
            application: the application of the request.
            row: the request, with what is assigned already.
            amount: the amount of any variant of one family.
            free: the amounts of its variants that the limits leave, in the order of preference.
            before: the usage of an allocation that it replaces, which is counted already.
            is_empty: whether to answer for an empty partition.
        """
        typed = {name: most - before.get(name, 0) for name, most in row.usage.items()}
        sources = self._sources(application, row, tuple(free), typed, is_empty=is_empty)
        sources = [one for one in sources if one.kept]
        if not sources:
            yield dict(free)
            return
        yield {name: min(most, *(one.unneeded(name) for one in sources)) for name, most in free.items()}
        parts = dict(free)
        for one in sources:
            within = one.divided(amount, parts)
            if within is None:
                return
            parts = within
        yield parts

    def objections(self, application: Application, row: Allocation) -> tuple[Violation, ...]:
        """Return the guarantees of others that the assignment of a request does not leave satisfiable."""
        found, assign = list[Violation](), row.assign or _NOTHING
        for names in self._variants().values():
            assigned = {name: assign[name] for name in names if assign.get(name)}
            if not assigned:
                continue
            typed = row.usage - Resource(assigned)
            empty = self._sources(application, row, names, typed, is_empty=True)
            for source, other in zip(self._sources(application, row, names, typed), empty, strict=True):
                if not source.allows(assigned):
                    found.append(source.violation(assigned, can_wait=other.allows(assigned)))
        return tuple(found)

    def _sources(
        self,
        application: Application,
        row: Allocation,
        names: Sequence[str],
        typed: Mapping[str, int],
        *,
        is_empty: bool = False,
    ) -> list[_Source]:
        """Return the guarantees that may concern some variants, with the usage of the request of single variants."""
        amounts = {name: typed[name] for name in names if typed.get(name, 0) > 0}
        return [_Source(one, names, amounts, is_empty=is_empty) for one in self._guarantees(application, row, names)]

    def is_needed(self) -> bool:
        """Return whether a queue of the configuration has a guarantee of a variant."""
        names = set(chain.from_iterable(self._variants().values()))
        return any(names.intersection(one) for one in self._guaranteed().values())

    def own_of_queues(self) -> dict[str, dict[str, OwnAmount]]:
        """Return what each queue uses of each family, by queue path, for queues with a guarantee of it."""
        found: dict[str, dict[str, OwnAmount]] = {}
        for family, names in self._variants().items():
            of_queues = self._of_queues("", names)
            for path, amount in () if of_queues is None else _Source(of_queues, names).own_amounts().items():
                found.setdefault(path, {})[family] = amount
        return found

    def own_of_models(self, claim: Claim) -> dict[str, dict[str, OwnAmount]]:
        """Return what each group uses of each family, by the name of the group, in models that protect guarantees."""
        found: dict[str, dict[str, OwnAmount]] = {}
        for family, names in self._variants().items():
            for one in self._of_models(claim):
                for group, amount in _Source(one, names).own_amounts().items():
                    found.setdefault(group, {})[family] = amount
        return found

    def _variants(self) -> Mapping[str, tuple[str, ...]]:
        families = self._state.active_limits.epoch.layout.families
        return {} if families is None else families.variants

    def unmet(self) -> tuple[Violation, ...]:
        """Return the families and variants whose guarantees of queues exceed what the nodes offer."""
        families = self._state.active_limits.epoch.layout.families
        of_queues = self._of_queues("", tuple(() if families is None else families.family_of))
        return () if of_queues is None or families is None else tuple(unsatisfiable(of_queues, families))

    def _guarantees(self, application: Application, row: Allocation, names: Sequence[str]) -> Iterator[Guarantees]:
        """Yield the guarantees of the queues, and of each model, that may concern some variants."""
        of_queues = self._of_queues(application.queue.queue_path, names)
        if of_queues is not None:
            yield of_queues
        yield from self._of_models(application.claim(row))

    def _of_models(self, claim: Claim) -> Iterator[Guarantees]:
        for model in self._models.all:
            if isinstance(model, GuaranteeingModel) and not self._models.is_unusable(model):
                yield from self._models.query(model, model.guarantees, claim)

    def _guaranteed(self) -> Mapping[str, Mapping[str, int]]:
        compiled = self._state.compiled
        if self._queues[0] is not compiled:
            specs = compiled.specs.by_path.items()
            self._queues = compiled, {path: spec.quota.guaranteed for path, spec in specs if spec.quota.guaranteed}
        return self._queues[1]

    def _of_queues(self, queue_path: str, names: Sequence[str]) -> Guarantees | None:
        tree = self._state.tree
        guaranteed, cluster, counter = self._guaranteed(), tree.cluster, tree.root.counter
        if cluster is None or counter is None or not any(map(set(names).intersection, guaranteed.values())):
            return None
        positions, groups = dict[str, int](), list[GuaranteedGroup]()
        for path, amounts in guaranteed.items():
            queue = tree.queues.get(path)
            used = _NOTHING if queue is None or queue.counter is None else queue.counter.used()
            above = next((positions[one] for one in _above(path) if one in positions), -1)
            positions[path] = len(groups)
            groups.append(GuaranteedGroup(path, above, amounts, used, bool(queue_path) and is_below(queue_path, path)))
        return Guarantees("queues", cluster, counter.used(), tuple(groups))


def unsatisfiable(guarantees: Guarantees, families: Families) -> Iterator[Violation]:
    """Yield each family and variant whose guarantees together exceed what there is.

    There is none exactly if all guarantees can be met together. Variants are a laminar family of sets, so the sums
    suffice (the condition of Hall).
    """
    for family, names in families.variants.items():
        source = _Source(guarantees, names)
        for name, amount in source.reserved().items():
            capacity = sum(guarantees.capacity.get(one, 0) for one in (names if name == family else (name,)))
            if amount > capacity:
                yield UnmetGuarantee(UNMET, guarantees.kind, "", "", name, capacity, amount, 0)


class UnmetGuarantee(Violation):
    """Guarantees that cannot be met together."""

    def _where(self) -> str:
        return f"guarantees of {self.name}"

    def _what(self) -> str:
        return f"{self.used} {self.resource} guaranteed, {self.limit} there, {self.used - self.limit} missing"


def _above(path: str) -> Iterator[str]:
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


class _Required(NamedTuple):
    """What guarantees need that those of groups below do not cover, by group."""

    typed: list[dict[str, int]]
    open: list[int]
    #: What all guarantees need together: of each variant, and of the family.
    total: dict[str, int]


class OwnAmount(NamedTuple):
    """The usage of a family by a group."""

    #: What is within its guarantees of variants and of any variant.
    own: int
    borrowed: int


@final
class _Source:
    """The guarantees of some groups, for the variants of one family.

    Args:
        guarantees: the groups, every parent before its children.
        names: the variants.
        typed: what the request uses of single variants, besides its amount of any.
        is_empty: whether to ignore all usage.
    """

    def __init__(
        self,
        guarantees: Guarantees,
        names: Sequence[str],
        typed: Mapping[str, int] = _NOTHING,
        *,
        is_empty: bool = False,
    ) -> None:
        _, self._capacity, used, groups = guarantees
        self._used = _NOTHING if is_empty else used
        self._groups = [group._replace(used=_NOTHING) for group in groups] if is_empty else groups
        self._typed: Final = typed
        self._names: Final = names
        #: What each group still needs for its guarantees of variants, and those below it.
        needs = [dict.fromkeys(names, 0) for _ in self._groups]
        #: By variant: the group of others that needs most, and what all of them need.
        self.kept: Final[dict[str, tuple[str, int]]] = {}
        for at in range(len(self._groups) - 1, -1, -1):
            group = self._groups[at]
            for name in names:
                need = max(needs[at][name], group.guaranteed.get(name, 0) - group.used.get(name, 0))
                if need <= 0:
                    continue
                if not group.is_own and (group.parent < 0 or self._groups[group.parent].is_own):
                    largest, total = self.kept.get(name, ("", 0))
                    self.kept[name] = (group.name if need > total - need else largest), total + need
                if group.parent >= 0:
                    needs[group.parent][name] += need

    def unneeded(self, name: str) -> int:
        """Return the free amount of a variant that no other group needs for its guarantee."""
        kept = self.kept.get(name, ("", 0))[1]
        return max(0, self._capacity.get(name, 0) - self._used.get(name, 0) - kept)

    def divided(self, amount: int, free: Mapping[str, int]) -> dict[str, int] | None:
        """Return a division of an amount by the second and third rule; None if there is none."""
        before = self._own()
        left = own = self._own({}, amount) - before
        parts: dict[str, int] = {}
        for name in self._names if own else ():
            part = min(left, free.get(name, 0))
            part = min(part, self._own({**parts, name: part}) - before - sum(parts.values()))
            if part > 0:
                parts[name], left = part, left - part
        if left:
            return None
        rest = divide(amount - own, {name: most - parts.get(name, 0) for name, most in free.items()})
        return None if rest is None else {name: parts.get(name, 0) + rest.get(name, 0) for name in {**parts, **rest}}

    def allows(self, assigned: Mapping[str, int]) -> bool:
        """Return whether an assignment follows the first rule, or the part within a guarantee follows the second."""
        if all(part <= self.unneeded(name) for name, part in assigned.items()):
            return True
        return self._own(assigned) >= self._own({}, sum(assigned.values()))

    def violation(self, assigned: Mapping[str, int], *, can_wait: bool) -> Violation:
        """Return the violation of an assignment that is not allowed."""
        name, requested = next((name, part) for name, part in assigned.items() if part > self.unneeded(name))
        capacity = self._capacity.get(name, 0)
        used = capacity - self.unneeded(name)
        owner, kept = self.kept.get(name, ("", 0))
        violation = KeptViolation(KEPT, owner, "", "", name, capacity, used, requested)
        return violation.with_amounts(capacity - self._used.get(name, 0), kept, can_wait=can_wait)

    def own_amounts(self) -> dict[str, OwnAmount]:
        """Return what each group uses, by its name."""
        own = [self._own(groups=at + 1) - self._own(groups=at) for at in range(len(self._groups))]
        for at in range(len(own) - 1, -1, -1):
            if (parent := self._groups[at].parent) >= 0:
                own[parent] += own[at]
        used = [sum(group.used.get(name, 0) for name in self._names) for group in self._groups]
        return {
            group.name: OwnAmount(amount, most - amount)
            for group, amount, most in zip(self._groups, own, used, strict=True)
        }

    def _own(self, more: Mapping[str, int] = _NOTHING, anywhere: int = 0, groups: int | None = None) -> int:
        """Return the amount that groups use within their guarantees: a maximum flow, by its smallest cut.

        Args:
            more: additional usage of the group of the request.
            anywhere: additional usage of it that has room in any case.
            groups: the number of groups whose usage counts; None for all.
        """
        required, usage = self._required(), self._usage(more, groups)
        own = max((at for at, group in enumerate(self._groups) if group.is_own), default=-1)
        rooms = {name: max(0, self._capacity.get(name, 0) - required.total[name]) for name in self._names}
        cuts = chain.from_iterable(combinations(self._names, size) for size in range(len(self._names) + 1))
        return min(
            sum(rooms[name] for name in cut) + self._filled(required, usage, {own: anywhere}, frozenset(cut))
            for cut in cuts
        )

    def _filled(
        self,
        required: _Required,
        usage: Sequence[Mapping[str, int]],
        anywhere: Mapping[int, int],
        cut: frozenset[str],
    ) -> int:
        """Return the usage within guarantees, of variants in a cut only within guarantees of variants.

        Each amount counts for the lowest group whose guarantee it fits, so no other choice is larger.
        """
        carried, free = [dict(one) for one in usage], [anywhere.get(at, 0) for at in range(len(usage))]
        filled = 0
        for at in range(len(usage) - 1, -1, -1):
            left, rest = required.open[at], carried[at]
            for name in rest:
                part = min(rest[name], required.typed[at][name])
                if name not in cut:
                    more = min(rest[name] - part, left)
                    part, left = part + more, left - more
                rest[name] -= part
                filled += part
            part = min(free[at], left)
            filled += part
            if (parent := self._groups[at].parent) >= 0:
                carried[parent] = {name: carried[parent][name] + rest[name] for name in rest}
                free[parent] += free[at] - part
        return filled

    def _usage(self, more: Mapping[str, int], groups: int | None) -> list[dict[str, int]]:
        """Return what each group uses of each variant without the groups below it."""
        used = [{name: group.used.get(name, 0) for name in self._names} for group in self._groups]
        alone = [dict(one) for one in used]
        for at, group in enumerate(self._groups):
            for name in self._names if group.parent >= 0 else ():
                alone[group.parent][name] -= used[at][name]
        own = max((at for at, group in enumerate(self._groups) if group.is_own), default=-1)
        if own >= 0:
            alone[own] = {name: n + more.get(name, 0) + self._typed.get(name, 0) for name, n in alone[own].items()}
        nothing = dict.fromkeys(self._names, 0)
        return [one if groups is None or at < groups else nothing for at, one in enumerate(alone)]

    def reserved(self) -> dict[str, int]:
        """Return what all guarantees need of each variant and of the family."""
        return self._required().total

    def _required(self) -> _Required:
        """Return what the guarantees of each group need."""
        count, family = len(self._groups), self._names[0].partition(SEPARATOR)[0]
        below = [dict.fromkeys((*self._names, family), 0) for _ in range(count)]
        required, top = _Required([{} for _ in range(count)], [0] * count, {}), dict.fromkeys((*self._names, family), 0)
        for at in range(count - 1, -1, -1):
            guaranteed, under, parent = self._groups[at].guaranteed, below[at], self._groups[at].parent
            needed = {name: max(under[name], guaranteed.get(name, 0)) for name in self._names}
            more = {name: needed[name] - under[name] for name in self._names}
            needed[family] = max(under[family] + sum(more.values()), guaranteed.get(family, 0))
            required.typed[at] = more
            required.open[at] = needed[family] - under[family] - sum(more.values())
            above = below[parent] if parent >= 0 else top
            for name, amount in needed.items():
                above[name] += amount
        required.total.update(top)
        return required


class KeptViolation(Violation):
    """Cards that the guarantee of another group needs."""

    _free: int
    _kept: int
    _can_wait: bool

    def with_amounts(self, free: int, kept: int, *, can_wait: bool) -> KeptViolation:
        """Return the violation with the free amount, the part of it that is kept, and whether waiting can help."""
        self._free, self._kept, self._can_wait = free, kept, can_wait
        return self

    @property
    def can_wait(self) -> bool:
        """True if an empty partition would allow the request."""
        return self._can_wait

    def _where(self) -> str:
        return str(self.resource)

    def _what(self) -> str:
        usable = max(0, self._free - self._kept)
        kept = f"{self._kept} kept for the guarantee of {self.name}"
        return f"{self.requested} requested, {usable} of {self._free} free for this team, {kept}"
