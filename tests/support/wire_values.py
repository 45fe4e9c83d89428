"""Hypothesis strategies for everything that travels between a client and the leader, derived from annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from ugm import Decision, Resource, TrackingType, UserGroup, Violation
from ugm.configuration import PartitionConfig
from ugm.partition import ConfigPlan
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_changes import Changes
from ugm.queues import Acl
from ugm.testing import full_partitions
from ugm.tracking import EffectiveLimit

__all__ = ["values_of"]

#: Nearly all texts are names. A few contain characters that MessagePack cannot represent.
TEXTS: Final = st.sampled_from(["a", "root.a", "memory"]) | st.text(st.characters(), max_size=5)
NAMES: Final = TEXTS.filter(lambda text: text not in ("", "*"))
#: Nearly all integers are short. A few have more than 64 bits.
INTEGERS: Final = st.integers(-9, 2**40) | st.integers(-(2**70), 2**70)
RESOURCES: Final = st.dictionaries(NAMES, INTEGERS, max_size=3).map(Resource)
KINDS: Final = st.sampled_from([*TrackingType, "elastic", "suspended quota model"])


def compiled() -> st.SearchStrategy[CompiledConfig]:
    """Draw a compiled configuration."""
    return (st.none() | full_partitions()).map(CompiledConfig.of)


def violations() -> st.SearchStrategy[Violation]:
    """Draw an exceeded limit."""
    return st.builds(
        Violation, KINDS, TEXTS, TEXTS, TEXTS, st.none() | TEXTS, limit=INTEGERS, used=INTEGERS, requested=INTEGERS
    )


KNOWN: Final[Mapping[Any, st.SearchStrategy[Any]]] = {
    NoneType: st.none(),
    str: TEXTS,
    int: INTEGERS,
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    object: st.none() | TEXTS | INTEGERS | RESOURCES,
    Resource: RESOURCES,
    UserGroup: st.builds(UserGroup, NAMES, st.lists(NAMES, max_size=3)),
    Violation: violations(),
    Decision: st.builds(
        Decision, st.lists(violations(), max_size=2).map(tuple), st.lists(TEXTS, max_size=2).map(tuple)
    ),
    Fraction: st.fractions(),
    # Plain data of a quota model.
    Any: st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXTS,
    Acl: st.sampled_from([Acl.parse(text) for text in (" ", "*", "sue", "sue,bob dev", " dev")]),
    PartitionConfig: full_partitions(),
    CompiledConfig: compiled(),
    # The service applies the configuration of a plan, and nothing else of it.
    ConfigPlan: st.builds(
        ConfigPlan, st.just(Changes()), *[st.just(())] * 3, compiled(), compiled(), *[st.just(())] * 3
    ),
}


def values_of(hint: Any, depth: int = 2) -> st.SearchStrategy[Any]:  # noqa: ANN401 - an annotation
    """Draw values of an annotation.

    Args:
        hint: the annotation.
        depth: how deep classes that contain themselves are nested.
    """
    if hint in KNOWN:
        return KNOWN[hint]
    origin: Any = get_origin(hint)
    parts = get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of([values_of(part, depth) for part in parts])
    if origin is tuple and parts[1:] != (...,):
        return st.tuples(*(values_of(part, depth) for part in parts))
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(TEXTS, values_of(parts[1], depth), max_size=2)
    if origin is not None and issubclass(origin, Iterable):
        items = st.lists(values_of(parts[0], depth - 1), max_size=2) if depth > 0 else st.just([])
        return items if origin is list else items.map(tuple)
    return objects_of(hint, depth)


def objects_of(kind: Any, depth: int) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a class
    """Draw objects of a class with annotated fields."""
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else list(kind._fields)
    hints = get_type_hints(kind)
    special = {"kind": KINDS} if kind is EffectiveLimit else {}
    make: Callable[..., Any] = kind
    return st.builds(make, *(special[name] if name in special else values_of(hints[name], depth) for name in names))
