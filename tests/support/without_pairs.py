"""Ordinary Python, without ugm, that crashes: CPython finds no memory for the pair of a ``dict.items()`` iterator.

The iterator holds a pair that it hands out. If memory ends when that pair is made, CPython 3.11.7, 3.12.1 and 3.13.0
discard an iterator that the garbage collector does not know yet. CPython keeps up to 2,000 pairs that are no longer
used, so this script takes those first.
"""

from __future__ import annotations

from importlib import import_module


def main() -> None:
    """Let one allocation of memory fail, at each of the first places in a loop."""
    testing = import_module("_testcapi")
    amounts = {"memory": 1}
    taken = [(number, number) for number in range(5_000)]
    for start in range(12):
        try:
            testing.set_nomemory(start, start + 1)
            # The pairs of that call.
            taken.append((start, start))
            taken.append((start, start))
            taken.append((start, start))
            for _ in amounts.items():
                pass
        except MemoryError:
            pass
        finally:
            testing.remove_mem_hooks()


if __name__ == "__main__":
    main()
