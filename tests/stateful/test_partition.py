"""The partition against the naive model, step by step, alone and with additional quota models."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

from support.examples import examples
from support.partition_machines import BesideMachine, LenientMachine
from ugm.testing import PartitionMachine

SMALL: Final = settings(max_examples=max(10, examples(40)), stateful_step_count=30)


class LenientBesideMachine(LenientMachine, BesideMachine):
    """Both."""


TestPartition = PartitionMachine.TestCase
TestPartition.settings = SMALL
TestLenientBeside = LenientBesideMachine.TestCase
TestLenientBeside.settings = SMALL
