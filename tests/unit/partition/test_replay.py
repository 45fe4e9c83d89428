"""Changes done again from their events, and the image of a partition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.random_changes import CONFIGS, Actor, state_of
from ugm import Partition
from ugm.events import Event
from ugm.partition.checkpoint import checkpoint_of, restore
from ugm.partition.replay import replay_events


class Twin:
    """Follows a partition by doing again whatever is told."""

    def __init__(self) -> None:
        self.copy = Partition(CONFIGS[0])
        self.partition = Partition(CONFIGS[0], subscribers=[self])

    def __call__(self, _first: int, events: tuple[Event, ...]) -> None:
        """Do the same."""
        replay_events(self.copy._state, events)


@given(st.integers(0, 2**32), st.integers(0, 150))
def test_redo(seed: int, steps: int) -> None:
    """Books that have been through all events hold what those hold that told them."""
    twin, actor = Twin(), Actor(seed, closing=True)
    for _ in range(steps):
        actor.step(twin.partition)

    assert state_of(twin.copy) == state_of(twin.partition)


@given(st.integers(0, 2**32), st.integers(0, 150))
def test_restore(seed: int, steps: int) -> None:
    """An image makes the same books, and both take the same further changes alike."""
    twin, actor = Twin(), Actor(seed, closing=True)
    for _ in range(steps):
        actor.step(twin.partition)
    other = Partition()
    other._state.replace_config(twin.partition._state.compiled)
    restore(other._state, checkpoint_of(twin.partition._state))
    other._lock.mark_consistent()
    assert state_of(other) == state_of(twin.partition)
    one, same = Actor("more"), Actor("more")
    for _ in range(30):
        one.step(twin.partition)
        same.step(other)

    assert state_of(other) == state_of(twin.partition)
