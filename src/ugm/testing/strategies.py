"""Hypothesis strategies for trackers and partitions: resources, users, queue paths, configurations and requests.

The values come from a small range, so that users, groups, queues and applications repeat and limits are reached: the
amounts have one digit, and there are three users, four groups and a few queue names.

The configurations are the values that `ugm.load_config` returns, built without a file. They obey the rules of one
queue: a wildcard is the last name of its kind, a group wildcard comes with a named group, no name occurs twice, and
every limit sets something. They may break rules between a queue and the queues above it, which no tracker relies on.

>>> from ugm import Manager
>>> prod = QueueConfig("prod", limits=(LimitConfig(users=("sue",), max_applications=1),))
>>> manager = Manager(PartitionConfig(queues=(QueueConfig("root", queues=(prod,)),)))
>>> manager.increase("root.prod", "app-1", Resource(), UserGroup("sue")).allowed
True
>>> manager.increase("root.prod", "app-2", Resource(), UserGroup("sue")).allowed
False

The strategies of a partition draw complete configurations and requests: ids repeat, quotas are reached, and queues
change between parents and leaves. Limits may exceed those of the queues above; no partition relies on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Final

from hypothesis import strategies as st

from ugm import AllocationRequest, Request, Resource, UserGroup
from ugm.configuration import (
    ChildTemplate,
    FilterConfig,
    LimitConfig,
    LimitExtensions,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    QueueResources,
)
from ugm.identity import ROOT, WILDCARD

__all__ = [
    "allocation_requests",
    "full_partitions",
    "limits",
    "partitions",
    "queue_paths",
    "quotas",
    "requests",
    "resources",
    "users",
]

#: The resources of requests and limits.
RESOURCES: Final = ("memory", "vcore", "nvidia.com/gpu")

#: The users of requests.
USERS: Final = ("ana", "bob", "cleo")

#: The groups of the users.
GROUPS: Final = ("dev", "ops", "science", "test")

#: The largest amount of a request.
_LARGEST: Final = 9

#: Limits on numbers of applications or requests; 0 for none.
_SOME_COUNT: Final = st.sampled_from((0, 0, 1, 2, 3))

#: One name is a prefix of another.
_QUEUES: Final = ("a", "ab", "b")


def resources(
    names: Sequence[str] = RESOURCES, *, smallest: int = 0, largest: int = _LARGEST
) -> st.SearchStrategy[Resource]:
    """Draw a vector with some of *names*; amounts may be 0."""
    amounts = st.none() | st.integers(smallest, largest)
    return st.tuples(*(amounts for _ in names)).map(lambda drawn: _resource(tuple(names), drawn))


# Equal values are mostly the same object. A scheduler that caches its users and sizes also passes the same objects, and
# trackers have special code for that.


@lru_cache(maxsize=1 << 14)
def _resource(names: tuple[str, ...], amounts: tuple[int | None, ...]) -> Resource:
    return Resource({name: amount for name, amount in zip(names, amounts, strict=True) if amount is not None})


@lru_cache(maxsize=1 << 14)
def _user(name: str, groups: tuple[str, ...]) -> UserGroup:
    return UserGroup(name, groups)


def users(names: Sequence[str] = USERS) -> st.SearchStrategy[UserGroup]:
    """Draw a user with any subset of the groups, in any order."""
    members = st.lists(st.sampled_from(GROUPS), unique=True, max_size=len(GROUPS)).map(tuple)
    return st.builds(_user, st.sampled_from(names), members)


@st.composite
def limits(draw: st.DrawFn) -> tuple[LimitConfig, ...]:
    """Draw valid limits of one queue."""
    counts, amounts = st.integers(1, 3), resources(largest=3 * _LARGEST)
    some = amounts.map(lambda drawn: drawn if any(drawn.values()) else Resource(memory=1))
    most = st.tuples(st.none(), counts) | st.tuples(some, st.just(0)) | st.tuples(some, counts)
    names = st.sampled_from([("users", name) for name in USERS] + [("groups", name) for name in GROUPS])
    named = draw(st.lists(names, max_size=4, unique=True))
    # A wildcard comes after the names of its kind, and that of groups only after a named group.
    for kind in ("users", "groups"):
        if draw(st.booleans()) and (kind == "users" or kind in dict(named)):
            named.append((kind, WILDCARD))
    owners = [((name,), ()) if kind == "users" else ((), (name,)) for kind, name in named]
    return tuple(LimitConfig(*each, *draw(most)) for each in owners)


def _pending_limits() -> st.SearchStrategy[LimitExtensions]:
    """Draw limits on pending work."""
    amounts: st.SearchStrategy[Resource | None] = st.none() | resources(largest=2 * _LARGEST)
    return st.builds(LimitExtensions, max_pending=_SOME_COUNT, max_pending_resources=amounts, max_submitted=_SOME_COUNT)


def partitions(depth: int = 3) -> st.SearchStrategy[PartitionConfig]:
    """Draw a configuration with at most *depth* levels of queues, including the root."""
    return _queue(ROOT, depth).map(lambda root: PartitionConfig(queues=(root,)))


@st.composite
def _queue(draw: st.DrawFn, name: str, depth: int) -> QueueConfig:
    """Draw a queue with limits, and the queues below it."""
    below = draw(st.lists(st.sampled_from(_QUEUES), unique=True, max_size=2)) if depth > 1 else ()
    own = draw(limits())
    return QueueConfig(name, limits=own, queues=tuple(draw(_queue(child, depth - 1)) for child in below))


def queue_paths(partition: PartitionConfig | None = None) -> st.SearchStrategy[str]:
    """Draw a valid queue path, mostly of a queue of *partition*, in any case of letters."""
    names = [(), *product(_QUEUES), *product(_QUEUES, repeat=2), *product(_QUEUES, repeat=3)]
    anywhere = [".".join((ROOT, *below)) for below in names]
    known = [path for path, _ in partition.root.walk()] if partition is not None else anywhere
    return st.sampled_from(known) | st.sampled_from([*anywhere, *map(str.title, anywhere)])


def requests(partition: PartitionConfig | None = None) -> st.SearchStrategy[Request]:
    """Draw an increase; an application always has the same user, but its queue and groups may differ."""
    return st.builds(
        lambda path, number, usage, user: Request(path, f"{user.name}-{number}", usage, user),
        queue_paths(partition),
        st.integers(1, 3),
        resources(),
        users(),
    )


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
    (PlacementRule("Provided"), PlacementRule("user", create=True, parent=_FIXED)),
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


@st.composite
def _full_queue(draw: st.DrawFn, name: str, depth: int, extensions: st.SearchStrategy[LimitExtensions]) -> QueueConfig:
    """Draw a queue with everything below it."""
    templates = st.builds(ChildTemplate, resources=quotas(), max_applications=_SOME_COUNT)
    # A level may be missing, so that a path is a leaf in one configuration and a parent in another.
    below = draw(_BELOW) if depth > 1 else ()
    return QueueConfig(
        draw(st.sampled_from((name, name.title()))) if name != ROOT else name,
        # Most queues have no limits.
        limits=tuple(replace(one, ugm=draw(extensions)) for one in draw(st.just(()) | limits())),
        ugm=draw(extensions),
        queues=tuple(draw(_full_queue(child, depth - 1, extensions)) for child in below),
        resources=draw(quotas()),
        max_applications=draw(_SOME_COUNT),
        child_template=draw(st.none() | templates),
        submit_acl=draw(st.sampled_from(_LISTS)),
        admin_acl=draw(st.sampled_from(_LISTS)),
        declared_parent=draw(st.booleans()),
    )


@st.composite
def full_partitions(draw: st.DrawFn) -> PartitionConfig:
    """Draw a configuration with quotas, limits, templates, access lists and placement rules.

    Its queues are at most three levels deep, the root among them.
    """
    # Most configurations do not limit pending work.
    extensions = draw(st.sampled_from((st.just(LimitExtensions()), st.just(LimitExtensions()), _pending_limits())))
    root = draw(_full_queue(ROOT, 3, extensions))
    return PartitionConfig(queues=(root,), placement_rules=draw(st.sampled_from(_RULES)))


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
        # The naive model has neither labels, which are for people, nor families.
        st.none(),
        st.none(),
        st.just(()),
    )
