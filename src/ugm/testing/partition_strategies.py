"""Hypothesis strategies for a partition: complete configurations, and requests.

The values come from a small range, as in `ugm.testing.strategies`: a few queues, applications and allocations, and
one-digit amounts. So quotas are reached, ids repeat, and queues change between parents and leaves. Limits may exceed
those of the queues above; no partition relies on that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hypothesis import strategies as st

from ugm import AllocationRequest, Resource
from ugm.configuration import (
    ChildTemplate,
    FilterConfig,
    LimitExtensions,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    QueueResources,
)
from ugm.identity import ROOT
from ugm.testing.strategies import limits, pending_limits, resources

__all__ = ["ALLOCATIONS", "SUBMITTED", "allocation_requests", "full_partitions", "placement_rules", "quotas"]

#: The ids of applications.
SUBMITTED: Final = tuple(f"app-{number}" for number in range(1, 6))

#: The ids of allocations.
ALLOCATIONS: Final = tuple(f"x-{number}" for number in range(1, 9))

_PROVIDED: Final = PlacementRule("provided", create=True)
_FIXED: Final = PlacementRule("fixed", create=True, value="ab")
_NAMESPACE: Final = PlacementRule("tag", create=True, value="namespace")
#: Lists of placement rules: none, one kind each, nested, filtered, and one after the other.
_RULES: Final[tuple[tuple[PlacementRule, ...], ...]] = (
    (),
    (_PROVIDED,),
    (
        PlacementRule("Provided"),
        PlacementRule("user", create=True, parent=PlacementRule("fixed", create=True, value="ab")),
    ),
    (_NAMESPACE, PlacementRule("fixed", value="root.a")),
    (PlacementRule("tag", create=True, value="namespace", parent=PlacementRule("user", create=True)), _PROVIDED),
    (PlacementRule("provided", create=True, parent=PlacementRule("fixed", value="root.b")), _PROVIDED),
    (PlacementRule("user", create=True, filter=FilterConfig("deny", ("ana",), ("dev",))), _PROVIDED),
    (PlacementRule("provided", create=True, filter=FilterConfig("allow", ("ana", "bob"))), _NAMESPACE),
)

#: Which queues are below a queue.
_BELOW: Final = st.sampled_from(((), ("a",), ("b",), ("a", "b"), ("b", "ab"), ("a", "ab")))

#: Most lists allow every user.
_LISTS: Final = ("", "", "", "", "*", "ana", "bob dev", " ops,science", " ")


def quotas() -> st.SearchStrategy[QueueResources]:
    """Draw the quota of a queue; the limit, the guaranteed amounts or both may be missing."""
    return st.just(QueueResources()) | st.builds(
        QueueResources, max=resources(largest=20), guaranteed=st.none() | resources()
    )


#: Most queues have no limits.
_SOME_LIMITS: Final = st.just(()) | limits()
_NO_EXTENSIONS: Final = LimitExtensions()
_SOME_COUNT: Final = st.sampled_from((0, 0, 1, 2, 3))


@st.composite
def _queue(draw: st.DrawFn, name: str, depth: int, extensions: st.SearchStrategy[LimitExtensions]) -> QueueConfig:
    """Draw a queue with everything below it."""
    templates = st.builds(ChildTemplate, resources=quotas(), max_applications=_SOME_COUNT)
    # A level may be missing, so that a path is a leaf in one configuration and a parent in another.
    below = draw(_BELOW) if depth > 1 else ()
    return QueueConfig(
        draw(st.sampled_from((name, name.title()))) if name != ROOT else name,
        limits=tuple(replace(one, ugm=draw(extensions)) for one in draw(_SOME_LIMITS)),
        ugm=draw(extensions),
        queues=tuple(draw(_queue(child, depth - 1, extensions)) for child in below),
        resources=draw(quotas()),
        max_applications=draw(_SOME_COUNT),
        child_template=draw(st.none() | templates),
        submit_acl=draw(st.sampled_from(_LISTS)),
        admin_acl=draw(st.sampled_from(_LISTS)),
        declared_parent=draw(st.booleans()),
    )


def placement_rules() -> st.SearchStrategy[tuple[PlacementRule, ...]]:
    """Draw the placement rules of a partition."""
    return st.sampled_from(_RULES)


@st.composite
def full_partitions(draw: st.DrawFn, depth: int = 3) -> PartitionConfig:
    """Draw a configuration with quotas, limits, templates, access lists and placement rules.

    Its queues are at most *depth* levels deep, the root among them.
    """
    # Most configurations do not limit pending work.
    extensions = draw(st.sampled_from((st.just(_NO_EXTENSIONS), st.just(_NO_EXTENSIONS), pending_limits())))
    root = draw(_queue(ROOT, depth, extensions))
    return PartitionConfig(queues=(root,), placement_rules=draw(placement_rules()))


def allocation_requests(usages: st.SearchStrategy[Resource] | None = None) -> st.SearchStrategy[AllocationRequest]:
    """Draw an allocation request, mostly with default options."""
    return st.builds(
        AllocationRequest,
        st.sampled_from(ALLOCATIONS),
        st.sampled_from(SUBMITTED),
        resources() if usages is None else usages,
        st.sampled_from((False, False, False, True)),
        st.sampled_from((0, 0, 0, 5)),
        st.sampled_from((True, True, True, False)),
        st.sampled_from((None, None, None, 60)),
        st.sampled_from((None, None, None, "n-1", "n-2")),
        # Labels are for people, and the naive model has none.
        st.none(),
    )
