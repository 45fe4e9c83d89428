"""JSON schemas of responses, derived from annotations.

The annotation of an endpoint names the class of its result. The schema of a class has its fields, as JSON has them;
`_CHANGED` lists the classes of the library whose `to_dict` returns others. With the annotation None, a subclass states
that JSON lacks a field. `Annotated[Object, Kind]` is a dictionary with the fields of a class.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Protocol,
    TypeAlias,
    Union,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

from ugm._json_values import JsonMapping
from ugm.budgets import AccountState
from ugm.configuration import LimitConfig
from ugm.decision import LimitRise, Violation
from ugm.fairness.rank import RankExplanation
from ugm.partition import (
    Admission,
    ConfigPlan,
    LimitUtilization,
    ReclaimPlan,
    ScheduledChange,
    ThresholdCrossed,
    Turn,
)
from ugm.partition.answers.reports import Holder, OwnedAllocation
from ugm.partition.config.changes import LimitRisk
from ugm.partition.rows import Allocation
from ugm.preemption import PreemptionPlan, ReductionPlan, ReductionTimer
from ugm.queues import Placement
from ugm.resources import Resource

__all__ = ["Exact", "Object", "Schema", "Schemas", "ViolationWithHolders", "reference", "with_text"]

#: JSON Schema of 2020-12, as in OpenAPI 3.1.
Schema: TypeAlias = JsonMapping
#: An object with any fields.
Object: TypeAlias = dict[str, Any]
#: An amount that is a fraction if weights are: a text such as ``7/2``.
Exact: TypeAlias = Annotated[str, {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]+/[0-9]+$"}]}]

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "number"}
_INTEGER: Final[Schema] = {"type": "integer"}
#: The schemas of basic types. A share is a fraction in Python, and a number in JSON.
_BASIC: Final[Mapping[Any, Schema]] = {
    str: _TEXT,
    int: _INTEGER,
    bool: {"type": "boolean"},
    float: _NUMBER,
    Fraction: _NUMBER,
    Resource: {"type": "object", "additionalProperties": _INTEGER},
    NoneType: {"type": "null"},
    Any: {},
    object: {},
    Placement: {"type": "object"},
}


class ViolationWithHolders(Violation):
    """An exceeded limit in an explanation."""

    holders: tuple[Holder, ...]


#: Fields of classes in JSON: those that differ from the annotations or are computed; None for those that JSON lacks.
_CHANGED: Final[Mapping[Any, Mapping[str, Any]]] = {
    Violation: {"shortfall": int, "can_wait": bool, "rise": LimitRise | None, "text": str},
    LimitConfig: {"ugm": None},
    LimitUtilization: {"pending": Resource, "pending_allocations": int},
    OwnedAllocation: {"allocation": None, **get_type_hints(Allocation)},
    Turn: {
        **dict.fromkeys(("request", "keys", "reservation")),
        "allocation_id": str,
        "application_id": str,
        "usage": Resource,
        "priority": int,
        "node": str | None,
        "label": str | None,
        "reasons": list[str],
        "start": int | None,
        "reserved_for": list[str],
    },
    ReclaimPlan: {
        **dict.fromkeys(("subject", "usage", "priority", "preemptible", "duration", "free_on_node")),
        "text": str,
    },
    PreemptionPlan: {
        **dict.fromkeys(("inputs", "placed", "protected", "is_pending", "preemptible", "duration", "free_on_node")),
        "within_queue": None,
        "request": Object,
        "decision": Object | None,
        "cost": Object | None,
        "others": dict[str, str],
        "text": str,
    },
    ReductionPlan: {"inputs": None, "overshoot": None, "text": str},
    ReductionTimer: {"due": int},
    ScheduledChange: {"changes": Object, "text": str},
    ConfigPlan: {
        "changes": Object,
        "base": None,
        "compiled": None,
        "text": str,
        "risks": list[LimitRisk],
        "warnings": list[str],
    },
    ThresholdCrossed: {"used": Exact, "limit": Exact, "share": float},
    AccountState: {**dict.fromkeys(("limit", "settled", "committed", "remaining", "rate"), Exact), "share": float},
    Admission: {"admitted": bool, "placement": Object, "decision": Object | None, "summary": str, "for_people": str},
    RankExplanation: {"steps": list[Object], "text": str},
}


class _Describable(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def with_text(value: _Describable) -> Object:
    """Return a plan for JSON, with its text."""
    return {**value.to_dict(), "text": str(value)}


def reference(name: str) -> Schema:
    """Return a reference to a component of the description."""
    return {"$ref": f"#/components/schemas/{name}"}


@final
class Schemas:
    """The schemas of annotations, and the components to which they refer.

    Attributes:
        components: the schemas of classes by name.
    """

    def __init__(self) -> None:
        self.components: Final[dict[str, Schema]] = {}

    def of(self, kind: Any) -> Schema:  # noqa: ANN401, PLR0911 - an annotation; one for each form
        """Return the schema of an annotation."""
        origin, arguments = get_origin(kind), get_args(kind)
        if hasattr(kind, "__metadata__"):
            given = kind.__metadata__[0]
            return given if isinstance(given, dict) else self.of(given)
        if origin is None and kind in _BASIC:
            return _BASIC[kind]
        if origin is Literal:
            return {"type": "string", "enum": list(arguments)}
        if NoneType in arguments:
            return {"anyOf": [self.of(arguments[0]), _BASIC[NoneType]]}
        if origin in (Union, UnionType):
            # Of two numbers.
            return _NUMBER
        if origin is not None and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if origin is not None:
            return {"type": "array", "items": self.of(arguments[0])}
        if issubclass(kind, StrEnum):
            return {"type": "string", "enum": [member.value for member in kind]}
        return self._component(kind)

    def _component(self, kind: type) -> Schema:
        name = kind.__name__
        if name not in self.components:
            annotated, hints = get_type_hints(kind, include_extras=True), dict[str, Any]()
            for one in reversed(kind.__mro__):
                own = inspect.get_annotations(one)
                hints |= {field: annotated[field] for field in own} | dict(_CHANGED.get(one, {}))
            shown = {field: hint for field, hint in hints.items() if hint not in (None, NoneType)}
            # First, because it may refer to itself.
            self.components[name] = {}
            self.components[name] = {
                "type": "object",
                "properties": {field: self.of(hint) for field, hint in shown.items()},
                "required": sorted(shown.keys() - getattr(kind, "__optional_keys__", frozenset())),
                "additionalProperties": False,
            }
        return reference(name)
