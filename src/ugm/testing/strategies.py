"""Hypothesis strategies for what goes into a tracker: resources, users, queue paths, configurations, requests.

Everything is drawn from a small world, so that the same users, groups, queues and applications meet again and again and
limits bite: amounts are one-digit numbers, and there are three users, four groups and a handful of queue names.

The configurations are plain frozen values with the attributes that a tracker reads; they look like those of
`ugm.load_config` to it, and need no file. They keep the rules of one queue: a wildcard is the last name of its kind, a
group wildcard stands beside a named group, no name is given twice, and every entry limits something. Rules between a
queue and the queues above it are not kept; no tracker relies on them.

>>> from ugm import Manager
>>> prod = DrawnQueue("prod", limits=(DrawnLimit(users=("sue",), max_applications=1),))
>>> manager = Manager(DrawnPartition(DrawnQueue("root", queues=(prod,))))
>>> manager.increase("root.prod", "app-1", Resource(), UserGroup("sue")).allowed
True
>>> manager.increase("root.prod", "app-2", Resource(), UserGroup("sue")).allowed
False
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final, final

from hypothesis import strategies as st

from ugm import Request, Resource, UserGroup
from ugm.identity import ROOT, WILDCARD

__all__ = [
    "APPLICATIONS",
    "GROUPS",
    "RESOURCES",
    "USERS",
    "DrawnAmounts",
    "DrawnFilter",
    "DrawnLimit",
    "DrawnPartition",
    "DrawnQueue",
    "DrawnRule",
    "DrawnTemplate",
    "limits",
    "partitions",
    "queue_paths",
    "request_streams",
    "requests",
    "resource_names",
    "resources",
    "users",
]

#: The resources that requests ask for and limits name.
RESOURCES: Final = ("memory", "vcore", "nvidia.com/gpu")

#: Who asks.
USERS: Final = ("ana", "bob", "cleo")

#: What they are members of.
GROUPS: Final = ("dev", "ops", "science", "test")

#: How many applications each user has in `requests`.
APPLICATIONS: Final = 3

#: The most of a resource that one request asks.
_LARGEST: Final = 9

#: One name begins like another.
_QUEUES: Final = ("a", "ab", "b")


@final
@dataclass(frozen=True, slots=True)
class DrawnLimit:
    """One entry in the limits of a queue.

    Attributes:
        users: whom it limits, each by itself; a wildcard ``*`` comes last.
        groups: likewise.
        max_resources: what each may use; None does not limit resources.
        max_applications: how many applications each may run; 0 does not limit them.
    """

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max_resources: Resource | None = None
    max_applications: int = 0


@final
@dataclass(frozen=True, slots=True)
class DrawnAmounts:
    """What a queue may use, and what it is guaranteed; None for no limit, and for no guarantee."""

    max: Resource | None = None
    guaranteed: Resource | None = None


@final
@dataclass(frozen=True, slots=True)
class DrawnTemplate:
    """What queues get that placement creates."""

    resources: DrawnAmounts = DrawnAmounts()
    max_applications: int = 0


@final
@dataclass(frozen=True, slots=True)
class DrawnQueue:
    """A queue with its limits and the queues below it; all that follows matters to a `ugm.Partition` alone."""

    name: str
    limits: tuple[DrawnLimit, ...] = ()
    queues: tuple[DrawnQueue, ...] = ()
    resources: DrawnAmounts = DrawnAmounts()
    max_applications: int = 0
    child_template: DrawnTemplate | None = None
    submit_acl: str = ""
    admin_acl: str = ""
    declared_parent: bool = False

    @property
    def parent(self) -> bool:
        """Whether queues may be below it, and applications therefore not in it."""
        return self.declared_parent or bool(self.queues) or self.name == ROOT


@final
@dataclass(frozen=True, slots=True)
class DrawnFilter:
    """Whom a placement rule applies to."""

    type: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class DrawnRule:
    """A placement rule."""

    name: str
    create: bool = False
    value: str = ""
    parent: DrawnRule | None = None
    filter: DrawnFilter = DrawnFilter()


@final
@dataclass(frozen=True, slots=True)
class DrawnPartition:
    """A partition: the root of its queues, and how applications find theirs."""

    root: DrawnQueue = DrawnQueue(ROOT)
    placement_rules: tuple[DrawnRule, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The full path of every queue, parents before their children."""
        return tuple(_paths(self.root, ROOT))


def _paths(queue: DrawnQueue, path: str) -> Iterator[str]:
    yield path
    for child in queue.queues:
        yield from _paths(child, f"{path}.{child.name}")


def resource_names() -> st.SearchStrategy[str]:
    """Draw the name of a resource: one of the usual ones, or any text that may be one."""
    return st.sampled_from(RESOURCES) | st.text(min_size=1, max_size=8)


