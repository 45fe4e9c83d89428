"""A queue of requests without packing: lists of numbers, compared one by one.

It has the interface of `ugm.quotatree._packed.PackedQueue`; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ugm.quotatree._node import Consumer

__all__ = ["NaiveQueue"]


class NaiveQueue:
    """A queue of consumers in order of arrival."""

    def __init__(self) -> None:
        self.contents: list[Consumer] = []

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self.contents)

    def append(self, consumer: Consumer) -> None:
        """Add a consumer behind all others."""
        self.contents.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.contents.remove(consumer)

    def sort(self) -> None:
        """Restore the order of arrival."""
        self.contents.sort(key=lambda consumer: consumer.sequence)

    def fitting(self, free: Sequence[int]) -> list[Consumer]:
        """Return the consumers that fit free amounts, each after those before it were charged, in order."""
        left, found = list(free), []
        for consumer in self.contents:
            if all(amount <= left[at] for at, amount in consumer.amounts):
                found.append(consumer)
                for at, amount in consumer.amounts:
                    left[at] -= amount
        return found
