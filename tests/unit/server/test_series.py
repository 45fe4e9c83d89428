"""Series in memory: reading returns exactly the recorded values, and the memory is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ugm.server.series import TIERS, SeriesStore

ROOT, ANA = ("queue", "root"), ("user", "ana")
VALUES = st.dictionaries(st.integers(0, 2), st.integers(-(2**70), 2**70), max_size=3)
SAMPLES = st.lists(st.dictionaries(st.sampled_from([ROOT, ANA]), VALUES), max_size=150)


def stored(**options: int) -> SeriesStore:
    """Return a store with three metrics."""
    store = SeriesStore(**options)
    for resource in ("", "memory", "vcore"):
        store.metrics.number("usage", resource)
    return store


@given(SAMPLES)
def test_values_are_exact(samples: list[dict[tuple[str, ...], dict[int, int]]]) -> None:
    """Every value of the last hour is returned as it was recorded, and a missing one as None."""
    store = stored()
    for number, sample in enumerate(samples):
        store.record(number * 15_000, sample)
    for subject in (ROOT, ANA):
        view = store.read(subject, "hour", len(samples) * 15_000)

        assert view.times == [number * 15_000 for number in range(len(samples))]
        for number, metric in enumerate([("usage", ""), ("usage", "memory"), ("usage", "vcore")]):
            expected = [sample.get(subject, {}).get(number) for sample in samples]
            assert list(view.values.get(metric, [None] * len(samples))) == expected


def test_coarser_tiers_have_fewer_of_the_samples() -> None:
    """The day has the first sample of each five minutes, and the week that of each half hour."""
    store = stored()
    for number in range(241):
        store.record(number * 15_000, {ROOT: {0: number}})

    assert store.read(ROOT, "day", 3_600_000).values["usage", ""] == list(range(0, 241, 20))
    assert store.read(ROOT, "week", 3_600_000).values["usage", ""] == [0, 120, 240]


def test_a_range_ends_now() -> None:
    """Samples that are older than the range are not returned, and are dropped with their chunk."""
    store = stored()
    for number in range(1000):
        store.record(number * 15_000, {ROOT: {0: number}})
    view = store.read(ROOT, "hour", 999 * 15_000)

    assert view.values["usage", ""] == list(range(759, 1000))
    assert len(store.times("hour", 10**12)) == 0
    assert store.times("hour", 240 * 15_000) == []


def test_memory_is_bounded() -> None:
    """Above the limit, the oldest samples of the last hour are dropped first."""
    store = stored(most_bytes=20_000)
    for number in range(240):
        store.record(number * 15_000, {("user", str(name)): {0: number * name} for name in range(20)})

    assert store.size <= 20_000
    assert 60 <= len(store.times("hour", 240 * 15_000)) < 240
    assert len(store.times("day", 240 * 15_000)) == 12


def test_further_subjects_are_omitted() -> None:
    """A store records a limited number of subjects, the first ones of a sample, and counts the others."""
    store = stored(most_series=2)
    store.record(0, {ROOT: {0: 1}, ANA: {0: 2}, ("user", "ben"): {0: 3}})

    assert store.omitted == 1
    assert store.read(ANA, "hour", 0).values["usage", ""] == [2]
    assert store.read(("user", "ben"), "hour", 0).values == {}


def test_a_thousand_metrics_are_recorded() -> None:
    """Clients cannot fill the memory with names of resources."""
    metrics = SeriesStore().metrics
    numbers = [metrics.number("usage", str(number)) for number in range(1001)]

    assert numbers[-2:] == [999, None]
    assert metrics.number("usage", "7") == 7
    assert metrics.name(7) == ("usage", "7")


def test_tiers_are_ordered() -> None:
    """Each tier has a longer range and a longer step than the one before."""
    assert [tier.name for tier in TIERS] == ["hour", "day", "week"]
    assert sorted(TIERS, key=lambda tier: (tier.span, tier.step)) == list(TIERS)
