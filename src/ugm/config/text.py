"""Functions that read a configuration from YAML, and write it.

A file is read in three steps: the loader turns it into plain data, the assembly builds values with the schema, and the
rules check the whole. Each step sets invalid parts aside, and the next step continues with the rest. So one reading
reports all problems, up to `ugm._documents.problems.MAX_PROBLEMS`. Findings that may only follow from a part that was
set aside are not reported.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple, cast

import yaml

from ugm._config_fields import to_data
from ugm._documents.loader import MAX_BYTES, Document, refusal, too_large
from ugm._documents.places import mark_after
from ugm._documents.problems import Problems
from ugm._json_values import JsonObject
from ugm.arguments import require_items
from ugm.config.amount_warnings import old_units
from ugm.config.assembly import Assembly
from ugm.config.excerpts import with_excerpts
from ugm.config.inclusion import FILE_KEY, FileReader, include_files, reader_in
from ugm.config.manifests import load_config_document
from ugm.config.misspelling import MAX_WARNINGS, misspelt_resources
from ugm.config.property_warnings import property_warnings, queues_without_group
from ugm.config.validation import find_problems, partitions_can_be_used
from ugm.configuration import QuotaTreeDocument, SchedulerConfig
from ugm.errors import ConfigError, Problem, RequestError, value_text
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


_LOGGER: Final = logging.getLogger(__name__)
#: The maximum number of warnings in a log record.
_LOGGED: Final = 10
#: The codes of findings about a key.
_AT_KEYS: Final = frozenset(("resource-name-misspelt", "resource-unlisted", "units-old", "queue-property-misspelt"))


class Review(NamedTuple):
    """The result of reading a configuration: the value, or its problems; and warnings."""

    #: None if the configuration has problems.
    config: SchedulerConfig | None
    #: In the order of the text.
    problems: tuple[Problem, ...]
    #: Probable mistakes that are allowed, in the order of the text.
    warnings: tuple[Problem, ...]


def load_config(path: str | os.PathLike[str]) -> SchedulerConfig:
    """Read a configuration from a file. Relative file names in it are resolved against its directory.

    Raises:
        ConfigError: the file cannot be read, or the configuration is not valid; with all problems.
    """
    text, file = _read(path)
    return _config_of(_reviewed(text, file, _folder_of(file)))


def included_files(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the names of the files that the configuration in a file includes, whether or not they can be read."""
    found: list[str] = []
    with suppress(ConfigError):
        text, file = _read(path)
        # Nearly all configurations include no file, and parsing a large one takes long.
        if FILE_KEY in text:
            include_files(load_config_document(text, file), reader_in(_folder_of(file), found))
    return tuple(found)


def review_file(path: str | os.PathLike[str], *, known: Iterable[str] = ()) -> Review:
    """Read a configuration from a file and report all problems and warnings; see `review_config`."""
    return _review(lambda: _read(path), known, _folder_of)


def _folder_of(file: str) -> str:
    return str(FilePath(file).parent)


