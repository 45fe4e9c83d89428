"""The partition against the naive model, step by step, alone and with additional quota models."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import settings

from support.examples import examples
from support.partition_machines import BesideMachine, LenientMachine
from ugm.testing import PartitionMachine

SMALL: Final = settings(max_examples=max(10, examples(40)), stateful_step_count=30)
FEWER: Final = settings(SMALL, max_examples=max(5, examples(40)))


class LenientBesideMachine(LenientMachine, BesideMachine):
    """Both."""


TestPartition = PartitionMachine.TestCase
TestPartition.settings = SMALL
TestLenient = LenientMachine.TestCase
TestLenient.settings = FEWER
TestBeside = BesideMachine.TestCase
TestBeside.settings = FEWER
TestLenientBeside = pytest.mark.ci(LenientBesideMachine.TestCase)
TestLenientBeside.settings = SMALL
