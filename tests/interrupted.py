"""Work on a partition that is interrupted at some moment, and what may be held then.

As a script, it makes allocations of memory fail: ``python interrupted.py SCENE STEP FOLDER OPERATION...``
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from admitting import BOB, memory
from test_interruptions import OPERATIONS, SCENES, Operation, Scene
from ugm import Partition, RequestError, Resource

__all__ = ["Worker", "states_of"]

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
        return {told.allocation_id: told.usage for told in self.partition.allocations()}

    def work(self) -> None:
        """Make some calls of every kind."""
        partition, draw = self.partition, self.draw
        for number in (draw.randrange(10) for _ in range(10)):
            name, amount = f"n{number}", memory(draw.randint(1, 6))
            self._call(lambda: partition.allocate(name, "one", memory(1)), {name: memory(1)})
            self._call(lambda: partition.resize("two", amount), {"two": amount})
            self._call(lambda: partition.release(name), {}, name)
            licences = Resource(memory=1, licence=draw.randint(1, 3))
            self._call(lambda: partition.allocate(f"x{name}", "two", licences, priority=2), {f"x{name}": licences})
            self._call(lambda: partition.release(f"x{name}"), {}, f"x{name}")
            self._call(lambda: partition.submit(name, BOB, "root.p.y"), {})
            self._call(lambda: partition.allocate(f"y{name}", name, memory(1)), {f"y{name}": memory(1)})
            self._call(lambda: partition.allocate_all([(f"z{name}", name, memory(1))]), {f"z{name}": memory(1)})
            self._call(lambda: partition.remove(name), {}, f"y{name}", f"z{name}")

    def _call(self, call: Callable[[], object], added: Held, *removed: str) -> None:
        before = self.options[0]
        after = {name: usage for name, usage in (before | added).items() if name not in removed}
        self.options = (before, after)
        has_changed = False
        with suppress(RequestError):
            has_changed = bool(call())
        self.options = (after, after) if has_changed else (before, before)

    def require_sound(self) -> None:
        """Compare what is held with what may be, after an interruption."""
        assert not self.partition._lock.locked()
        self.partition.verify()
        held = self.held()
        assert held in self.options
        self.options = (held, held)


def states_of(scene: Scene, operation: Operation) -> list[object]:
    """Return what a scene shows before an operation, and after it."""
    states = []
    for change in (lambda _: None, operation):
        scene.build()
        change(scene.partition)
        states.append(scene.state())
        scene.close()
    return states


def _starve(scene: Scene, operation: Operation, step: int, *, forever: bool) -> Iterator[bool]:
    """Let one allocation of memory fail, or all from one on; yield whether the operation has failed."""
    from _testcapi import remove_mem_hooks, set_nomemory  # noqa: PLC0415

    states = states_of(scene, operation)
    for start in count(0, step):
        scene.build()
        failed, partition = False, scene.partition
        stop = 0 if forever else start + 1
        try:
            set_nomemory(start, stop)
            operation(partition)
        except MemoryError:
            failed = True
        finally:
            remove_mem_hooks()
        assert not scene.partition._lock.locked(), start
        assert scene.state() in states, start
        scene.require_sound()
        scene.close()
        yield failed


def main(kind: str, step: int, folder: str, *names: str) -> None:
    """Let allocations of memory fail in some operations, one out of so many."""
    for name in names:
        for forever in (False, True):
            without = 0
            scene = SCENES[kind](Path(folder))
            for number, failed in enumerate(_starve(scene, OPERATIONS[name], step, forever=forever)):
                print(name, forever, number * step, flush=True)  # noqa: T201 - what a crash leaves behind
                without = 0 if failed else without + 1
                if without * step > _END:
                    break


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
