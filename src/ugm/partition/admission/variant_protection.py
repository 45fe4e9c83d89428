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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, combinations
from typing import Final, NamedTuple, Self, final

from ugm.decision import KEPT, Violation
from ugm.families import Families, divide, family_name
from ugm.identity import ancestors, is_below
from ugm.model import Claim, GuaranteedGroup, GuaranteeingModel, Guarantees
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.application import Application
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import Allocation
from ugm.resources import Resource

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

    def __init__(self, state: PartitionState, models: ModelSet) -> None:
        self._state: Final = state
        self._models: Final = models
        #: The guarantees of a configuration.
        self._known: tuple[CompiledConfig | None, _Declared] = None, _Declared((), frozenset())

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
            row: the request, with the variants that are assigned already.
            amount: the amount of any variant of one family.
            free: the amounts of its variants that the limits leave, in the order of preference.
            before: the usage of an allocation that it replaces, which is counted already.
            is_empty: whether to answer for an empty partition.
        """
        typed = {name: most - before.get(name, 0) for name, most in row.usage.items()}
        sources = self._sources(application, row, tuple(free), typed)
        sources = [one for one in (one.emptied() if is_empty else one for one in sources) if one.kept]
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
            for one in self._sources(application, row, names, typed):
                if not one.allows(assigned):
                    found.append(one.violation(assigned, can_wait=one.emptied().allows(assigned)))
        return tuple(found)

    def _sources(
        self, application: Application, row: Allocation, names: Sequence[str], typed: Mapping[str, int]
    ) -> list[_Source]:
        """Return the guarantees that may concern some variants, with the usage of the request of single variants."""
        amounts = {name: typed[name] for name in names if typed.get(name, 0) > 0}
        of_queues = self._of_queues(application.queue.queue_path, names)
        found = [*([] if of_queues is None else [of_queues]), *self._of_models(application.claim(row))]
        return [_Source(one, names, amounts) for one in found]

    def is_needed(self) -> bool:
        """Return whether a queue of the configuration has a guarantee of a variant."""
        return not self._declared().names.isdisjoint(chain.from_iterable(self._variants().values()))

    def own_of_queues(self) -> dict[str, dict[str, OwnAmount]]:
        """Return what each queue uses of each family, by queue path, for queues with a guarantee of it."""
        of_queues = self._of_queues("", tuple(chain.from_iterable(self._variants().values())))
        return self._own_amounts([] if of_queues is None else [of_queues])

    def own_of_models(self, claim: Claim) -> dict[str, dict[str, OwnAmount]]:
        """Return what each group uses of each family, by the name of the group, in models that protect guarantees."""
        return self._own_amounts(self._of_models(claim))

    def _own_amounts(self, guarantees: Iterable[Guarantees]) -> dict[str, dict[str, OwnAmount]]:
        found: dict[str, dict[str, OwnAmount]] = {}
        for one in guarantees:
            for family, names in self._variants().items():
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

    def _of_models(self, claim: Claim) -> Iterator[Guarantees]:
        for model in self._models.all:
            if isinstance(model, GuaranteeingModel) and not self._models.is_unusable(model):
                yield from self._models.query(model, model.guarantees, claim)

    def _declared(self) -> _Declared:
        """Return the guarantees of the configuration in force."""
        compiled = self._state.compiled
        if self._known[0] is not compiled:
            guaranteed = {
                path: spec.quota.guaranteed for path, spec in compiled.specs.by_path.items() if spec.quota.guaranteed
            }
            positions = {path: at for at, path in enumerate(guaranteed)}
            above = (
                next((positions[one] for one in ancestors(path.rpartition(".")[0]) if one in positions), -1)
                for path in guaranteed
            )
            groups = tuple(zip(guaranteed, above, guaranteed.values(), strict=True))
            self._known = compiled, _Declared(groups, frozenset(chain.from_iterable(guaranteed.values())))
        return self._known[1]

    def _of_queues(self, queue_path: str, names: Sequence[str]) -> Guarantees | None:
        tree, declared = self._state.tree, self._declared()
        cluster, counter = tree.cluster, tree.root.counter
        if cluster is None or counter is None or declared.names.isdisjoint(names):
            return None
        groups = []
        for path, above, amounts in declared.groups:
            queue = tree.queues.get(path)
            used = _NOTHING if queue is None or queue.counter is None else queue.counter.used()
            groups.append(GuaranteedGroup(path, above, amounts, used, bool(queue_path) and is_below(queue_path, path)))
        return Guarantees("queues", cluster, counter.used(), tuple(groups))


def unsatisfiable(guarantees: Guarantees, families: Families) -> Iterator[Violation]:
    """Yield each family and variant whose guarantees together exceed what there is.

    There is none exactly if all guarantees can be met together. Variants are a laminar family of sets, so the sums
    suffice (the condition of Hall).
    """
    for family, names in families.variants.items():
        source = _Source(guarantees, names)
        for name, amount in source.required.total.items():
            capacity = sum(guarantees.capacity.get(one, 0) for one in (names if name == family else (name,)))
            if amount > capacity:
                yield UnmetGuarantee(UNMET, guarantees.kind, "", "", name, capacity, amount, 0)


class UnmetGuarantee(Violation):
    """Guarantees that cannot be met together."""

    def _where(self) -> str:
        return f"guarantees of {self.name}"

    def _what(self) -> str:
        return f"{self.used} {self.resource} guaranteed, {self.limit} there, {self.used - self.limit} missing"


class _Declared(NamedTuple):
    """The guarantees of the queues of a configuration."""

    #: The path of each queue, the position of the nearest one above it or -1, and the amounts; parents first.
    groups: tuple[tuple[str, int, Mapping[str, int]], ...]
    #: All guaranteed resources.
    names: frozenset[str]


class _Required(NamedTuple):
    """The needs of guarantees by group, without those that guarantees of groups below cover."""

    typed: list[dict[str, int]]
    open: list[int]
    #: What all guarantees need together: of each variant, and of the family.
    total: dict[str, int]


class OwnAmount(NamedTuple):
    """The usage of a family by a group."""

    #: The amount within its guarantees of variants and of any variant.
    own: int
    borrowed: int


@final
class _Source:
    """The guarantees of some groups, for the variants of one family.

    Args:
        guarantees: the groups, every parent before its children.
        names: the variants.
        typed: what the request uses of single variants, besides its amount of any.
    """

    def __init__(self, guarantees: Guarantees, names: Sequence[str], typed: Mapping[str, int] = _NOTHING) -> None:
        self._guarantees: Final = guarantees
        _, self._capacity, self._used, self._groups = guarantees
        self._typed: Final = typed
        self._names: Final = names
        #: The position of the lowest group of the request; -1 for none.
        self._own_group: Final = max((at for at, group in enumerate(self._groups) if group.is_own), default=-1)
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

    def emptied(self) -> _Source:
        """Return the same guarantees without any usage."""
        groups = tuple(group._replace(used=_NOTHING) for group in self._groups)
        return _Source(self._guarantees._replace(used=_NOTHING, groups=groups), self._names, self._typed)

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
        violation = Violation(KEPT, owner, "", "", name, capacity, used, requested)
        return KeptViolation.of(violation, capacity - self._used.get(name, 0), kept, can_wait=can_wait)

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
        usage = self._usage(more, groups)
        rooms = {name: max(0, self._capacity.get(name, 0) - self.required.total[name]) for name in self._names}
        cuts = chain.from_iterable(combinations(self._names, size) for size in range(len(self._names) + 1))
        return min(sum(rooms[name] for name in cut) + self._filled(usage, anywhere, frozenset(cut)) for cut in cuts)

    def _filled(self, usage: Sequence[Mapping[str, int]], anywhere: int, cut: frozenset[str]) -> int:
        """Return the usage within guarantees, of variants in a cut only within guarantees of variants.

        Each amount counts for the lowest group whose guarantee it fits, so no other choice is larger.
        """
        carried, free, filled = [dict(one) for one in usage], [0] * len(usage), 0
        if self._own_group >= 0:
            free[self._own_group] = anywhere
        for at in range(len(usage) - 1, -1, -1):
            left, rest = self.required.open[at], carried[at]
            for name in rest:
                part = min(rest[name], self.required.typed[at][name])
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
        for name in self._names if self._own_group >= 0 else ():
            alone[self._own_group][name] += more.get(name, 0) + self._typed.get(name, 0)
        nothing = dict.fromkeys(self._names, 0)
        return [one if groups is None or at < groups else nothing for at, one in enumerate(alone)]

    @cached_property
    def required(self) -> _Required:
        """The needs of the guarantees."""
        count, family = len(self._groups), family_name(self._names[0])
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

    @classmethod
    def of(cls, violation: Violation, free: int, kept: int, *, can_wait: bool) -> Self:
        """Return a violation with the free amount, the part of it that is kept, and whether waiting can help."""
        made = cls(*violation)
        made._free, made._kept, made._can_wait = free, kept, can_wait
        return made

    @property
    def can_wait(self) -> bool:
        """True if an empty partition would allow the request."""
        return self._can_wait

    def _where(self) -> str:
        return str(self.resource)

    def _what(self) -> str:
        usable = self.limit - self.used
        kept = f"{self._kept} kept for the guarantee of {self.name}"
        return f"{self.requested} requested, {usable} of {self._free} free for this team, {kept}"
