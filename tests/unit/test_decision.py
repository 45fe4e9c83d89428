"""Decisions and violations: their numbers, and how they explain themselves."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from ugm import Decision, TrackingType, Violation
from ugm.decision import LimitRise
from ugm.partition.config.compiled import ScheduledViolation

GIB = 2**30

#: A request for three of ten GiB while nine are used.
FULL = Violation(TrackingType.USER, "sue", "root.prod", "*", "memory", 10 * GIB, 9 * GIB, 3 * GIB)
#: A request for twelve cores where ten are allowed.
TOO_LARGE = Violation(TrackingType.GROUP, "dev", "root", "dev", "vcore", 10_000, 0, 12_000)
CROWDED = Violation(TrackingType.USER, "sue", "root", "sue", None, 2, 2, 1)


def test_denial_explains_every_violation() -> None:
    """A denial says who, where, how much, and by which limit; and whether waiting can help."""
    assert Decision((FULL, TOO_LARGE)).summary == f"denied, waiting cannot help: {TOO_LARGE} (and 1 more limits)"
    assert str(Decision((FULL, CROWDED))) == (
        "denied, waiting can help:\n"
        "  user 'sue' in root.prod: 3Gi memory requested, 9Gi of 10Gi used, 2Gi too much (limit for '*')\n"
        "  user 'sue' in root: 2 of 2 applications running, 1 more requested (limit for 'sue')"
    )


@pytest.mark.parametrize(
    ("violation", "text"),
    [
        (TOO_LARGE, "group 'dev' in root: 12 vcore requested, never more than 10 allowed (limit for 'dev')"),
        (
            FULL._replace(requested=0, used=12 * GIB),
            "user 'sue' in root.prod: 12Gi of 10Gi memory used, 2Gi too much (limit for '*')",
        ),
        (CROWDED._replace(requested=0, used=3), "user 'sue' in root: 3 of 2 applications running (limit for 'sue')"),
    ],
)
def test_violation_text(violation: Violation, text: str) -> None:
    """A violation reads differently for what can never be granted and for what is exceeded already."""
    assert str(violation) == text


BUDGET = Violation("budget", "b", "", "", "vcore", 36_000_000, 36_000_000, 7_200_000)


@pytest.mark.parametrize(
    ("violations", "limit", "advice"),
    [
        ((CROWDED, CROWDED), "Your limit allows 2 running applications (now: 2).", "other work has ended."),
        ((FULL._replace(kind="reservation"),), "A request that has waited longer needs what is free.", "has ended."),
        (
            (ScheduledViolation.of(TOO_LARGE, LimitRise(1_795_824_000, 16_000)),),
            "The limit of the group dev allows 10 cores at most, and the request is for 12 cores.",
            "More is allowed from 2026-11-28 00:00 UTC on.",
        ),
        (
            (*[BUDGET] * 3, FULL, FULL),
            "The budget b allows 10 core hours (used or promised: 10 core hours), and the request is for 2 core hours.",
            "2 more limits are exceeded. Try again when other work has ended, or when the budget is renewed.",
        ),
    ],
)
def test_sentences_for_people(violations: tuple[Violation, ...], limit: str, advice: str) -> None:
    """The sentences name each limit once, and what can help."""
    text = Decision(violations).for_people()

    assert text.startswith(limit)
    assert text.endswith(advice)
    assert text.count("allows") <= 1


def test_to_dict() -> None:
    """A decision can be sent as JSON, in the words of its attributes."""
    shown = json.loads(json.dumps(Decision((CROWDED,)).to_dict()))

    assert shown == {
        "allowed": False,
        "can_wait": True,
        "violations": [
            {
                "kind": "user",
                "name": "sue",
                "queue_path": "root",
                "limit_name": "sue",
                "resource": None,
                "limit": 2,
                "used": 2,
                "requested": 1,
                "shortfall": 1,
                "can_wait": True,
                "rise": None,
                "text": "user 'sue' in root: 2 of 2 applications running, 1 more requested (limit for 'sue')",
            }
        ],
        "evictions": [],
        "assign": None,
    }


def test_limit_that_rises_later() -> None:
    """A denial by a limit that a schedule raises has the second and the new maximum, also as a copy."""
    violation = ScheduledViolation.of(TOO_LARGE, LimitRise(1_795_824_000, 16_000))

    for one in (violation, copy.deepcopy(violation), pickle.loads(pickle.dumps(violation))):  # noqa: S301 - our own
        assert one == TOO_LARGE
        assert (one.can_wait, one.to_dict()["rise"]) == (True, {"at": 1_795_824_000, "limit": 16_000})
        assert str(one) == (
            "group 'dev' in root: 12 vcore requested, at most 10 allowed until 2026-11-28 00:00 UTC, then 16 "
            "(limit for 'dev')"
        )
    assert "00:00 UTC, then unlimited" in str(ScheduledViolation.of(TOO_LARGE, LimitRise(1_795_824_000, None)))


def test_a_limit_without_a_queue_or_a_name_is_told_without() -> None:
    """The limit of a queue, or of another quota model, is told in its own terms."""
    queue = Violation(TrackingType.QUEUE, "root.prod", "root.prod", "", "pods", 5, 4, 2)
    licence = Violation("licence", "matlab", "", "", "seats", 5, 4, 2)

    assert str(queue) == "queue root.prod: 2 pods requested, 4 of 5 used, 1 too much"
    assert str(licence) == "licence 'matlab': 2 seats requested, 4 of 5 used, 1 too much"


def test_is_a_value() -> None:
    """Decisions compare by content, can be keys, and survive pickling and copying."""
    decision = Decision((FULL, TOO_LARGE))

    assert {decision, Decision((FULL, TOO_LARGE))} == {decision}
    assert pickle.loads(pickle.dumps(decision)) == copy.deepcopy(decision) == decision  # noqa: S301 - made here
