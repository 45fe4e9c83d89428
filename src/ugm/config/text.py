"""Configurations from text, and to text.

A file is read in three steps: the loader makes data of it, the schema gives the data types, and the rules judge the
whole. What a step finds wrong is set aside and the next goes on with the rest, so that one reading reports everything,
up to `ugm.config.problems.MAX_PROBLEMS`; findings that may only follow from what was set aside are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import NamedTuple

import yaml

from ugm._config_fields import to_data
from ugm.config.assembly import Assembly, SetAside
from ugm.config.findings import Finding
from ugm.config.loader import MAX_BYTES, Document, load, refusal, too_large
from ugm.config.misspelling import misspelt_resources
from ugm.config.places import locate, mark_after
from ugm.config.problems import Problems
from ugm.config.validation import find_problems, partitions_can_be_used
from ugm.configuration import SchedulerConfig
from ugm.errors import ConfigError, Problem, RequestError
from ugm.resources import Resource, format_amount

__all__ = [
    "Review",
    "decode_config",
    "dump_config",
    "load_config",
    "parse_config",
    "review_bytes",
    "review_config",
    "review_file",
]


class Review(NamedTuple):
    """What is to be said about a configuration."""

    #: None if it cannot be used.
    config: SchedulerConfig | None
    #: Everything that is wrong, in the order of the text.
    problems: tuple[Problem, ...]
    #: What is allowed, and is probably a mistake, in the order of the text.
    warnings: tuple[Problem, ...]


def load_config(path: str | os.PathLike[str]) -> SchedulerConfig:
    """Read a configuration from a file.

    Raises:
        ConfigError: the file cannot be read, or what it says cannot be used; with everything that is wrong.
    """
    text, file = _read(path)
    return parse_config(text, file=file)


def review_file(path: str | os.PathLike[str], *, known: Iterable[str] = ()) -> Review:
    """Do what `review_config` does for a file."""
    try:
        text, file = _read(path)
    except ConfigError as error:
        return Review(None, error.problems, ())
    return review_config(text, file=file, known=known)


def _read(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the text of a file, and its name for problems."""
    try:
        file = os.fsdecode(path)
    except TypeError:
        raise _unreadable(repr(path), "expected a path") from None
    try:
        with FilePath(file).open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(file, reason) from None
    return _decoded(content, file), file


def decode_config(content: bytes, *, file: str) -> SchedulerConfig:
    """Read a configuration from the bytes of a file, of which at most `MAX_BYTES` + 1 are needed.

    Raises:
        ConfigError: as for `load_config`.
    """
    return parse_config(_decoded(content, file), file=file)


def review_bytes(content: bytes, *, file: str) -> Review:
    """Do what `review_config` does for the bytes of a file, of which at most `MAX_BYTES` + 1 are needed."""
    try:
        text = _decoded(content, file)
    except ConfigError as error:
        return Review(None, error.problems, ())
    return review_config(text, file=file)


def _decoded(content: bytes, file: str) -> str:
    if len(content) > MAX_BYTES:
        raise too_large(file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(file, content, error.start) from None


def _unreadable(file: str, reason: str) -> ConfigError:
    return ConfigError((Problem(file, 0, 0, "", "file-unreadable", f"the file cannot be read: {reason}"),))


def _not_utf8(file: str, content: bytes, at: int) -> ConfigError:
    # The bytes before the first that is wrong are right.
    mark = mark_after(content[:at].decode("utf-8-sig"))
    return refusal(file, mark, "text-invalid", f"the byte 0x{content[at]:02X} is not UTF-8")


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
    document, config = _parsed(text, file)
    if config is None or document.problems:
        raise document.problems.error()
    return config


def review_config(text: str, *, file: str = "<text>", known: Iterable[str] = ()) -> Review:
    """Read a configuration and report everything that is wrong with it, or probably wrong.

    Args:
        text: YAML, as in a file.
        file: what problems call the text.
        known: names of resources that are right, for example those of a cluster. Others that are similar to one of
            them, or to one that is used elsewhere in the configuration, are probably misspelt.

    >>> review = review_config("partitions: [{queues: [{name: prod, resources: {max: {cpu: 8}}}]}]")
    >>> review.warnings[0].message
    "the resource 'cpu' is probably misspelt: did you mean 'vcore'?"
    """
    try:
        document, config = _parsed(text, file)
    except ConfigError as error:
        return Review(None, error.problems, ())
    problems = document.problems.error().problems if document.problems else ()
    warnings = () if config is None else _warnings(config, document, file, known)
    return Review(None if problems else config, problems, warnings)


def _parsed(text: str, file: str) -> tuple[Document, SchedulerConfig | None]:
    """Read a configuration; the problems are in the document."""
    document = load(text, file)
    assembly = Assembly(document)
    config = assembly.config()
    if config is not None:
        _judge(config, document, assembly.set_aside)
    return document, config


def _warnings(config: SchedulerConfig, document: Document, file: str, known: Iterable[str]) -> tuple[Problem, ...]:
    warnings = Problems(file)
    for path, code, message, _ in misspelt_resources(config, known):
        warnings.add(locate(document.place, path, key=True), path, code, message)
    return warnings.error().problems


def _judge(config: SchedulerConfig, document: Document, set_aside: SetAside) -> None:
    """Report what breaks a rule."""
    for finding in find_problems(config):
        if set_aside.explains(finding):
            document.problems.skip()
        else:
            _report(document, finding)
    for finding in partitions_can_be_used(config) if not document.problems else ():
        _report(document, finding)


def _report(document: Document, finding: Finding) -> None:
    document.problems.add(locate(document.place, finding.path), finding.path, finding.code, finding.message)


def dump_config(config: SchedulerConfig) -> str:
    """Write a configuration as YAML, without what is left at its default.

    Reading it back gives an equal configuration.

    Raises:
        RequestError: it is something else.

    >>> print(dump_config(parse_config("partitions: [{queues: [{name: prod, maxapplications: 010}]}]")))
    partitions:
    - queues:
      - name: prod
        maxapplications: 10
    <BLANKLINE>
    """
    if not isinstance(config, SchedulerConfig):
        raise RequestError("config", type(config).__name__, "expected a SchedulerConfig")
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    data = to_data(config, _quantities)
    return str(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True))


def _quantities(amounts: Resource) -> dict[str, str]:
    return {name: format_amount(name, amount) for name, amount in amounts.items()}
