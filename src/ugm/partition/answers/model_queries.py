"""Answers of the quota models besides users, groups and queues: limits, headroom, exceeded limits, state.

Only models that inherit from `ugm.model.ReportingModel` describe themselves. All models take part in the headroom,
because it is verified with their checks.

Headroom: the amounts that users, groups and queues leave form a box: every request that is within them in each resource
is allowed. Those of a quota tree do not, because a group may get much of one resource from one node or much of another
from a second node, but not both. The headroom is then one vector such that every request within it is allowed, and one
unit more of any resource is denied. Its resources are filled in the order of their names: each gets as much as is
allowed together with those before it. This takes one check if the bounds of all models are exact, and otherwise up to
64 checks for each resource.

The rule presumes that a model which allows a request allows every smaller request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar, final

from ugm._json_values import JsonMapping, Row
from ugm.decision import EffectiveLimit, Violation
from ugm.identity import UserGroup
from ugm.model import AccountModel, AccountState, Claim, PersistentModel, QuotaModel, ReportingModel
from ugm.partition.answers.reports import LimitUtilization
from ugm.partition.config.plan import ModelFacts
from ugm.partition.engine.model_calls import Call
from ugm.partition.engine.model_set import ModelSet
from ugm.resources import MAX_QUANTITY, Resource, smallest_amounts

_Amounts: TypeAlias = dict[str, int]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ModelReport(Row):
    """A quota model at one moment, as plain data."""

    #: The name of its class.
    model: str
    #: Whether its state has been unknown since one of its calls failed, so that every request is denied.
    is_suspended: bool
    #: The result of `ugm.model.ReportingModel.state`; empty if it is suspended.
    state: JsonMapping
    #: The result of `ugm.model.ReportingModel.definition`.
    definition: JsonMapping | None


@final
class ModelQueries:
    """The answers of all models of a partition. The caller holds the lock."""

    def __init__(self, models: ModelSet) -> None:
        self._models: Final = models

    def limits(self, claim: Claim) -> tuple[EffectiveLimit, ...]:
        """Return every limit that applies to a claim."""
        return tuple(self._collect(lambda model: model.limits(claim)))

    def exceeded(self) -> tuple[Violation, ...]:
        """Return every limit that is exceeded."""
        return tuple(self._collect(lambda model: model.exceeded()))

    def budget_accounts(self, user: UserGroup | None, queue_path: str | None) -> tuple[AccountState, ...]:
        """Return the accounts of budgets; see `ugm.budgets.Budgets.accounts`."""
        return tuple(
            self._collect(lambda model: model.accounts(user, queue_path) if isinstance(model, AccountModel) else ())
        )

    def copy_for_plan(self, config: object) -> list[ModelFacts]:
        """Copy the facts about the models that a plan for another configuration depends on.

        Args:
            config: the configuration; None if it is not known yet.
        """
        declared = {id(one.model): one.definition.key for one in self._models.declared}
        return [self._facts(model, declared.get(id(model), ("", "")), config) for model in self._reporting()]

    def _facts(self, model: ReportingModel, key: tuple[str, str], config: object) -> ModelFacts:
        exceeded, exhaustions = self._read(model, lambda m: (list(m.exceeded()), list(m.exhaustions())))
        planned = [] if key[0] else list(self._read(model, lambda m: m.exceeded_with(config)))
        past = None
        # Fair shares have a past, too, but limit nothing that a plan shows.
        if key[0] and isinstance(model, AccountModel) and isinstance(model, PersistentModel):
            past = model.save()
        return ModelFacts(*key, exceeded, exhaustions, planned, past)

    def utilization(self) -> tuple[LimitUtilization, ...]:
        """Return the utilization of the most used limit of every owner of limits, sorted by kind and name."""
        owners: dict[tuple[str, str, int, str], list[EffectiveLimit]] = {}
        for number, model in enumerate(self._reporting()):
            for limit in self._read(model, lambda m: m.all_limits()):
                # Owners of several models, or at several places of one, may have the same name.
                owners.setdefault((limit.kind, limit.name, number, limit.place), []).append(limit)
        return tuple(
            LimitUtilization.of(name, _usage(limits), limits[0].running_applications, limits)
            for (_, name, *_), limits in sorted(owners.items())
        )

    def findings(self, calls: Iterable[Call]) -> Iterator[str]:
        """Yield a message for every difference between a model and the ledger, given as calls that charge it."""
        claims: dict[str, dict[str, Claim]] = {"charge": {}, "add_pending": {}}
        for method, claim in calls:
            claims[method][claim.allocation_id] = claim
        held, pending = claims.values()
        for model in self._reporting():
            for message in self._read(model, lambda m: m.verify(held, pending)):
                yield f"quota model {type(model).__name__}: {message}"

    def capture_reports(self) -> list[Callable[[], ModelReport]]:
        """Return functions that return the report of every model at this moment, without the lock."""
        return list(map(self._capture_report, self._models.all))

    def _capture_report(self, model: QuotaModel) -> Callable[[], ModelReport]:
        name, is_suspended = type(model).__name__, self._models.is_unusable(model)
        if is_suspended or not isinstance(model, ReportingModel):
            return lambda: ModelReport(name, is_suspended, {}, None)
        state, definition = self._read(model, lambda m: (m.capture_state(), m.definition()))
        return lambda: ModelReport(name, is_suspended, state(), definition)

    # Headroom

    def headroom(
        self, claim: Claim, free: Resource | None, names: Iterable[str], offered: Resource | None
    ) -> Resource | None:
        """Return the headroom of all models together; None if no resource is limited.

        Args:
            claim: the claim without a usage.
            free: the headroom of users, groups and queues.
            names: other resources that models may limit.
            offered: the amounts of all nodes, and nothing else is available; None if no node was registered yet.
        """
        parts = [free, *self._collect(lambda model: [model.headroom(claim)])]
        bounds = dict(smallest_amounts(item for part in parts for item in (part or {}).items()) or {})
        if offered is not None:
            bounds |= {name: min(amount, 0) for name, amount in bounds.items() if name not in offered}
        most = {name: max(bounds.get(name, MAX_QUANTITY), 0) for name in sorted({*names, *bounds})}

        def fits(amounts: _Amounts) -> bool:
            usage = Resource({name: amount for name, amount in amounts.items() if amount})
            return not self._models.check(claim._replace(usage=usage))

        if fits(most):
            granted = most
        elif fits({}):
            granted = _fill(most, fits)
        else:
            limited = (limit.max_resources or () for limit in self._collect(lambda model: model.all_limits()))
            granted = most = dict.fromkeys(sorted({*most, *chain.from_iterable(limited)}), 0)
        # An amount is negative if usage exceeds a limit.
        found = {name: min(amount, bounds.get(name, amount)) for name, amount in granted.items()}
        return Resource({name: found[name] for name in most if name in bounds or found[name] < MAX_QUANTITY}) or None

    # Calls

    def _reporting(self) -> Iterator[ReportingModel]:
        """Yield the models that describe themselves and are not suspended."""
        for model in self._models.all:
            if isinstance(model, ReportingModel) and not self._models.is_unusable(model):
                yield model

    def _collect(self, query: Callable[[ReportingModel], Iterable[_T]]) -> Iterator[_T]:
        """Yield what a query returns for each of these models."""
        for model in self._reporting():
            yield from self._read(model, query)

    def _read(self, model: Any, query: Callable[[Any], Iterable[Any]]) -> tuple[Any, ...]:  # noqa: ANN401 - both classes
        return self._models.query(model, query, model)


def _fill(most: _Amounts, fits: Callable[[_Amounts], bool]) -> _Amounts:
    """Return the largest amounts that fit together. An empty request fits."""
    granted: _Amounts = {}

    def is_denied(name: str, amount: int) -> bool:
        return not fits({**granted, name: amount})

    for name, amount in most.items():
        is_too_much = partial(is_denied, name)
        granted[name] = bisect_left(range(1, amount), x=True, key=is_too_much) if is_too_much(amount) else amount
    return granted


def _usage(limits: Iterable[EffectiveLimit]) -> Resource:
    return Resource({name: amount for limit in limits for name, amount in limit.usage.items()}).without_zeros()
