"""Hypothesis strategies for what goes into a `ugm.Partition`: configurations with everything, and asks.

The world is as small as that of `ugm.testing.strategies`: a handful of queues, applications and allocations, one-digit
amounts, so that quotas bite, ids come again, and queues come, go, and change between parents and leaves. Rules between
a queue and the queues above it are not kept; no partition relies on them.
"""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from ugm import AllocationRequest, Resource
from ugm.identity import ROOT
from ugm.testing.strategies import (
    DrawnAmounts,
    DrawnFilter,
    DrawnPartition,
    DrawnQueue,
    DrawnRule,
    DrawnTemplate,
    limits,
    resources,
)

__all__ = ["ALLOCATIONS", "SUBMITTED", "allocation_requests", "full_partitions", "placement_rules", "quotas"]

#: The ids of applications.
SUBMITTED: Final = tuple(f"app-{number}" for number in range(1, 6))

#: The ids of allocations.
ALLOCATIONS: Final = tuple(f"x-{number}" for number in range(1, 9))

_PROVIDED: Final = DrawnRule("provided", create=True)
_NAMESPACE: Final = DrawnRule("tag", create=True, value="namespace")
#: Lists of placement rules: none, one kind each, nested, filtered, and one after the other.
_RULES: Final[tuple[tuple[DrawnRule, ...], ...]] = (
    (),
    (_PROVIDED,),
    (DrawnRule("Provided"), DrawnRule("user", create=True, parent=DrawnRule("fixed", create=True, value="ab"))),
    (_NAMESPACE, DrawnRule("fixed", value="root.a")),
    (DrawnRule("tag", create=True, value="namespace", parent=DrawnRule("user", create=True)), _PROVIDED),
    (DrawnRule("provided", create=True, parent=DrawnRule("fixed", value="root.b")), _PROVIDED),
    (DrawnRule("user", create=True, filter=DrawnFilter("deny", ("ana",), ("dev",))), _PROVIDED),
    (DrawnRule("provided", create=True, filter=DrawnFilter("allow", ("ana", "bob"))), _NAMESPACE),
)

#: Which queues are below a queue.
_BELOW: Final = st.sampled_from(((), ("a",), ("b",), ("a", "b"), ("b", "ab"), ("a", "ab")))

#: Nobody is kept out more often than not.
_LISTS: Final = ("", "", "", "", "*", "ana", "bob dev", " ops,science", " ")


def quotas() -> st.SearchStrategy[DrawnAmounts]:
    """Draw what a queue may use and is guaranteed, either or both of which may be left out."""
    return st.just(DrawnAmounts()) | st.builds(DrawnAmounts, resources(largest=20), st.none() | resources())


#: What many queues have nothing of.
_SOME_LIMITS: Final = st.just(()) | limits()
_SOME_COUNT: Final = st.sampled_from((0, 0, 1, 2, 3))


@st.composite
def _queue(draw: st.DrawFn, name: str, depth: int) -> DrawnQueue:
    """Draw a queue with everything below it."""
    # A level may be left out, so that a path is a leaf in one configuration and a parent in another.
    below = draw(_BELOW) if depth > 1 else ()
    return DrawnQueue(
        draw(st.sampled_from((name, name.title()))) if name != ROOT else name,
        draw(_SOME_LIMITS),
        tuple(draw(_queue(child, depth - 1)) for child in below),
        draw(quotas()),
        draw(_SOME_COUNT),
        DrawnTemplate(draw(quotas()), draw(_SOME_COUNT)) if draw(st.booleans()) else None,
        *draw(st.tuples(st.sampled_from(_LISTS), st.sampled_from(_LISTS))),
        declared_parent=draw(st.booleans()),
    )


def placement_rules() -> st.SearchStrategy[tuple[DrawnRule, ...]]:
    """Draw the placement rules of a partition."""
    return st.sampled_from(_RULES)


@st.composite
def full_partitions(draw: st.DrawFn, depth: int = 3) -> DrawnPartition:
    """Draw a configuration with quotas, limits, templates, access lists and placement rules.

    Its queues are at most *depth* levels deep, the root among them.
    """
    return DrawnPartition(draw(_queue(ROOT, depth)), draw(placement_rules()))


def allocation_requests(usages: st.SearchStrategy[Resource] | None = None) -> st.SearchStrategy[AllocationRequest]:
    """Draw an allocation of an application: mostly a plain one."""
    return st.builds(
        AllocationRequest,
        st.sampled_from(ALLOCATIONS),
        st.sampled_from(SUBMITTED),
        resources() if usages is None else usages,
        st.sampled_from((False, False, False, True)),
        st.sampled_from((0, 0, 0, 5)),
        st.sampled_from((True, True, True, False)),
    )
