"""Packed amounts, lanes and the packed queue, against the same done resource by resource and one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from support.naive_queue import NaiveQueue
from ugm import Resource
from ugm.quotatree import ConsumerInfo, TreeRequest
from ugm.quotatree._node import Consumer, Rank
from ugm.quotatree._packed import PackedQueue, Packing
from ugm.quotatree._packed.lanes import LaneLayout

LARGEST: Final = 2**63 - 1
NAMES: Final = ("cpu", "gpu", "memory")

#: More numbers than hypothesis draws.
dice = st.integers(0, 2**32).map(random.Random)

amounts = st.one_of(st.integers(-3, 9), st.integers(-1000, 1000), st.integers(-LARGEST, LARGEST))
vectors = st.integers(1, 3).flatmap(lambda width: st.lists(amounts, min_size=width, max_size=width))


def packed(request: Sequence[int | None]) -> tuple[Packing, int, int, int]:
    """Return a packing, and a request in it; None is not requested."""
    packing = Packing(NAMES[: len(request)])
    named = {name: amount for name, amount in zip(NAMES, request, strict=False) if amount is not None}
    return packing, *packing.pack_request(named)


@given(vectors, st.data())
def test_packed_requests_fit_where_each_amount_does(quota: list[int], data: st.DataObject) -> None:
    """One comparison has the result of a comparison for each requested resource."""
    request = data.draw(st.lists(amounts, min_size=len(quota), max_size=len(quota)))
    packing, amount, mask, freed = packed(request)
    free = packing.pack_free(quota)

    fits = all(want <= left for want, left in zip(request, quota, strict=True) if want)
    assert (free - amount & mask == mask) == fits
    assert packing.unpack_free(free) == tuple(quota)
    assert packing.unpack_free(free - amount) == tuple(left - want for left, want in zip(quota, request, strict=True))
    assert packing.unpack_request(amount, mask) == tuple((at, want) for at, want in enumerate(request) if want)
    bound = tuple(left + max(want, 0) for left, want in zip(quota, request, strict=True))
    assert packing.unpack_free(free + freed) == bound


@given(vectors)
def test_sums_stay_in_their_fields(quota: list[int]) -> None:
    """A million of the largest requests can be charged regardless of the quota, and refunded."""
    packing, amount, _, _ = packed([LARGEST] * len(quota))
    free = packing.pack_free(quota) - 1_000_000 * amount

    assert packing.unpack_free(free) == tuple(left - 1_000_000 * LARGEST for left in quota)
    assert packing.unpack_free(free + 1_000_000 * amount) == tuple(quota)


@given(st.integers(1, 3), st.integers(1, 64), dice, st.data())
def test_lanes(width: int, bits: int, draw: random.Random, data: st.DataObject) -> None:
    """Every lane reports whether its request fits, and the minimum of all lanes is that of each field."""
    most = min((1 << bits) - 1, LARGEST)
    packing = Packing(NAMES[:width])
    layout = LaneLayout(width, bits)
    requests = [[draw.choice((None, draw.randint(-most, most))) for _ in range(width)] for _ in range(layout.count)]
    free = data.draw(st.lists(amounts, min_size=width, max_size=width))

    block, keys = layout.vacant_block, []
    for lane, request in enumerate(requests):
        _, amount, mask, _ = packed(request)
        gap = layout.gap(amount, mask)
        keys.append(layout.vacant - gap)
        block -= gap << layout.places[lane]
        assert layout.can_hold(amount)
        assert layout.key_at(block, lane) == keys[-1]
    fit = layout.fitting(layout.spread(packing.pack_free(free)), block)

    for lane, request in enumerate(requests):
        fits = all(want <= left for want, left in zip(request, free, strict=True) if want)
        reported = fit >> layout.places[lane] & (1 << layout.width) - 1
        # Below the range of the fields a lane may be wrong in one direction.
        assert reported or not fits
        assert fits or not reported or min(free) <= -most
    minimum = layout.minimum(block)
    assert all(layout.is_at_most(minimum, key) for key in keys)
    without_one = [layout.minimum(block | layout.vacants[lane]) for lane in range(layout.count)]
    assert all(layout.is_at_most(minimum, other) for other in without_one)


def consumer(number: int, packing: Packing, request: dict[str, int]) -> Consumer:
    """Return a consumer without a group."""
    entry = TreeRequest("T", "L", Resource(request))
    made = Consumer(ConsumerInfo(f"c{number}", [entry]), entry, packing, Rank(0, 0, unpreemptable=False), None)
    made.sequence = number
    return made


@given(
    st.integers(1, 3),
    st.sampled_from([3, 900, 2**33, LARGEST]),
    st.sampled_from([10, 100, 1000, 5000]),
    st.sets(st.sampled_from(["negative amounts", "missing resources"])),
    dice,
)
def test_packed_queue(width: int, largest: int, steps: int, oddities: set[str], draw: random.Random) -> None:
    """The packed queue finds what the naive queue finds, in order, whatever the number and the sizes of requests."""
    packing = Packing(NAMES[:width])
    queue, naive = PackedQueue[Consumer](packing), NaiveQueue()
    for number in range(steps):
        least = -largest // 8 if "negative amounts" in oddities else 0
        limit = draw.choice((largest, largest // 50 + 1))
        requested = 0.7 if "missing resources" in oddities else 1
        request = {name: draw.randint(least, limit) for name in NAMES[:width] if draw.random() < requested}
        one = consumer(number, packing, request)
        queue.append(one)
        naive.append(one)
        if draw.random() < 0.3 or len(naive.contents) > 2000:
            gone = draw.choice(naive.contents)
            queue.remove(gone)
            naive.remove(gone)
        if draw.random() < 20 / steps:
            free = [draw.randint(-largest // 9, 3 * draw.choice((limit, largest))) for _ in range(width)]
            found = queue.fitting(packing.pack_free(free))
            assert found == naive.fitting(free)
            for gone in found:
                queue.remove(gone)
                naive.remove(gone)
            for back in found[::2]:
                queue.append(back)
                naive.append(back)
            queue.sort()
            naive.sort()
            assert list(queue.violations()) == []
    assert list(queue) == list(naive)
    assert bool(queue.contents) == bool(naive.contents)
    for gone in list(naive):
        queue.remove(gone)
    assert not queue.contents
    assert queue.fitting(packing.pack_free([LARGEST] * width)) == []


def test_the_queue_closes_its_gaps() -> None:
    """However many requests have come and gone, the memory is in proportion to those in the queue."""
    packing = Packing(("cpu",))
    queue = PackedQueue[Consumer](packing)
    listed = [consumer(number, packing, {"cpu": 1 + number % 7}) for number in range(50)]
    for one in listed:
        queue.append(one)
    for number in range(50, 20_000):
        queue.remove(listed.pop(number % 40))
        listed.append(consumer(number, packing, {"cpu": 1 + number % 7}))
        queue.append(listed[-1])

    assert queue._blocks is not None
    assert len(queue._blocks._slots) <= 4 * 64
    assert list(queue) == listed


def test_a_larger_request_widens_the_lanes() -> None:
    """A request that is too wide for the lanes moves all requests to wider ones."""
    packing = Packing(("cpu", "memory"))
    queue = PackedQueue[Consumer](packing)
    listed = [consumer(number, packing, {"cpu": number, "memory": 1}) for number in range(70)]
    listed.append(consumer(70, packing, {"cpu": 2**40, "memory": 2**62}))
    listed.append(consumer(71, packing, {"cpu": 2**40, "memory": 1}))
    for one in listed:
        queue.append(one)

    assert queue._blocks is not None
    assert all(queue._blocks._layout.can_hold(one.packed) for one in listed)
    assert queue.fitting(packing.pack_free([2**41, 2**61])) == [*listed[:70], listed[71]]
    assert list(queue.violations()) == []
