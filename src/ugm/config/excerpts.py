"""The lines of a text to which problems belong, with a mark under the place, as compilers print them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ugm.config.manifests import LINE_END
from ugm.errors import Problem, printable

__all__ = ["with_excerpts"]

#: The maximum number of characters that are shown before and after the place.
_BEFORE: Final = 60
_AFTER: Final = 60


def with_excerpts(problems: Iterable[Problem], texts: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return problems with the lines of the texts to which they belong."""
    found = tuple(problems)
    files = [file for file in {problem.file for problem in found} if isinstance(texts.get(file), str)]
    lines = {file: LINE_END.split(str.__str__(texts[file])) for file in files}
    return tuple(_with_excerpt(problem, lines.get(problem.file, ())) for problem in found)


def _with_excerpt(problem: Problem, lines: list[str] | tuple[str, ...]) -> Problem:
    if not 0 < problem.line <= len(lines):
        return problem
    line, place = lines[problem.line - 1], problem.column - 1
    start = max(place - _BEFORE, 0)
    before = ("..." if start else "") + printable(line[start:place])
    after = printable(line[place : place + _AFTER]) + ("..." if len(line) > place + _AFTER else "")
    return problem._replace(excerpt=f"{before}{after}\n{' ' * len(before)}^")
