"""Packed amounts, lanes of them, and those who wait, against the same done resource by resource and one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from ugm import Resource
from ugm.quotatree import ConsumerInfo, TreeRequest
from ugm.quotatree.consumer import Consumer, Rank
from ugm.quotatree.lanes import Lanes, Layouts
from ugm.quotatree.packing import Packing
from ugm.quotatree.waiting import Waiting

LARGEST: Final = 2**63 - 1
NAMES: Final = ("cpu", "gpu", "memory")

#: More numbers than hypothesis draws.
dice = st.integers(0, 2**32).map(random.Random)

amounts = st.one_of(st.integers(-3, 9), st.integers(-1000, 1000), st.integers(-LARGEST, LARGEST))
vectors = st.integers(1, 3).flatmap(lambda width: st.lists(amounts, min_size=width, max_size=width))


def packed(request: Sequence[int | None]) -> tuple[Packing, int, int, int]:
    """Return a packing, and a request in it; None is not asked for."""
    packing = Packing(NAMES[: len(request)])
    named = {name: amount for name, amount in zip(NAMES, request, strict=False) if amount is not None}
    return packing, *packing.request(named)


@given(vectors, st.data())
def test_packed_requests_fit_where_each_amount_does(quota: list[int], data: st.DataObject) -> None:
    """One comparison tells what a comparison for each resource that is asked for does."""
    request = data.draw(st.lists(amounts, min_size=len(quota), max_size=len(quota)))
    packing, amount, asked, most = packed(request)
    room = packing.room(quota)

    fits = all(want <= left for want, left in zip(request, quota, strict=True) if want)
    assert (room - amount & asked == asked) == fits
    assert packing.left(room) == tuple(quota)
    assert packing.left(room - amount) == tuple(left - want for left, want in zip(quota, request, strict=True))
    assert packing.amounts(amount, asked) == tuple((at, want) for at, want in enumerate(request) if want)
    assert packing.left(room + most) == tuple(left + max(want, 0) for left, want in zip(quota, request, strict=True))


@given(vectors)
def test_sums_stay_in_their_fields(quota: list[int]) -> None:
    """A million of the largest requests, granted whatever the quota, and given back."""
    packing, amount, _, _ = packed([LARGEST] * len(quota))
    room = packing.room(quota) - 1_000_000 * amount

    assert packing.left(room) == tuple(left - 1_000_000 * LARGEST for left in quota)
    assert packing.left(room + 1_000_000 * amount) == tuple(quota)


@given(st.integers(1, 3), st.integers(1, 64), dice, st.data())
def test_lanes(width: int, bits: int, draw: random.Random, data: st.DataObject) -> None:
    """Every lane tells whether its request fits, and the least of all lanes is that of each field."""
    most = min((1 << bits) - 1, LARGEST)
    packing = Packing(NAMES[:width])
    lanes = Lanes(packing, bits)
    requests = [[draw.choice((None, draw.randint(-most, most))) for _ in range(width)] for _ in range(lanes.count)]
    room = data.draw(st.lists(amounts, min_size=width, max_size=width))

    row, keys = lanes.vacant_row, []
    for lane, request in enumerate(requests):
        _, amount, asked, _ = packed(request)
        gap = lanes.gap(amount, asked)
        keys.append(lanes.vacant - gap)
        row -= gap << lanes.places[lane]
        assert lanes.are_made_for(amount)
        assert lanes.at(row, lane) == keys[-1]
    fit = lanes.fitting(lanes.spread(packing.room(room)), row)

    for lane, request in enumerate(requests):
        fits = all(want <= left for want, left in zip(request, room, strict=True) if want)
        told = fit >> lanes.places[lane] & (1 << lanes.width) - 1
        # Where there is less than nothing by more than anybody gives back, a lane may be wrong in one way.
        assert told or not fits
        assert fits or not told or min(room) <= -most
    least = lanes.least(row)
    assert all(lanes.are_ordered(least, key) for key in keys)
    assert all(lanes.are_ordered(least, lanes.least(row | lanes.vacants[lane])) for lane in range(lanes.count))


def consumer(number: int, packing: Packing, request: dict[str, int]) -> Consumer:
    """Return a consumer that belongs nowhere."""
    entry = TreeRequest("T", "L", Resource(request))
    made = Consumer(ConsumerInfo(f"c{number}", [entry]), entry, packing, Rank(0, 0, unpreemptable=False), None)
    made.sequence = number
    return made


def one_by_one(waiting: list[Consumer], packing: Packing, room: int) -> list[Consumer]:
    """Return who fits into a room, one after the other while it shrinks."""
    left, found = list(packing.left(room)), []
    for one in waiting:
        if all(amount <= left[at] for at, amount in one.amounts):
            found.append(one)
            for at, amount in one.amounts:
                left[at] -= amount
    return found


@given(
    st.integers(1, 3),
    st.sampled_from([3, 900, 2**33, LARGEST]),
    st.sampled_from([10, 100, 1000, 5000]),
    st.sets(st.sampled_from(["some ask for less than nothing", "not all ask for everything"])),
    dice,
)
def test_waiting(width: int, largest: int, steps: int, oddities: set[str], draw: random.Random) -> None:
    """Who fits is found in order, whatever the number and the sizes of those who wait."""
    packing = Packing(NAMES[:width])
    waiting, listed = Waiting(Layouts(packing)), list[Consumer]()
    for number in range(steps):
        least = -largest // 8 if "some ask for less than nothing" in oddities else 0
        limit = draw.choice((largest, largest // 50 + 1))
        asked = 0.7 if "not all ask for everything" in oddities else 1
        request = {name: draw.randint(least, limit) for name in NAMES[:width] if draw.random() < asked}
        one = consumer(number, packing, request)
        waiting.append(one)
        listed.append(one)
        if draw.random() < 0.3 or len(listed) > 2000:
            waiting.remove(listed.pop(draw.randrange(len(listed))))
        if draw.random() < 20 / steps:
            room = packing.room([draw.randint(-largest // 9, 3 * draw.choice((limit, largest))) for _ in range(width)])
            found = waiting.fitting(room)
            assert found == one_by_one(listed, packing, room)
            for gone in found:
                waiting.remove(gone)
                listed.remove(gone)
            for back in found[::2]:
                waiting.append(back)
            listed = sorted([*listed, *found[::2]], key=lambda consumer: consumer.sequence)
            waiting.sort()
            assert list(waiting.findings()) == []
    assert list(waiting) == listed
    for gone in listed[:]:
        waiting.remove(gone)
    assert list(waiting) == []
    assert waiting.fitting(packing.room([LARGEST] * width)) == []


def test_the_lists_close_their_gaps() -> None:
    """However many have come and gone, what is kept is in proportion to those who wait."""
    packing = Packing(("cpu",))
    waiting = Waiting(Layouts(packing))
    listed = [consumer(number, packing, {"cpu": 1 + number % 7}) for number in range(50)]
    for one in listed:
        waiting.append(one)
    for number in range(50, 20_000):
        waiting.remove(listed.pop(number % 40))
        listed.append(consumer(number, packing, {"cpu": 1 + number % 7}))
        waiting.append(listed[-1])

    assert waiting.rows is not None
    assert len(waiting.rows._members) <= 4 * 64
    assert list(waiting) == listed


def test_a_larger_request_widens_the_lanes() -> None:
    """Somebody who asks for more than the lanes were made for is lined up with the others."""
    packing = Packing(("cpu", "memory"))
    waiting = Waiting(Layouts(packing))
    listed = [consumer(number, packing, {"cpu": number, "memory": 1}) for number in range(70)]
    listed.append(consumer(70, packing, {"cpu": 2**40, "memory": 2**62}))
    listed.append(consumer(71, packing, {"cpu": 2**40, "memory": 1}))
    for one in listed:
        waiting.append(one)

    assert waiting.rows is not None
    assert all(waiting.rows._lanes.are_made_for(one.amount) for one in listed)
    assert waiting.fitting(packing.room([2**41, 2**61])) == [*listed[:70], listed[71]]
    assert list(waiting.findings()) == []
