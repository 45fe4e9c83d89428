"""Strategies for small trees of elastic groups in which minimums, maximums and weights take effect."""

from __future__ import annotations

from hypothesis import strategies as st

from ugm import Resource
from ugm.elastic import ROOT_GROUP, ElasticGroup, Sharer

RESOURCES = ("cpu", "gpu")

#: Small numbers, so that remainders and ties happen, and some large ones.
counts = st.one_of(st.integers(0, 12), st.integers(0, 1000), st.integers(0, 2**70))
weights = st.one_of(st.just(0), st.integers(1, 5), st.integers(1, 2**70))


#: How much of each resource a group asks for, unless it is said.
few = st.integers(0, 40)


def amounts(numbers: st.SearchStrategy[int] = few) -> st.SearchStrategy[Resource]:
    """Return vectors of a few resources."""
    return st.dictionaries(st.sampled_from(RESOURCES), numbers).map(Resource)


def sharers(names: str = "abcdefgh") -> st.SearchStrategy[list[Sharer]]:
    """Return sharers of one resource; a group that does not lend requests at least its minimum."""

    def made(name: str) -> st.SearchStrategy[Sharer]:
        drawn = st.builds(Sharer, st.just(name), counts, counts, weights, st.booleans())
        return drawn.map(lambda one: one if one.lends else one._replace(request=max(one.request, one.min)))

    picked = st.lists(st.sampled_from(names), unique=True, min_size=1)
    return picked.flatmap(lambda chosen: st.tuples(*map(made, chosen))).map(list)


@st.composite
def trees(draw: st.DrawFn, size: int = 6) -> list[ElasticGroup]:
    """Return groups that form a tree but may violate rules, every parent before its children."""
    groups: list[ElasticGroup] = []
    for number in range(draw(st.integers(1, size))):
        parent = draw(st.sampled_from([ROOT_GROUP, *(group.name for group in groups)]))
        most = draw(amounts())
        least = Resource({name: draw(st.integers(0, amount)) for name, amount in most.items()})
        weight = draw(st.none() | amounts(st.sampled_from([0, 1, 1, 2, 7])))
        groups.append(ElasticGroup(f"g{number}", parent, least, most, weight, allow_lent=draw(st.booleans())))
    return groups


@st.composite
def valid_trees(draw: st.DrawFn, size: int = 6) -> list[ElasticGroup]:
    """Return groups with the same resources whose minimums fit the minimum of their parent."""
    groups: list[ElasticGroup] = []
    room: dict[str, Resource] = {}
    for number in range(draw(st.integers(1, size))):
        parent = draw(st.sampled_from([ROOT_GROUP, *(group.name for group in groups)]))
        above = room.get(parent, Resource(dict.fromkeys(RESOURCES, 40)))
        least = Resource({name: draw(st.integers(0, amount)) for name, amount in above.items()})
        most = Resource({name: amount + draw(st.integers(0, 40)) for name, amount in least.items()})
        name = f"g{number}"
        room[name] = least
        if parent in room:
            room[parent] -= least
        groups.append(ElasticGroup(name, parent, least, most, allow_lent=draw(st.booleans())))
    return groups
