"""Configurations from text, and to text.

A file is read in three steps: the loader makes data of it, the schema gives the data types, and the rules judge the
whole. What a step finds wrong is set aside and the next goes on with the rest, so that one reading reports everything,
up to `ugm.config.problems.MAX_PROBLEMS`; findings that may only follow from what was set aside are left out.
"""

from __future__ import annotations

import os
from pathlib import Path as FilePath

import yaml

from ugm.config.assembly import Assembly, SetAside
from ugm.config.loader import MAX_BYTES, Document, load, refusal, too_large
from ugm.config.places import locate, mark_after
from ugm.config.schema import SchedulerConfig
from ugm.config.validation import find_problems
from ugm.errors import ConfigError, Problem

__all__ = ["decode_config", "dump_config", "load_config", "parse_config"]


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
    return decode_config(content, file=file)


def decode_config(content: bytes, *, file: str) -> SchedulerConfig:
    """Read a configuration from the bytes of a file, of which at most `MAX_BYTES` + 1 are needed.

    Raises:
        ConfigError: as for `load_config`.
    """
    if len(content) > MAX_BYTES:
        raise too_large(file)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(file, content, error.start) from None
    return parse_config(text, file=file)


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
    document = load(text, file)
    problems = document.problems
    assembly = Assembly(document)
    config = assembly.config()
    if config is not None:
        _judge(config, document, assembly.set_aside)
    if config is None or problems:
        raise problems.error()
    return config


def _judge(config: SchedulerConfig, document: Document, set_aside: SetAside) -> None:
    """Report what breaks a rule."""
    for finding in find_problems(config):
        if set_aside.explains(finding):
            document.problems.skip()
        else:
            document.problems.add(locate(document.place, finding.path), finding.path, finding.code, finding.message)


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
