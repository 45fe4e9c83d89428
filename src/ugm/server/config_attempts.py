"""The newest attempts to replace the configuration of a server: by whom, when, and with which differences."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple, final

from ugm import Problem
from ugm.partition import Changes

__all__ = ["Actor", "ConfigAttempt", "ConfigAttempts"]

#: The number of attempts that are kept.
_MOST_ATTEMPTS: Final = 50
#: The number of differences of a partition, and of problems, that are kept of an attempt.
_MOST_LINES: Final = 200


class Actor(NamedTuple):
    """The client or event that changes the configuration."""

    #: The address of the client; ``local`` for the program, a signal, or the watch of the file.
    client: str
    #: ``operator``, ``program``, ``signal`` or ``watch``.
    role: str


class ConfigAttempt(NamedTuple):
    """An attempt to replace the configuration."""

    #: In seconds since 1970.
    at: float
    #: ``file`` or ``upload``.
    source: str
    actor: Actor
    #: ``ok``, or the code of the refusal.
    outcome: str
    #: The first problems for which it was refused.
    problems: tuple[str, ...]
    #: The differences from the configuration before, by partition, each with a sign: ``+``, ``-`` or ``~``.
    differences: Mapping[str, tuple[str, ...]]
    #: The number of differences and problems that were left out.
    left_out: int

    def to_dict(self) -> dict[str, object]:
        """Return the attempt for JSON."""
        return {
            "at": self.at,
            "source": self.source,
            "client": self.actor.client,
            "role": self.actor.role,
            "outcome": self.outcome,
            "problems": list(self.problems),
            "differences": {name: list(lines) for name, lines in self.differences.items()},
            "left_out": self.left_out,
        }


@final
class ConfigAttempts:
    """The newest attempts; their number and size are bounded."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: Final = deque[ConfigAttempt](maxlen=_MOST_ATTEMPTS)

    def add(
        self,
        at: float,
        source: str,
        actor: Actor,
        outcome: str,
        *,
        problems: tuple[Problem, ...] = (),
        changes: Mapping[str, Changes] | None = None,
    ) -> None:
        """Add an attempt."""
        lines = {name: str(changed).splitlines() if changed else [] for name, changed in (changes or {}).items()}
        total = len(problems) + sum(map(len, lines.values()))
        kept = {name: tuple(found[:_MOST_LINES]) for name, found in lines.items()}
        shown = tuple(map(str, problems[:_MOST_LINES]))
        left_out = total - len(shown) - sum(map(len, kept.values()))
        self._found.append(ConfigAttempt(at, source, actor, outcome, shown, kept, left_out))

    def newest_first(self) -> list[ConfigAttempt]:
        """Return the attempts, the newest first."""
        return list(reversed(self._found))
