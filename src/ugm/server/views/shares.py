"""Endpoints that show the shares of users, and the thresholds that usage has crossed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict

from ugm.fairness.model import explain_shares
from ugm.fairness.rank import RankExplanation
from ugm.partition import ThresholdCrossed, ThresholdWatch
from ugm.server.explanations import shares_of
from ugm.server.interface.fields import Name, Offset, PageSize, Text
from ugm.server.interface.route import Routes
from ugm.server.interface.schemas import Object
from ugm.server.interface.state import ServedPartition

__all__ = ["ROUTES", "logged_update"]

_LOGGER: Final = logging.getLogger(__name__)
ROUTES: Final = Routes()
#: The maximum number of crossings that are logged one by one when a server starts.
_MOST_LINES: Final = 10


class ComparedNode(TypedDict):
    """An account; exact numbers are texts."""

    path: str
    level: str
    share: str | None
    used: str
    usage: str


class RankedUser(ComparedNode):
    """A user."""

    user: str
    place: int
    rank: int


@dataclass(frozen=True, slots=True)
class Shares:
    """A page of users, and their accounts."""

    #: None if the partition has no fair shares.
    as_of: int | None
    total: int
    users: list[Annotated[Object, RankedUser]]
    accounts: list[Annotated[Object, ComparedNode]]
    explanation: Annotated[Object, RankExplanation] | None


@ROUTES.get("/partition/{partition}/shares")
def shares(
    served: ServedPartition,
    *,
    search: Text = "",
    offset: Offset = 0,
    limit: PageSize = 100,
    first: Name = "",
    second: Name = "",
) -> Shares:
    """List the users by their shares, the best first, with their accounts, and explain the order of two users."""
    report = shares_of(served.partition.model_reports())
    if report is None or report.definition is None:
        return Shares(None, 0, [], [], None)
    users = [user for user in report.state["users"] if search.lower() in user["path"].lower()]
    listed = users[offset : offset + limit]
    # The accounts that contain some of the users.
    accounts = [one for one in report.state["accounts"] if any(f"{one['path']}/" in user["path"] for user in listed)]
    explanation = explain_shares(report.definition, report.state, first, second).to_dict() if first and second else None
    return Shares(report.state["as_of"], len(users), listed, accounts, explanation)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A page of crossed thresholds, and all thresholds in percent."""

    shares: tuple[int, ...]
    total: int
    crossed: list[ThresholdCrossed]


@ROUTES.get("/partition/{partition}/thresholds")
def thresholds(
    served: ServedPartition,
    *,
    search: Text = "",
    offset: Offset = 0,
    limit: PageSize = 100,
    kind: Literal["", "budget", "elastic group", "group", "queue", "quota node", "user"] = "",
) -> Thresholds:
    """List the thresholds that usage is above, those with the largest used part of their limit first."""
    watch = served.thresholds
    found = [one for one in watch.crossed if search.lower() in one.name.lower() and kind in ("", one.kind)]
    found.sort(key=lambda one: (-one.share, one.kind, one.name, one.place, one.resource or "", -one.threshold))
    return Thresholds(watch.shares, len(found), found[offset : offset + limit])


def logged_update(name: str, watch: ThresholdWatch) -> Callable[[], None]:
    """Return a function that evaluates the thresholds of a partition, and logs each crossing."""
    is_first = True

    def update() -> None:
        nonlocal is_first
        found, was_first = watch.update(), is_first
        is_first = False
        if was_first and len(found) > _MOST_LINES:
            # The first update reports the state, and not changes.
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(Counter(one.kind for one in found).items()))
            _LOGGER.warning("partition %s: %d thresholds are crossed at the start: %s", name, len(found), kinds)
            return
        for crossing in found:
            _LOGGER.log(logging.WARNING if crossing.rising else logging.INFO, "partition %s: %s", name, crossing)

    return update
