"""The manager against the naive model, step by step."""

from __future__ import annotations

from typing import ClassVar, Literal

from hypothesis import settings

from support.examples import examples
from support.tracker_machine import TrackerMachine

SMALL = settings(max_examples=max(8, examples(30)), stateful_step_count=30)


class LenientMachine(TrackerMachine):
    """Users with named limits are exempt from group limits; misuse is logged."""

    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "unless-user-limited"
    strict = False


TestManager = TrackerMachine.TestCase
TestManager.settings = SMALL
TestLenientManager = LenientMachine.TestCase
TestLenientManager.settings = SMALL
