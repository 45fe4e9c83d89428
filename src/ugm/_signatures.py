"""Signatures of named tuples as they are written, for `help` and for editors that import a package."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["show_types"]


def show_types(members: Iterable[object]) -> None:
    """Let the signatures of named tuples show their types instead of `typing.ForwardRef`.

    >>> from typing import NamedTuple
    >>> Pair = NamedTuple("Pair", [("left", "int")])
    >>> show_types([Pair])
    >>> Pair.__new__.__annotations__
    {'left': 'int'}
    """
    for member in members:
        if isinstance(member, type) and issubclass(member, tuple) and hasattr(member, "_fields"):
            for described in (member, member.__new__):
                hints = described.__annotations__
                described.__annotations__ = {
                    name: getattr(hint, "__forward_arg__", hint) for name, hint in hints.items()
                }