def resources(
    names: Sequence[str] = RESOURCES, *, smallest: int = 0, largest: int = _LARGEST
) -> st.SearchStrategy[Resource]:
    """Draw a vector that has some of *names*; a name may be missing, and an amount may be 0."""
    amounts = st.none() | st.integers(smallest, largest)
    return st.tuples(*(amounts for _ in names)).map(lambda drawn: _resource(tuple(names), drawn))


# Equal values are mostly one object: a scheduler that keeps its users and sizes passes the same ones again and again,
# and that takes other ways through a tracker than values which are made for each request.


@lru_cache(maxsize=1 << 14)
def _resource(names: tuple[str, ...], amounts: tuple[int | None, ...]) -> Resource:
    return Resource({name: amount for name, amount in zip(names, amounts, strict=True) if amount is not None})


@lru_cache(maxsize=1 << 14)
def _user(name: str, groups: tuple[str, ...]) -> UserGroup:
    return UserGroup(name, groups)


def users(names: Sequence[str] = USERS, groups: Sequence[str] = GROUPS) -> st.SearchStrategy[UserGroup]:
    """Draw a user with none, some or all of *groups*, in any order."""
    members = st.lists(st.sampled_from(groups), unique=True, max_size=len(groups)).map(tuple)
    return st.builds(_user, st.sampled_from(names), members)


def limits() -> st.SearchStrategy[tuple[DrawnLimit, ...]]:
    """Draw the limits of one queue, which keep the rules of one queue."""
    counts = st.integers(1, 3)
    none: st.SearchStrategy[Resource | None] = st.none()
    amounts: st.SearchStrategy[Resource | None] = resources(largest=3 * _LARGEST).map(
        lambda drawn: drawn if any(drawn.values()) else Resource(memory=1)
    )
    most = st.tuples(none, counts) | st.tuples(amounts, st.just(0)) | st.tuples(amounts, counts)
    names = st.sampled_from([("users", name) for name in USERS] + [("groups", name) for name in GROUPS])
    named = st.lists(st.tuples(names, most), max_size=4, unique_by=lambda entry: entry[0])
    return st.tuples(named, st.none() | most, st.none() | most).map(lambda drawn: _in_order(*drawn))


#: What an entry allows: resources and applications.
_Most = tuple[Resource | None, int]


def _in_order(
    named: list[tuple[tuple[str, str], _Most]], all_users: _Most | None, all_groups: _Most | None
) -> tuple[DrawnLimit, ...]:
    entries = [
        DrawnLimit(**{kind: (name,)}, max_resources=most[0], max_applications=most[1]) for (kind, name), most in named
    ]
    if all_users is not None:
        entries.append(DrawnLimit((WILDCARD,), (), *all_users))
    if all_groups is not None and any(entry.groups for entry in entries):
        entries.append(DrawnLimit((), (WILDCARD,), *all_groups))
    return tuple(entries)


def partitions(depth: int = 3) -> st.SearchStrategy[DrawnPartition]:
    """Draw a configuration whose queues are at most *depth* levels deep, the root among them."""
    return _queues(depth).map(lambda drawn: DrawnPartition(DrawnQueue(ROOT, *drawn)))


def _queues(depth: int) -> st.SearchStrategy[tuple[tuple[DrawnLimit, ...], tuple[DrawnQueue, ...]]]:
    """Draw the limits of a queue and the queues below it."""
    if depth <= 1:
        return st.tuples(limits(), st.just(()))
    below = st.dictionaries(st.sampled_from(_QUEUES), _queues(depth - 1), max_size=2)
    return st.tuples(limits(), below.map(lambda drawn: tuple(DrawnQueue(name, *rest) for name, rest in drawn.items())))


def queue_paths(partition: DrawnPartition | None = None) -> st.SearchStrategy[str]:
    """Draw a well-formed queue path: mostly of a queue of *partition*, if one is given, in small letters or not."""
    names = [(), *product(_QUEUES), *product(_QUEUES, repeat=2), *product(_QUEUES, repeat=3)]
    anywhere = [".".join((ROOT, *below)) for below in names]
    known = partition.paths if partition is not None else anywhere
    return st.sampled_from(known) | st.sampled_from([*anywhere, *map(str.title, anywhere)])


def requests(partition: DrawnPartition | None = None) -> st.SearchStrategy[Request]:
    """Draw an increase: an application keeps to one user, but not to one queue, nor the user to the same groups."""
    return st.builds(
        lambda path, number, usage, user: Request(path, f"{user.name}-{number}", usage, user),
        queue_paths(partition),
        st.integers(1, APPLICATIONS),
        resources(),
        users(),
    )


def request_streams(partition: DrawnPartition | None = None, *, longest: int = 20) -> st.SearchStrategy[list[Request]]:
    """Draw up to *longest* increases, one after the other."""
    return st.lists(requests(partition), max_size=longest)
