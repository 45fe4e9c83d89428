"""Work on a partition that is interrupted at some moment, and what may be held then.

As a script, it makes allocations of memory fail:
``python -m support.interrupted_process SCENE STEP FOLDER OPERATION...``
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Final

from support.interrupted_partitions import BUSY, SCENES, Operation, Scene, states_of
from support.locks import is_locked
from support.partition_fixtures import BOB, memory
from ugm import Partition, RequestError, Resource
from unit.partition.test_interruptions import OPERATIONS

__all__ = ["Worker"]

#: So many allocations of memory in a row that did not fail are taken for the end of an operation.
_END: Final = 40

Held = dict[str, Resource]


class Worker:
    """Works on a partition, and knows what it holds.

    Attributes:
        options: what may be held now: one of these two.
    """

    def __init__(self, partition: Partition, draw: random.Random) -> None:
        self.partition, self.draw = partition, draw
        self.options: tuple[Held, Held] = (self.held(), self.held())

    def held(self) -> Held:
        """Return what the partition holds."""
        return {allocation.allocation_id: allocation.usage for allocation in self.partition.allocations()}

    def work(self) -> None:
        """Make some calls of every kind, in any order."""
        for _ in range(50):
            self._make_a_call(f"n{self.draw.randrange(10)}", self.draw.randint(1, 6))

    def _make_a_call(self, name: str, amount: int) -> None:
        partition, some, licences = self.partition, memory(amount), Resource(memory=1, licence=amount)
        calls: list[tuple[Callable[[], object], Held, tuple[str, ...]]] = [
            (lambda: partition.allocate(name, "one", memory(1)), {name: memory(1)}, ()),
            (lambda: partition.resize("two", some), {"two": some}, ()),
            (lambda: partition.release(name), {}, (name,)),
            (lambda: partition.allocate(f"x{name}", "two", licences, priority=2), {f"x{name}": licences}, ()),
            (lambda: partition.release(f"x{name}"), {}, (f"x{name}",)),
            (lambda: partition.submit(name, BOB, "root.p.y"), {}, ()),
            (lambda: partition.allocate(f"y{name}", name, some), {f"y{name}": some}, ()),
            (lambda: partition.allocate_all([(f"z{name}", name, some)]), {f"z{name}": some}, ()),
            (lambda: partition.remove(name), {}, (f"y{name}", f"z{name}")),
        ]
        self._call(*self.draw.choice(calls))

    def _call(self, call: Callable[[], object], added: Held, removed: tuple[str, ...]) -> None:
        before = self.options[0]
        after = {name: usage for name, usage in (before | added).items() if name not in removed}
        self.options = (before, after)
        has_changed = False
        with suppress(RequestError):
            has_changed = bool(call())
        self.options = (after, after) if has_changed else (before, before)

    def require_sound(self) -> None:
        """Compare what is held with what may be, after an interruption."""
        assert not is_locked(self.partition._lock)
        self.partition.verify()
        held = self.held()
        assert held in self.options
        self.options = (held, held)


def _keep_pairs() -> None:
    """Let CPython keep memory for pairs: without it, CPython crashes when a program iterates over ``dict.items()``.

    `support.without_memory` shows the crash in a program that does not use ugm.
    """
    pairs = [(number, number) for number in range(2_000)]
    del pairs


def _starve(scene: Scene, operation: Operation, step: int, many: int) -> Iterator[bool]:
    """Let a number of consecutive allocations of memory fail; yield whether the operation has failed.

    Not all from one on: CPython may then try for ever to make an integer for the handler of a ``with`` block.
    """
    hooks = import_module("_testcapi")
    states = states_of(scene, operation)
    for start in count(0, step):
        scene.build()
        failed, partition = False, scene.partition
        # A full collection would discard the pairs.
        gc.disable()
        _keep_pairs()
        try:
            hooks.set_nomemory(start, start + many)
            operation(partition)
        except Exception:  # noqa: BLE001 - CPython answers with many of them
            failed = True
        finally:
            hooks.remove_mem_hooks()
            gc.enable()
        assert not is_locked(scene.partition._lock), start
        assert scene.state() in states, start
        scene.require_sound()
        scene.close()
        yield failed


def main(kind: str, step: int, folder: str, *names: str) -> None:
    """Let allocations of memory fail in some operations, at a given distance."""
    for name in names:
        for many in (1, 30):
            without = 0
            scene = SCENES[kind](Path(folder), BUSY)
            for number, failed in enumerate(_starve(scene, OPERATIONS[name], step, many)):
                print(name, many, number * step, flush=True)  # noqa: T201 - what a crash leaves behind
                without = 0 if failed else without + 1
                if without * step > _END:
                    break


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
