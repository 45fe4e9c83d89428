"""The newest attempts to replace the configuration of a server: by whom, when, and with which differences."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from ugm import Problem
from ugm.events import ConfigurationChanged
from ugm.partition import Changes

__all__ = ["Actor", "ConfigAttempt", "ConfigAttempts"]

#: The number of attempts that are kept.
_MOST_ATTEMPTS: Final = 50
#: The sources of changes that a server makes.
_SOURCES: Final = ("file", "upload")
#: The number of words of an author after the source.
_AUTHOR_PARTS: Final = 2
#: The number of differences of a partition, and of problems, that are kept of an attempt.
_MOST_LINES: Final = 200


class Actor(NamedTuple):
    """The client or event that changes the configuration."""

    #: The address of the client; ``local`` for the program, a signal, or the file watcher.
    client: str
    #: ``operator``, ``program``, ``signal``, ``watch``, or the author that a program has passed to `configure`.
    role: str

    def author(self, source: str) -> str:
        """Return the author of a change from a source, as events and stores contain it."""
        return f"{source} {self.role} {self.client}"

    @classmethod
    def of_author(cls, author: str) -> tuple[str, Actor]:
        """Return the source and the actor of an `author`; any other text is the role of a program."""
        source, *named = author.split(" ")
        if source in _SOURCES and len(named) == _AUTHOR_PARTS:
            return source, cls(named[1], named[0])
        return "program", cls("local", author or "program")


@dataclass(frozen=True, slots=True)
class ConfigAttempt:
    """An attempt to replace the configuration."""

    #: In seconds since 1970.
    at: float
    #: ``file`` or ``upload``; ``program`` for a change before the start of the server by a program.
    source: str
    client: str
    role: str
    #: ``ok``, or the code of the refusal.
    outcome: str
    #: The first problems for which it was refused.
    problems: tuple[str, ...]
    #: The differences from the configuration before, by partition, each with a sign: ``+``, ``-`` or ``~``.
    differences: Mapping[str, tuple[str, ...]]
    #: The number of differences and problems that were left out.
    left_out: int


@final
class ConfigAttempts:
    """The newest attempts; their number and size are bounded."""

    def __init__(self) -> None:
        self._found: Final = deque[ConfigAttempt](maxlen=_MOST_ATTEMPTS)
        #: The changes from before the start of the server.
        self._earlier: Final = deque[ConfigAttempt](maxlen=_MOST_ATTEMPTS)

    def add(
        self,
        at: float,
        source: str,
        actor: Actor,
        outcome: str,
        *,
        problems: tuple[Problem, ...] = (),
        changes: Mapping[str, Changes] | None = None,
        is_earlier: bool = False,
    ) -> None:
        """Add an attempt with the first of its differences and problems."""
        lines = {name: str(changed).splitlines() if changed else [] for name, changed in (changes or {}).items()}
        total = len(problems) + sum(map(len, lines.values()))
        kept = {name: tuple(found[:_MOST_LINES]) for name, found in lines.items()}
        shown = tuple(map(str, problems[:_MOST_LINES]))
        left_out = total - len(shown) - sum(map(len, kept.values()))
        attempt = ConfigAttempt(at, source, *actor, outcome, shown, kept, left_out)
        (self._earlier if is_earlier else self._found).append(attempt)

    def add_earlier(self, partition: str, changed: Iterable[tuple[float, ConfigurationChanged]]) -> None:
        """Add the changes of a partition from before the start, with their times in seconds since 1970."""
        for at, event in changed:
            source, actor = Actor.of_author(event.author)
            self.add(at, source, actor, "ok", changes={partition: event.changes}, is_earlier=True)

    def newest_first(self) -> list[ConfigAttempt]:
        """Return the attempts, the newest first."""
        earlier = sorted(self._earlier, key=lambda one: one.at)
        return [*reversed(self._found), *reversed(earlier)][:_MOST_ATTEMPTS]
