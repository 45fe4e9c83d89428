"""The assignment of amounts of any variant to variants, when a request is granted.

A request for ``gpu`` is assigned to ``gpu:a100``, ``gpu:v100``, or both. The caller may state the assignment. Otherwise
the variants are tried in their order of preference: each for the whole amount, then several together. Each limit of
users, groups and queues leaves some amount of each variant, so the smallest of them decides. Other quota models are
asked about each division, because their limits may depend on all amounts together.

A request that fits no division gets the one that an empty partition would allow. So the denial names limits that become
free, if there are such.

Cards that guarantees of variants need are used last; see `ugm.partition.admission.variant_protection`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice, product
from typing import Final, final

from ugm.arguments import require_resource
from ugm.counters import UNLIMITED, Counter
from ugm.decision import ALLOWED, Decision, Violation
from ugm.errors import RequestError
from ugm.families import Families, divide, divisions, part_of
from ugm.identity import ancestors
from ugm.partition.admission.variant_protection import VariantProtection
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.application import Application
from ugm.partition.engine.model_calls import Call, calls_of_change
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import Allocation, AllocationRequest, AllocationState, allocation_of
from ugm.resources import Resource

_NO_FAMILIES: Final = Families({})
#: The most divisions for which a plan is made, besides that of a grant.
_MOST_ALTERNATIVES: Final = 12
#: The node, the label, the assignment and the preference of a request that names none.
_NO_CHOICE: Final = (None, None, None, ())
#: `Allocation(...)` takes twice as long.
_new: Final = tuple.__new__


@final
class VariantAssignment:
    """Assigns the open amounts of requests; the caller holds the lock.

    Args:
        state: the partition.
        models: its quota models.
    """

    def __init__(self, state: PartitionState, models: ModelSet) -> None:
        self._state: Final = state
        self._models: Final = models
        self.protection: Final = VariantProtection(state, models)
        #: Whether a configuration has neither preferences nor guarantees of variants.
        self._plain: tuple[CompiledConfig | None, bool] = None, False
        #: The preferred variants by queue path, of a configuration.
        self._preferred: tuple[CompiledConfig | None, Mapping[str, tuple[str, ...]]] = None, {}

    @property
    def _families(self) -> Families:
        return self._state.active_limits.epoch.layout.families or _NO_FAMILIES

    def normal(self, row: Allocation) -> Allocation:
        """Return a row with its usage in normal form.

        Raises:
            RequestError: the usage is not valid, or does not agree with the assignment of the row.
        """
        families = self._families
        usage = families.normal(require_resource("usage", row.usage))
        for name in row.prefer:
            if name not in families.family_of:
                raise RequestError("prefer", name, "there is no such variant")
        if row.assign is not None:
            families.require_assigned(usage, row.assign)
        return row if usage is row.usage else row._replace(usage=usage)

    def assigned(self, application: Application, row: Allocation, old: Allocation | None = None) -> Allocation:
        """Return a row without open amounts.

        Args:
            application: the application of the row.
            row: the row, whose usage contains no assignment.
            old: the allocation that it replaces, whose variants it keeps as far as possible; None for none.

        Raises:
            RequestError: as for `normal`.
        """
        families = self._families
        waiting = self._state.allocations.get(row.allocation_id)
        if waiting is not None and waiting.state is AllocationState.PENDING and old is None:
            row = row._replace(assign=row.assign or waiting.assign, prefer=row.prefer or waiting.prefer)
        row = self.normal(row)
        needed = families.open_amounts(row.usage)
        if not needed:
            return row
        known = old or self._state.held(row.allocation_id)
        if row.assign is not None:
            assign = row.assign
        elif old is None and known is not None and known.assign is not None and known.requested_usage == row.usage:
            # The call is repeated.
            assign = known.assign
        else:
            assign = self._chosen(application, row, needed, self._chain(application), old)
        return row._replace(usage=families.normal(row.usage, assign), assign=assign)

    def _chain(self, application: Application) -> Sequence[Counter]:
        """Return the counters that a grant to an application checks."""
        found = self._state.holding_of(application)
        return found.checked if application.holding is found else found.enforced(found.chain())

    def grant(self, application: Application, row: Allocation) -> Decision | None:
        """Grant a new request if only limits of users, groups and queues count, to the first variant that fits.

        Nearly all requests are of this kind. `AdmissionControl.allocate` gives others, and this one, the same answer in
        more time; None leaves the request to it.
        """
        state, holding, requested = self._state, application.holding, row.usage
        epoch = state.active_limits.epoch
        if self._plain[0] is not state.compiled:
            self._plain = state.compiled, not self._preferences() and not self.protection.is_needed()
        if not self._plain[1] or self._models.all or row[9:13] != _NO_CHOICE or type(requested) is not Resource:
            return None
        if holding is None or holding.epoch is not epoch or row[0] in state.allocations or application.row.failing:
            return None
        for usage, assign in self._families.choices(requested):
            layout, vector = usage.compiled
            if layout is not epoch.layout:
                vector = epoch.layout.vector(usage)
            if holding.try_charge(vector):
                state.add(application, _new(Allocation, (*row[:2], usage, *row[3:11], assign, ())))
                return ALLOWED if assign is None else _new(Decision, ((), (), assign))
        return None

    def _chosen(
        self,
        application: Application,
        row: Allocation,
        needed: Mapping[str, int],
        chain: Sequence[Counter],
        old: Allocation | None,
    ) -> Resource:
        families = self._families
        assign: dict[str, int] = {}
        for family, amount in needed.items():
            order = families.order(family, (*row.prefer, *self._preferred_in(application.queue.queue_path)))
            kept = _kept(amount, order, old)
            assign |= kept
            if rest := amount - sum(kept.values()):
                base = row._replace(usage=families.normal(row.usage, Resource(assign)))
                for name, part in self._division(application, base, rest, order, chain, old).items():
                    assign[name] = assign.get(name, 0) + part
        return Resource(assign)

    def _division(
        self,
        application: Application,
        row: Allocation,
        amount: int,
        order: Sequence[str],
        chain: Sequence[Counter],
        old: Allocation | None,
    ) -> dict[str, int]:
        """Return a division of an amount among variants: one that fits, or one that could fit."""
        before: Mapping[str, int] = {} if old is None else old.usage
        free = {name: min(amount, most) for name, most in self._rooms(row, order, chain, Counter.free, before).items()}
        for allowed in self.protection.rooms(application, row, amount, free, before):
            found = self._fitting(application, row, amount, allowed)
            if found is not None:
                return found
        most = self._rooms(row, order, chain, _maximum, before)
        for allowed in self.protection.rooms(application, row, amount, most, {}, is_empty=True):
            possible = divide(amount, allowed)
            if possible is not None:
                return possible
        return divide(amount, most) or {order[0]: amount}

    def _rooms(
        self,
        row: Allocation,
        order: Sequence[str],
        chain: Sequence[Counter],
        amount_of: Callable[[Counter, str], int],
        before: Mapping[str, int],
    ) -> dict[str, int]:
        """Return the amount of each variant that counters and the node of a request leave besides its own amounts."""
        offers = None if row.node is None else self._state.cluster.nodes.get(row.node)
        rooms: dict[str, int] = {}
        for name in order:
            amounts = [_amount(counter, name, amount_of) + before.get(name, 0) for counter in chain]
            if offers is not None:
                amounts.append(offers.get(name, 0))
            rooms[name] = max(0, min(amounts, default=UNLIMITED) - row.usage.get(name, 0))
        return rooms

    def _fitting(
        self, application: Application, row: Allocation, amount: int, free: dict[str, int]
    ) -> dict[str, int] | None:
        """Return a division within some free amounts that all quota models allow; None if there is none."""
        if not self._models.may_deny or not self._models.all:
            return divide(amount, free)

        def allows(parts: Mapping[str, int]) -> bool:
            usage = row.usage + Resource(parts)
            return not self._models.check(application.claim(row._replace(usage=usage)))

        found = next(filter(allows, divisions(amount, free)), None)
        if found is None and sum(free.values()) >= amount:
            narrowed = {name: _largest(name, most, allows) for name, most in free.items()}
            found = next(filter(allows, divisions(amount, narrowed)), None) if narrowed != free else None
        return found

    def offered(self, offers: Resource) -> Resource:
        """Return the resources of a node in normal form."""
        return self._families.normal(offers, argument="offers")

    def alternatives(
        self, application: Application, query: AllocationRequest
    ) -> list[tuple[Resource, tuple[Violation, ...]]]:
        """Return the usages that a plan for a request may make room for, each with the guarantees that forbid it.

        If no guarantee forbids some of them, these are returned. The first one is that of a grant now.
        """
        families = self._families
        row = self.normal(allocation_of(query, AllocationState.PENDING))
        needed = families.open_amounts(row.usage) if row.assign is None else {}
        granted = self.assigned(application, row)
        parts = [self._divisions(application, row, *one) for one in needed.items()]
        combined = (Resource({name: part for one in each for name, part in one.items()}) for each in product(*parts))
        assigned = [row._replace(assign=one) for one in combined] if needed else []
        rows = [granted, *islice((one for one in assigned if one.assign != granted.assign), _MOST_ALTERNATIVES)]
        found = [(families.normal(row.usage, one.assign), self.objections(application, one)) for one in rows]
        return [one for one in found if not one[1]] or found

    def _divisions(self, application: Application, row: Allocation, family: str, amount: int) -> list[dict[str, int]]:
        """Return divisions of an amount: those of an empty partition, and those that use what is free first."""
        order = self._families.order(family, (*row.prefer, *self._preferred_in(application.queue.queue_path)))
        free, most = (
            self._rooms(row, order, self._chain(application), amount_of, {}) for amount_of in (Counter.free, _maximum)
        )
        base = part_of(amount, free)
        rest = amount - sum(base.values())
        mixed = ({**base, name: base.get(name, 0) + rest} for name in order if base.get(name, 0) + rest <= most[name])
        found = divisions(amount, most)
        return [*found, *(one for one in mixed if one not in found)] or [{order[0]: amount}]

    def is_assignment(self, usage: Resource, requested: Resource) -> bool:
        """Return whether a usage is a request whose open amounts are assigned."""
        families = self._families
        if families.open_amounts(usage):
            return False
        rest = {name: amount - requested.get(name, 0) for name, amount in usage.items()}
        return requested.keys() <= usage.keys() and all(
            amount >= 0 if name in families.family_of else amount == 0 for name, amount in rest.items()
        )

    def converted(self, application: Application, row: Allocation) -> Allocation:
        """Return an allocation of other families in the form of those of the partition.

        Raises:
            RequestError: it names a variant that is not declared.
        """
        known = self._families.family_of
        prefer = tuple(name for name in row.prefer if name in known)
        if row.assign is not None and all(name in known for name in row.assign):
            return row
        base = row._replace(usage=row.requested_usage, assign=None, prefer=prefer)
        if row.state is AllocationState.PENDING:
            return self.normal(base)
        return self.assigned(application, base, row)

    def objections(self, application: Application, row: Allocation) -> tuple[Violation, ...]:
        """Return the guarantees that the assignment of a row would leave unsatisfiable."""
        return self.protection.objections(application, row)

    def _preferences(self) -> Mapping[str, tuple[str, ...]]:
        compiled = self._state.compiled
        if self._preferred[0] is not compiled:
            queues = () if compiled.config is None else compiled.config.root.walk()
            self._preferred = compiled, {path: queue.ugm.prefer for path, queue in queues if queue.ugm.prefer}
        return self._preferred[1]

    def _preferred_in(self, queue_path: str) -> tuple[str, ...]:
        preferred = self._preferences()
        return tuple(name for path in ancestors(queue_path) for name in preferred.get(path, ())) if preferred else ()


def convert_rows(state: PartitionState, assignment: VariantAssignment) -> list[Call]:
    """Bring all nodes and allocations into the form of other families, and return the calls that models need.

    Allocations are assigned without a check, like adopted ones.

    Raises:
        RequestError: an allocation or a node names a variant that is not declared any more.
    """
    calls = list[Call]()
    for name, offers in list(state.cluster.nodes.items()):
        state.cluster.update(name, assignment.offered(offers))
        state.write_node(name)
    for old in list(state.allocations.values()):
        application = state.owner(old)
        new = assignment.converted(application, old)
        if new == old:
            continue
        state.count_unoffered(new.usage)
        if old.state is not AllocationState.PENDING:
            state.holding_of(application).swap(old.usage, new.usage)
        calls += calls_of_change(application.row, old, new)
        state.write(new)
    return calls


def _kept(amount: int, order: Sequence[str], old: Allocation | None) -> dict[str, int]:
    """Return the part of an amount that keeps the variants of an earlier allocation."""
    kept: dict[str, int] = {}
    for name in order if old is not None and old.assign is not None else ():
        if part := min(amount, old.assign.get(name, 0)):  # type: ignore[union-attr] # there is an assignment
            kept[name] = part
            amount -= part
    return kept


def _amount(counter: Counter, name: str, amount_of: Callable[[Counter, str], int]) -> int:
    """Return an amount of a resource in a counter, which need not count it."""
    layout = counter.layout
    if name in layout.positions:
        return amount_of(counter, name)
    return 0 if layout.closed else UNLIMITED


def _maximum(counter: Counter, name: str) -> int:
    return counter.limit.maximum(name)


def _largest(name: str, most: int, allows: Callable[[Mapping[str, int]], bool]) -> int:
    """Return the largest allowed amount of a variant, up to *most*; amounts below an allowed one are allowed."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if allows({name: middle}) else (low, middle - 1)
    return low
