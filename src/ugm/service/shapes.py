"""The shapes of classes whose form on the wire is not derived from their fields; see `ugm.service.codec`.

Arguments and results have different tables, because an argument comes from a process that may be wrong or malicious,
and a result from the leader. Equal results are often one object: resource vectors and configurations are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, final

from ugm.budgets import AccountState
from ugm.configuration import PartitionConfig
from ugm.decision import ALLOWED, Decision, LimitRise, Violation
from ugm.errors import RequestError
from ugm.identity import TrackingType, UserGroup
from ugm.partition import AllocationRequest, ConfigPlan, ConfigPlanInput
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_changes import Changes
from ugm.partition.config_plan import ConfigPlanParts
from ugm.partition.event_codec import from_json, to_json
from ugm.partition.snapshot import PartitionSnapshot
from ugm.partition.stored_config import config_from_data, config_to_data
from ugm.preemption import PreemptionPlan, ReductionPlan
from ugm.queues import Acl
from ugm.resources import Resource
from ugm.service.codec import Hint, Plain, Shape, Shapes, UnsuitableValue, mapped
from ugm.tracking import EffectiveLimit

__all__ = ["ARGUMENTS", "RESULTS", "VIOLATION_FIELDS", "shared_resource", "violation_of"]

#: Larger vectors are not cached, which bounds the memory of the cache.
_MOST_CACHED_NAMES: Final = 8

_KINDS: Final[Mapping[str, str]] = {kind.value: kind for kind in TrackingType}


def _of_class(
    kind: type,
    plain: Hint,
    to_plain: Callable[[Any], Plain],
    from_plain: Callable[[Plain], object],
) -> Shape:
    """Return the shape of the instances of a class."""

    def checked(value: object) -> Plain:
        if not isinstance(value, kind):
            raise UnsuitableValue
        return to_plain(value)

    return Shape(plain, checked, from_plain)


# Amounts


@lru_cache(maxsize=4096)
def _cached_resource(items: tuple[tuple[str, int], ...]) -> Resource:
    return Resource(dict(items))


def shared_resource(amounts: Mapping[str, int]) -> Resource:
    """Return a resource vector; equal ones are usually one object, because the engine caches values in a vector.

    Raises:
        RequestError: a name has no characters, or more than 256.
    """
    return _cached_resource(tuple(amounts.items())) if len(amounts) <= _MOST_CACHED_NAMES else Resource(amounts)


_RESOURCE: Final = _of_class(Resource, dict[str, int], lambda value: value.amounts, shared_resource)


# Users and kinds of limits


def _user(groups_and_name: Plain) -> UserGroup:
    return UserGroup(*groups_and_name)


def _recorded_user(plain: Plain) -> UserGroup:
    return UserGroup.recorded(*plain)


def _user_shape(from_plain: Callable[[Plain], UserGroup]) -> Shape:
    return _of_class(UserGroup, tuple[str, tuple[str, ...]], lambda user: (user.name, user.groups), from_plain)


def _kind(text: str) -> str:
    return _KINDS.get(text, text)


_KIND: Final = Shape(str, None, _kind)


# Decisions


@final
class _ModelViolation(Violation):
    """A violation of another class, which the client may not have: the leader sends what it has computed."""

    _can_wait: bool
    _text: str
    _rise: LimitRise | None

    @property
    def can_wait(self) -> bool:
        return self._can_wait

    @property
    def rise(self) -> LimitRise | None:
        return self._rise

    def __str__(self) -> str:
        return self._text


def _violation_to_plain(violation: Violation) -> Plain:
    kind, *fields = violation
    if type(violation) is Violation:
        return kind, *fields
    return (kind, violation.can_wait, str(violation), violation.rise), *fields


def violation_of(plain: Plain) -> Violation:
    """Return the exceeded limit of its plain fields."""
    kind, name, queue_path, limit_name, resource, limit, used, requested = plain
    fields = (name, queue_path, limit_name, resource, limit, used, requested)
    if type(kind) is not str:
        kind, can_wait, text, rise = kind
        violation = _ModelViolation(_KINDS.get(kind, kind), *fields)
        violation._can_wait, violation._text = can_wait, text  # noqa: SLF001 - of this module
        violation._rise = None if rise is None else LimitRise(*rise)  # noqa: SLF001 - of this module
        return violation
    # `Violation(...)` takes twice as long.
    return tuple.__new__(Violation, (_KINDS.get(kind, kind), *fields))


def _decision_to_plain(decision: Decision) -> Plain:
    if decision == ALLOWED:
        return True
    return list(map(_violation_to_plain, decision.violations)), decision.evictions


def _decision(plain: Plain) -> Decision:
    return ALLOWED if plain is True else Decision(tuple(map(violation_of, plain[0])), plain[1])


#: What is sent of a violation of another class: its kind, `can_wait`, its text, and the change that helps.
_SPECIAL_KIND: Final[Hint] = tuple[str, bool, str, tuple[int, int | None] | None]
#: The plain type of an exceeded limit.
VIOLATION_FIELDS: Final[Hint] = tuple[str | _SPECIAL_KIND, str, str, str, str | None, int, int, int]
_VIOLATION: Final = _of_class(Violation, VIOLATION_FIELDS, _violation_to_plain, violation_of)
_DECISION: Final = _of_class(
    Decision,
    bool | tuple[tuple[VIOLATION_FIELDS, ...], tuple[str, ...]],
    _decision_to_plain,
    _decision,
)


# Configurations: their stored form, which is also the form in the log


def _config_to_plain(config: PartitionConfig) -> bytes:
    return to_json(config_to_data(config))


def _config(data: bytes) -> PartitionConfig:
    try:
        config = config_from_data(from_json(data))
    except RequestError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise RequestError("config", data, "it is not the stored form of a configuration") from error
    if config is None:
        raise RequestError("config", data, "expected a configuration")
    return config


_CONFIG: Final = _of_class(PartitionConfig, bytes, _config_to_plain, _config)
_SHARED_CONFIG: Final = _CONFIG._replace(from_plain=lru_cache(maxsize=4)(_config))


def _compiled_to_plain(compiled: CompiledConfig) -> Plain:
    return None if compiled.config is None else _config_to_plain(compiled.config)


@lru_cache(maxsize=4)
def _compiled(data: bytes | None) -> CompiledConfig:
    return CompiledConfig.of(None if data is None else _config(data))


def _compiled_in_force(plain: Plain) -> CompiledConfig:
    data, active = plain
    return _compiled(data).with_active(active)


#: A configuration, with the entries of schedules that are in force.
_COMPILED: Final = _of_class(
    CompiledConfig,
    tuple[bytes | None, tuple[int | None, ...] | None],
    lambda compiled: (_compiled_to_plain(compiled), compiled.active),
    _compiled_in_force,
)


# Plans


def _plan_to_plain(plan: ConfigPlan) -> Plain:
    return _compiled_to_plain(plan.compiled), plan.base.version


def _plan(plain: Plain) -> ConfigPlan:
    """Return a plan that can be applied; its effects are not sent."""
    data, base_version = plain
    base = _compiled(None)._replace(version=base_version)
    return ConfigPlan(Changes(), (), (), (), base, CompiledConfig.of(None if data is None else _config(data)))


# A plan of preemption for a request, or one of reductions: a pair in which the other one is missing.

_EITHER_PLAN: Final[Hint] = PreemptionPlan | ReductionPlan


def _pair_of(plan: object) -> tuple[object, object]:
    return (None, plan) if isinstance(plan, ReductionPlan) else (plan, None)


def _plan_of_pair(pair: tuple[PreemptionPlan | None, ReductionPlan | None]) -> PreemptionPlan | ReductionPlan:
    made, reduction = pair
    plan = reduction if made is None else made
    if plan is None:
        raise RequestError("plan", None, "expected a PreemptionPlan or a ReductionPlan")
    return plan


# The two tables

_KNOWN: Final = {
    Resource: _RESOURCE,
    Violation: _VIOLATION,
    Decision: _DECISION,
    Fraction: _of_class(Fraction, tuple[int, int], Fraction.as_integer_ratio, lambda plain: Fraction(*plain)),
    Acl: _of_class(Acl, str, str, Acl.parse),
}
_KNOWN_FIELDS: Final[Mapping[tuple[type, str], Shape]] = {(EffectiveLimit, "kind"): _KIND}

_ARGUMENTS_KNOWN: Final[dict[Hint, Shape]] = {
    **_KNOWN,
    UserGroup: _user_shape(_user),
    PartitionConfig: _CONFIG,
    ConfigPlan: _of_class(ConfigPlan, tuple[bytes | None, str], _plan_to_plain, _plan),
    # The client sends the parts of a request.
    str | AllocationRequest: Shape(str),
}

#: The shapes of arguments. The names of a user are checked, and only known plans can be applied.
ARGUMENTS: Final = Shapes(
    {
        **_ARGUMENTS_KNOWN,
        _EITHER_PLAN: mapped(
            Shapes(_ARGUMENTS_KNOWN, {}).of(tuple[PreemptionPlan | None, ReductionPlan | None]),
            _pair_of,
            _plan_of_pair,
        ),
    },
    {},
)

_RESULTS_KNOWN: Final = {
    **_KNOWN,
    UserGroup: _user_shape(_recorded_user),
    PartitionConfig: _SHARED_CONFIG,
    CompiledConfig: _COMPILED,
    AccountState: _of_class(AccountState, dict[str, int | str | None], AccountState.to_dict, AccountState.from_dict),
    # Plain data for JSON, of quota models.
    Any: Shape(Any),
}
_PLAN_PARTS: Final = Shapes(_RESULTS_KNOWN, {}).of(tuple[CompiledConfig, ConfigPlanParts])

#: The shapes of results.
RESULTS: Final = Shapes(
    {
        **_RESULTS_KNOWN,
        # Not decoded; the operation sends its parts.
        PartitionSnapshot: Shape(Any),
        ConfigPlanInput: mapped(
            _PLAN_PARTS, lambda given: (given.compiled, given.parts()), lambda parts: ConfigPlanInput(*parts)
        ),
    },
    _KNOWN_FIELDS,
)
