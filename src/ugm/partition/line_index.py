"""Sums of usage by user, group and queue, derived from those of an earlier moment.

The problem: a view of a large partition needs the sums over all applications, although few of them have changed since
the last view.

The idea: an index takes over the sums of an earlier index, and computes again only those whose lines have changed.

Invariant: an index that was derived in several steps equals one that was derived in one step. Users, groups and
queues whose lines have not changed keep their objects, so that callers can recognise them by identity.

The cost: one look-up for each line. The sums of a user or group with a changed line take time proportional to the
number of its lines, and those of queues to the number of changed lines.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, Protocol, Self, TypeVar

from ugm.identity import ancestors, is_below
from ugm.resources import Resource, sum_of

__all__ = [
    "CooperativeIteration",
    "Line",
    "LineIndex",
    "UsageSum",
    "changed_keys",
    "lines_below",
    "uninterrupted",
    "with_changes",
]

#: The number of rows that are compared between two pauses.
_BLOCK: Final = 500

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)
_Row = TypeVar("_Row")


class CooperativeIteration(Protocol):
    """A function that wraps the items of a long loop, for example to pause now and then."""

    def __call__(self, items: Iterable[_T], /) -> Iterable[_T]:
        """Return the same items."""
        ...


def uninterrupted(items: Iterable[_T], /) -> Iterable[_T]:
    """Return the items without pauses."""
    return items


class Line(Protocol):
    """The usage, or the pending allocations, of one application."""

    @property
    def queue_path(self) -> str:
        """The queue of the application."""
        ...

    @property
    def user_name(self) -> str:
        """The user of the application."""
        ...

    @property
    def group_name(self) -> str | None:
        """The group that is charged; None for none."""
        ...

    @property
    def used(self) -> Mapping[str, int]:
        """The amounts."""
        ...

    @property
    def item_count(self) -> int:
        """The part of `UsageSum.item_count`: 1 for a running application, or the number of its pending allocations."""
        ...


_LineT = TypeVar("_LineT", bound=Line)


class UsageSum(NamedTuple):
    """The number and the sum of running applications, or of pending allocations."""

    item_count: int
    #: Without zeros.
    amounts: Resource


_NO_SUM: Final = UsageSum(0, Resource())
_EMPTY: Final[Mapping[str, object]] = MappingProxyType({})


class LineIndex(NamedTuple, Generic[_LineT]):
    """Lines with their sums."""

    #: By application.
    lines: Mapping[str, _LineT] = _EMPTY  # type: ignore[assignment]  # an empty mapping has values of any type
    by_user: Mapping[str, tuple[_LineT, ...]] = _EMPTY  # type: ignore[assignment]  # as above
    by_group: Mapping[str, tuple[_LineT, ...]] = _EMPTY  # type: ignore[assignment]  # as above
    users: Mapping[str, UsageSum] = _EMPTY  # type: ignore[assignment]  # as above
    groups: Mapping[str, UsageSum] = _EMPTY  # type: ignore[assignment]  # as above
    #: In and below every queue that has lines.
    queues: Mapping[str, UsageSum] = _EMPTY  # type: ignore[assignment]  # as above

    def with_lines(self, lines: Mapping[str, _LineT], changed: Iterable[str], iterate: CooperativeIteration) -> Self:
        """Return the index of other lines.

        Args:
            lines: the lines by application.
            changed: the applications whose lines differ from those of this index.
            iterate: wraps every long loop.
        """
        gone = [self.lines[name] for name in changed if name in self.lines]
        come = [lines[name] for name in changed if name in lines]
        if not gone and not come:
            return self
        by_user, users = _grouped(self.by_user, gone, come, lambda line: line.user_name, iterate)
        by_group, groups = _grouped(self.by_group, gone, come, lambda line: line.group_name, iterate)
        return self._replace(
            lines=lines,
            by_user=by_user,
            by_group=by_group,
            users=_sums(self.users, by_user, users, iterate),
            groups=_sums(self.groups, by_group, groups, iterate),
            queues=_sums_of_queues(self.queues, gone, come, iterate),
        )


def lines_below(index: LineIndex[_LineT], queue_path: str, iterate: CooperativeIteration) -> LineIndex[_LineT]:
    """Return the index of only the lines in and below a queue."""
    lines = {name: line for name, line in iterate(index.lines.items()) if is_below(line.queue_path, queue_path)}
    return LineIndex[_LineT]().with_lines(lines, lines, iterate)


def changed_keys(before: Mapping[_K, object], after: Mapping[_K, object]) -> set[_K]:
    """Return the keys whose objects are not the same in both mappings."""
    if before is after:
        return set()
    found = {key for key, one in after.items() if before.get(key) is not one}
    return found.union(before.keys() - after.keys())


def with_changes(
    rows: Mapping[str, _Row],
    known_rows: Mapping[str, _Row],
    known: Mapping[str, _T],
    create: Callable[[str, _Row], _T],
    iterate: CooperativeIteration,
) -> tuple[Mapping[str, _T], set[str]]:
    """Return the object of each row, and the names of all changed rows. Other rows keep the object that is known."""
    names, changed = list(rows), list[str]()
    for first in iterate(range(0, len(names), _BLOCK)):
        changed += [name for name in names[first : first + _BLOCK] if known_rows.get(name) != rows[name]]
    gone = known.keys() - rows.keys()
    if not changed and not gone:
        return known, gone
    found = {name: one for name, one in known.items() if name not in gone} if gone else dict(known)
    for name in iterate(changed):
        found[name] = create(name, rows[name])
    return found, gone.union(changed)


def _grouped(
    before: Mapping[str, tuple[_LineT, ...]],
    gone: Iterable[_LineT],
    come: Iterable[_LineT],
    name_of: Callable[[_LineT], str | None],
    iterate: CooperativeIteration,
) -> tuple[dict[str, tuple[_LineT, ...]], Iterable[str]]:
    """Return the lines by name after some have *gone* and others have *come*, and the names whose lines changed."""
    lost, more = dict[str, set[int]](), dict[str, list[_LineT]]()
    for line in gone:
        name = name_of(line)
        if name is not None:
            lost.setdefault(name, set()).add(id(line))
    for line in iterate(come):
        name = name_of(line)
        if name is not None:
            more.setdefault(name, []).append(line)
    found, changed = dict(before), {**lost, **more}
    for name in iterate(changed):
        kept = [line for line in before.get(name, ()) if id(line) not in lost.get(name, ())]
        found[name] = (*kept, *more.get(name, ()))
        if not found[name]:
            del found[name]
    return found, changed


def _sums(
    sums: Mapping[str, UsageSum],
    by_name: Mapping[str, tuple[_LineT, ...]],
    changed: Iterable[str],
    iterate: CooperativeIteration,
) -> dict[str, UsageSum]:
    """Return the sums of lines by name: the given sums, with those of the *changed* names computed again."""
    found = dict(sums)
    for name in iterate(changed):
        lines = by_name.get(name)
        if lines:
            found[name] = UsageSum(sum(line.item_count for line in lines), sum_of(line.used for line in lines))
        else:
            found.pop(name, None)
    return found


class _Difference:
    """The gain or loss of the lines of a queue."""

    __slots__ = ("amounts", "item_count")

    def __init__(self) -> None:
        self.amounts: dict[str, int] = {}
        self.item_count = 0

    def add(self, amounts: Mapping[str, int], item_count: int, sign: int = 1) -> None:
        """Add amounts, or subtract them if *sign* is -1."""
        self.item_count += sign * item_count
        for name, amount in amounts.items():
            self.amounts[name] = self.amounts.get(name, 0) + sign * amount


def _sums_of_queues(
    sums: Mapping[str, UsageSum], gone: Iterable[_LineT], come: Iterable[_LineT], iterate: CooperativeIteration
) -> dict[str, UsageSum]:
    own: dict[str, _Difference] = {}
    for line in gone:
        own.setdefault(line.queue_path, _Difference()).add(line.used, line.item_count, -1)
    for line in iterate(come):
        own.setdefault(line.queue_path, _Difference()).add(line.used, line.item_count)
    below: dict[str, _Difference] = {}
    for path, one in iterate(own.items()):
        for above in ancestors(path):
            below.setdefault(above, _Difference()).add(one.amounts, one.item_count)
    found = dict(sums)
    for path, one in iterate(below.items()):
        old = sums.get(path, _NO_SUM)
        found[path] = UsageSum(old.item_count + one.item_count, sum_of((old.amounts, one.amounts)))
        if not found[path].item_count:
            del found[path]
    return found
