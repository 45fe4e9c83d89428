"""A pool against the sharing that it stands for, read by read: what single reads leave behind must not show."""

from __future__ import annotations

import random

import pytest

from ugm.elastic.cell import Cell, Terms
from ugm.elastic.pool import Pool
from ugm.elastic.sharing import share

NAMES = "abcdefgh"


def drawn(name: str, draw: random.Random, size: int) -> Cell:
    """Return a cell that asks for something."""
    least, weight = draw.choice((0, 0, draw.randint(0, size))), draw.choice((0, 1, 2, draw.randint(1, size)))
    cell = Cell(name, Terms(True, least, size, weight, draw.random() < 0.8), competes=True, scales=True)  # noqa: FBT003 - the first of the terms
    cell.limited = max(draw.randint(0, size), 0 if cell.lends else least)
    return cell


def step(pool: Pool, cells: dict[str, Cell], draw: random.Random, size: int) -> None:
    """Change one cell, take one in or leave one out."""
    name = draw.choice(NAMES)
    cell = cells.get(name)
    if cell is None:
        cells[name] = drawn(name, draw, size)
        pool.add(cells[name])
    elif draw.random() < 0.1:
        pool.remove(cells.pop(name))
    else:
        near = min(max(cell.limited + draw.randint(-3, 3), 0), size)
        asked = draw.choice((near, draw.randint(0, size)))
        pool.ask(cell, asked if cell.lends else max(asked, cell.least))


@pytest.mark.parametrize("size", [6, 60, 10**6, 2**70])
@pytest.mark.parametrize("scales", [True, False])
def test_reads_are_those_of_share(size: int, scales: bool) -> None:  # noqa: FBT001 - parametrized
    """In whatever order cells change and are read, for whatever there is to share, exact reads and bounds are right."""
    draw = random.Random(f"{size} {scales}")
    pool, cells = Pool(scales=scales), dict[str, Cell]()
    amounts = [draw.randint(-1, size * 4) for _ in range(4)]
    for _ in range(4000):
        if draw.random() < 0.4:
            step(pool, cells, draw, size)
        for cell in draw.sample(list(cells.values()), min(len(cells), draw.choice((0, 1, 1, 2)))):
            available = draw.choice(amounts)
            due = share(available, pool.sharers(), scale=scales).runtime[cell.name]
            bound = pool.at_least(cell, available)

            assert bound <= due
            # As a cell reads: a bound that is all it asks for is the answer, and leaves the rounds alone.
            if bound != cell.limited or cell.limited < cell.least:
                assert pool.exactly(cell, available) == due
            else:
                assert bound == due
