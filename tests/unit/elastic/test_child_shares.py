"""Incremental shares against the plain sharing: earlier reads must not affect later ones."""

from __future__ import annotations

import random

import pytest

from support.examples import examples
from ugm.elastic.child_shares import ChildShares
from ugm.elastic.nodes import ResourceNode, ResourceTerms
from ugm.elastic.sharing import share

NAMES = "abcdefgh"


def drawn(name: str, draw: random.Random, size: int) -> ResourceNode:
    """Return a node with a drawn request."""
    least, weight = draw.choice((0, 0, draw.randint(0, size))), draw.choice((0, 1, 2, draw.randint(1, size)))
    terms = ResourceTerms(is_counted=True, min=least, max=size, weight=weight, lends=draw.random() < 0.8)
    node = ResourceNode(name, terms, competes=True, shares=ChildShares())
    node.limited_request = max(draw.randint(0, size), 0 if node.lends else least)
    return node


def step(shares: ChildShares, nodes: dict[str, ResourceNode], draw: random.Random, size: int) -> None:
    """Change, add or remove one node."""
    name = draw.choice(NAMES)
    node = nodes.get(name)
    if node is None:
        nodes[name] = drawn(name, draw, size)
        shares.add(nodes[name])
    elif draw.random() < 0.1:
        shares.remove(nodes.pop(name))
    else:
        near = min(max(node.limited_request + draw.randint(-3, 3), 0), size)
        requested = draw.choice((near, draw.randint(0, size)))
        shares.set_request(node, requested if node.lends else max(requested, node.min))


@pytest.mark.parametrize("size", [6, 60, 10**6, 2**70])
@pytest.mark.parametrize("scales", [True, False])
def test_reads_are_those_of_share(size: int, scales: bool) -> None:  # noqa: FBT001 - parametrized
    """Exact reads and bounds are right for every order of changes and reads, and for every amount to share."""
    draw = random.Random(f"{size} {scales}")
    shares, nodes = ChildShares(scales=scales), dict[str, ResourceNode]()
    amounts = [draw.randint(-1, size * 4) for _ in range(4)]
    for _ in range(examples(4000)):
        if draw.random() < 0.4:
            step(shares, nodes, draw, size)
        for node in draw.sample(list(nodes.values()), min(len(nodes), draw.choice((0, 1, 1, 2)))):
            available = draw.choice(amounts)
            due = share(available, shares.sharers(), scale=scales).runtime[node.name]
            bound = shares.lower_bound(node, available)

            assert bound <= due
            # As a node reads: a bound that equals the request is the answer, without computing the rounds.
            if bound != node.limited_request or node.limited_request < node.min:
                assert shares.exact_share(node, available) == due
            else:
                assert bound == due