def _read(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the text of a file, and its name in problems."""
    try:
        file = _file_name(path)
    except TypeError:
        raise _unreadable(value_text(path), "expected a path") from None
    try:
        with FilePath(file).open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(file, reason) from None
    return _decoded(content, file), file


def _file_name(path: str | os.PathLike[str]) -> str:
    """Return the name of a file as a text of the built-in class.

    Raises:
        TypeError: it is neither a text nor a path.
    """
    return str.__str__(os.fsdecode(path))


def _required_file(file: str) -> str:
    """Return the name of a text in problems, after checking its type."""
    try:
        return _file_name(file)
    except TypeError:
        raise RequestError("file", file, "expected a text") from None


def _required_names(known: Iterable[str]) -> tuple[str, ...]:
    """Return names of resources, after checking their types."""
    names = require_items("known", known)
    for name in names:
        if not isinstance(name, str):
            raise RequestError("known", name, "expected names of resources")
    return tuple(map(str.__str__, names))


def decode_config(content: bytes, *, file: str) -> SchedulerConfig:
    """Read a configuration from the standard input, of which the first `MAX_BYTES` + 1 bytes suffice.

    The names of files in it are relative to the working directory.

    Raises:
        ConfigError: see `load_config`.
    """
    return _config_of(_reviewed(_decoded(content, file), file, "."))


def review_bytes(content: bytes, *, file: str) -> Review:
    """Review the standard input, like `decode_config`; see `review_config`."""
    return _review(lambda: (_decoded(content, file), file), (), lambda _: ".")


def _decoded(content: bytes, file: str) -> str:
    if len(content) > MAX_BYTES:
        raise too_large(file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The bytes before the first invalid one are valid.
        mark = mark_after(content[: error.start].decode("utf-8-sig"))
        message = f"the byte 0x{content[error.start]:02X} is not UTF-8"
        raise refusal(file, mark, "text-invalid", message) from None


def _unreadable(file: str, reason: str) -> ConfigError:
    return ConfigError((Problem(file, 0, 0, "", "file-unreadable", f"the file cannot be read: {reason}"),))


def parse_config(text: str, *, file: str = "<text>") -> SchedulerConfig:
    """Read a configuration from a text. It cannot name other files.

    Args:
        text: YAML, as in a file.
        file: the name of the text in problems.

    Raises:
        ConfigError: the configuration is not valid; with all problems in the order of the text.
        RequestError: *file* is not a text.

    >>> config = parse_config("partitions: [{queues: [{name: prod, limits: [{users: [ana], maxapplications: 2}]}]}]")
    >>> config.partition().root.queues[0].limits[0].max_applications
    2
    """
    return _config_of(_reviewed(text, _required_file(file)))


def _config_of(review: Review) -> SchedulerConfig:
    """Return the configuration of a review, and log its warnings.

    Raises:
        ConfigError: it has problems.
    """
    if review.config is None:
        raise ConfigError(review.problems)
    if review.warnings:
        count = len(review.warnings)
        lines = "\n".join(map(str, review.warnings[:_LOGGED]))
        more = f"\nand {count - _LOGGED} more" if count > _LOGGED else ""
        _LOGGER.warning("the configuration has %d warning%s:\n%s%s", count, "s" * (count > 1), lines, more)
    return review.config


def review_config(text: str, *, file: str = "<text>", known: Iterable[str] = ()) -> Review:
    """Read a configuration and report all problems and warnings.

    Args:
        text: YAML, as in a file.
        file: the name of the text in problems.
        known: correct names of resources, for example those of a cluster. A warning reports a name that is similar to
            one of them, or to a name that the configuration uses more often.

    Raises:
        RequestError: *file* is not a text, or *known* contains another value.

    >>> review = review_config("partitions: [{queues: [{name: prod, resources: {max: {cpu: 8}}}]}]")
    >>> review.warnings[0].message
    "the resource 'cpu' is probably misspelt: did you mean 'vcore'?"
    """
    name = _required_file(file)
    return _review(lambda: (text, name), known)


def _review(
    read: Callable[[], tuple[str, str]], known: Iterable[str], folder_of: Callable[[str], str] | None = None
) -> Review:
    """Review the text that a function returns together with its name."""
    names = _required_names(known)
    try:
        text, file = read()
    except ConfigError as error:
        return Review(None, error.problems, ())
    return _reviewed(text, file, None if folder_of is None else folder_of(file), names)


def _reviewed(text: str, file: str, folder: str | None = None, known: Iterable[str] = ()) -> Review:
    """Review a configuration.

    Args:
        text: the text.
        file: its name in problems.
        folder: the folder of the files that it names; None if it must not name any.
        known: correct names of resources.
    """
    texts = {file: text}
    try:
        document = include_files(load_config_document(text, file), None if folder is None else _reader(folder, texts))
        assembly = Assembly(document)
        config = assembly.config()
        if config is not None:
            _apply_rules(config, document, assembly)
        problems = document.problems.error().problems if document.problems else ()
        warnings = () if config is None else with_excerpts(_warnings(config, document, file, known), texts)
    except ConfigError as error:
        problems, config, warnings = error.problems, None, ()
    valid = None if problems or config is None else replace(config, warnings=warnings)
    return Review(valid, with_excerpts(problems, texts), warnings)


def _reader(folder: str, texts: dict[str, str]) -> FileReader:
    """Return a function that reads the files of a folder, and adds their texts to *texts*."""
    read_file = reader_in(folder)

    def read(name: str) -> tuple[str, str]:
        text, file = read_file(name)
        texts[file] = text
        return text, file

    return read


def _warnings(config: SchedulerConfig, document: Document, file: str, known: Iterable[str]) -> tuple[Problem, ...]:
    warned = document._replace(problems=Problems(file))
    found = chain(
        misspelt_resources(config, known), old_units(config), property_warnings(config), queues_without_group(config)
    )
    for path, code, message, _ in islice(found, MAX_WARNINGS):
        warned.report(path, code, message, key=code in _AT_KEYS)
    return warned.problems.error().problems


def _apply_rules(config: SchedulerConfig, document: Document, assembly: Assembly) -> None:
    """Report all violations of rules."""
    for finding in find_problems(config):
        moved = finding._replace(
            path=assembly.path_of(finding.path), sources=tuple(map(assembly.path_of, finding.sources))
        )
        if assembly.set_aside.explains(moved):
            document.problems.skip()
        else:
            document.report(moved.path, finding.code, finding.message, key=finding.code in _AT_KEYS)
    for finding in partitions_can_be_used(config) if not document.problems else ():
        document.report(finding.path, finding.code, finding.message)


def _tree_document(tree: QuotaTreeDocument) -> object:
    from ugm.quotatree.declared import document_of  # noqa: PLC0415 - most configurations declare no trees

    return document_of(tree, format_amount)


_WRITERS: Final[Mapping[type, Callable[[Any], object]]] = {
    Resource: lambda amounts: {name: format_amount(name, amount) for name, amount in amounts.items()},
    QuotaTreeDocument: _tree_document,
}


def dump_config(config: SchedulerConfig) -> str:
    """Write a configuration as YAML, without settings that have their default value.

    Reading the text gives an equal configuration.

    Raises:
        RequestError: the value is not a `SchedulerConfig`.

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
    return str(yaml.dump(config_data(config), Dumper=dumper, sort_keys=False, allow_unicode=True))


def config_data(config: SchedulerConfig) -> JsonObject:
    """Return a configuration as mappings, lists and scalars with the keys of a file, without default values."""
    return cast("JsonObject", to_data(config, _WRITERS))
