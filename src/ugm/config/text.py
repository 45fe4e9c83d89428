"""Configurations from text, and to text.

A file is read in three steps: the loader makes data of it, the schema gives the data types, and the rules judge the
whole. What a step finds wrong is set aside and the next goes on with the rest, so that one reading reports everything;
findings that may only follow from what was set aside are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Final, TypeAlias

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ugm.config.findings import Finding
from ugm.config.loader import MAX_BYTES, UNUSABLE, Document, Value, load, too_large
from ugm.config.places import Path, format_path, line_and_column, locate
from ugm.config.scalars import kind_of, quote
from ugm.config.schema import SchedulerConfig, model_of
from ugm.config.validation import find_problems
from ugm.errors import ConfigError, Problem

__all__ = ["dump_config", "load_config", "parse_config"]

#: The lists whose items are texts; those of all other lists are mappings.
_LISTS_OF_TEXTS: Final = ("users", "groups")
#: What pydantic calls a value of the wrong shape, and what should be there.
_SHAPES: Final = {"model_type": "a mapping", "tuple_type": "a list"}
#: Paths with a common beginning told once.
_Tree: TypeAlias = "dict[str | int, _Tree]"


def load_config(path: str | os.PathLike[str]) -> SchedulerConfig:
    """Read a configuration from a file.

    Raises:
        ConfigError: the file cannot be read, or what it says cannot be used; with everything that is wrong.
    """
    file = os.fspath(path)
    try:
        with FilePath(file).open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError((Problem(file, 0, 0, "", "file-unreadable", f"the file cannot be read: {reason}"),)) from None
    if len(content) > MAX_BYTES:
        raise too_large(file)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError((_not_utf8(file, content, error.start),)) from None
    return parse_config(text, file=file)


def _not_utf8(file: str, content: bytes, at: int) -> Problem:
    line_start = content.rfind(b"\n", 0, at) + 1
    # The bytes before the first that is wrong are right; a byte order mark is no character of the line.
    column = len(content[line_start:at].decode("utf-8-sig")) + 1
    line = content.count(b"\n", 0, at) + 1
    return Problem(file, line, column, "", "text-invalid", f"the byte 0x{content[at]:02X} is not UTF-8")


def parse_config(text: str, *, file: str = "<text>") -> SchedulerConfig:
    """Read a configuration from a text.

    Args:
        text: YAML, as in a file.
        file: what problems call the text.

    Raises:
        ConfigError: what the text says cannot be used; with everything that is wrong, in the order of the text.

    >>> config = parse_config("partitions: [{queues: [{name: prod, limits: [{users: [ana], maxapplications: 2}]}]}]")
    >>> config.partition().root.queues[0].limits[0].max_applications
    2
    """
    document = load(text, file)
    problems = list(document.problems)
    config, paths = _validate(document, file, problems)
    set_aside = _SetAside(paths)
    if config is not None:
        problems += [
            _problem(document, file, finding.path, finding.code, finding.message)
            for finding in find_problems(config)
            if not set_aside.explains(finding)
        ]
    if config is None or problems:
        raise ConfigError(tuple(sorted(problems)))
    return config


def _validate(document: Document, file: str, problems: list[Problem]) -> tuple[SchedulerConfig | None, list[Path]]:
    """Give the data types; report what has none, set it aside and try again without.

    Returns:
        The models, or None if nothing is left of the document; and the paths of what was set aside.
    """
    data = {} if document.data is None else document.data
    set_aside: list[Path] = []
    while True:
        try:
            return SchedulerConfig.model_validate(data, by_alias=True, by_name=False), set_aside
        except ValidationError as errors:
            found = errors.errors(include_url=False)
        for error in found:
            if error["input"] is not UNUSABLE:
                code, message = _sentence(error)
                problems.append(_problem(document, file, error["loc"], code, message))
            set_aside.append(error["loc"])
        if () in set_aside:
            return None, set_aside
        data = _without(data, [error["loc"] for error in found])


def _sentence(error: ErrorDetails) -> tuple[str, str]:
    """Say what is wrong with a value: the code, and a sentence."""
    if error["type"] == "extra_forbidden":
        *above, field = error["loc"]
        known = ", ".join(sorted(model_of(above).yaml_names()))
        return "field-unknown", f"unknown field {quote(str(field))}; known here: {known}"
    if expected := _SHAPES.get(error["type"]):
        return "wrong-type", f"expected {expected}, found {kind_of(error['input'])}"
    return error["type"], error["msg"]


def _problem(document: Document, file: str, path: Path, code: str, message: str) -> Problem:
    mark = locate(document.place, path, key=code == "field-unknown")
    return Problem(file, *line_and_column(mark), format_path(path), code, message)


def _without(data: Value, paths: list[Path]) -> Value:
    """Copy data without the values at some paths; an item of a list is emptied instead, to keep the others in place."""
    tree: _Tree = {}
    for path in paths:
        node = tree
        for part in path:
            node = node.setdefault(part, {})
    return _pruned(data, tree, ())


def _pruned(data: Value, tree: _Tree, path: Path) -> Value:
    if not tree:
        return "" if path[-2] in _LISTS_OF_TEXTS else {}
    if isinstance(data, dict):
        return {
            key: _pruned(value, tree[key], (*path, key)) if key in tree else value
            for key, value in data.items()
            if tree.get(key) != {}
        }
    return [_pruned(item, tree[at], (*path, at)) if at in tree else item for at, item in enumerate(data)]


class _SetAside:
    """The values that were set aside, and whether a finding may follow from that."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths: Final = frozenset(paths)
        #: Everything that one of the values is in, or is.
        self.around: Final = frozenset(path[:length] for path in self.paths for length in range(len(path) + 1))

    def explains(self, finding: Finding) -> bool:
        """Tell whether a finding is about one of the values, or may follow from what it lacks."""
        return self._within(finding.path) or any(
            source in self.around or self._within(source) for source in finding.sources or (finding.path,)
        )

    def _within(self, path: Path) -> bool:
        return any(path[:length] in self.paths for length in range(len(path) + 1))


def dump_config(config: SchedulerConfig) -> str:
    """Write a configuration as YAML, without what is left at its default.

    Reading it back gives an equal configuration.

    >>> print(dump_config(parse_config("partitions: [{queues: [{name: prod, maxapplications: 010}]}]")))
    partitions:
    - queues:
      - name: prod
        maxapplications: 10
    <BLANKLINE>
    """
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    data = config.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return str(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True))
