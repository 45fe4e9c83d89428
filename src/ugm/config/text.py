"""Functions that read a configuration from YAML, and write it.

A file is read in three steps: the loader turns it into plain data, the assembly builds values with the schema, and the
rules check the whole. Each step sets invalid parts aside, and the next step continues with the rest. So one reading
reports all problems, up to `ugm._documents.loader.MAX_PROBLEMS`. Findings that may only follow from a part that was
set aside are not reported.

A configuration may be *inside of another YAML file*: a ConfigMap of Kubernetes, a list of objects, or the values of
Helm. The configuration is a text below a key such as ``queues.yaml``. It is read in place: the lines around it are
replaced by empty ones, so that every problem has the line and the column of the outer file.

It may *include* files: at some places below the partition key ``ugm``, a mapping with only the key ``file`` stands for
the content of a file in YAML or JSON. The content replaces the mapping before the values are built. So each problem in
it has the name, the line and the column of that file, and all later steps need not know that there are several files.
Only a configuration that was read from a file may include others. A text from elsewhere, for example from a client of a
server, could otherwise read any file of this machine.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import Final, NamedTuple, TypeAlias, cast

import yaml

from ugm._documents.loader import (
    MAX_BYTES,
    START,
    UNUSABLE,
    Document,
    FilePlace,
    ListPlace,
    MappingPlace,
    Place,
    Problems,
    Quoted,
    Value,
    format_path,
    line_and_column,
    load,
    mark_after,
    mark_of,
    refusal,
    too_large,
)
from ugm._documents.located import load_any
from ugm._json_values import JsonObject
from ugm.arguments import require_items
from ugm.config.assembly import WRITERS, Assembly
from ugm.config.validation import (
    MAX_WARNINGS,
    find_problems,
    misspelt_resources,
    old_units,
    partitions_can_be_used,
    property_warnings,
    queues_without_group,
)
from ugm.configuration import SchedulerConfig
from ugm.configuration.fields import to_data
from ugm.configuration.scheduler import Path
from ugm.errors import ConfigError, Problem, RequestError, printable, quote, value_text

#: The ends of lines of YAML.
LINE_END: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
#: The key of a configuration.
_CONFIG: Final = re.compile(r"^\s*[\"']?partitions[\"']?\s*:", re.MULTILINE)
_KEYS: Final = (".yaml", ".yml", ".json")
_NEXT_DOCUMENT: Final = re.compile(r"---(?=\s|$)")
#: The key of a configuration that is not inside of another file.
_PARTITIONS: Final = "partitions"


class _Text(NamedTuple):
    """A configuration inside of another file."""

    path: Path
    text: str
    #: The line of the value, from 0.
    line: int


def load_config_document(text: str, file: str) -> Document:
    """Read the document with a configuration: the text itself, or the one text inside of it.

    Raises:
        ConfigError: the text is not valid YAML, or contains several configurations.
    """
    document = load(text, file)
    if not isinstance(document.data, dict) or _PARTITIONS in document.data or not _CONFIG.search(text):
        return document
    lines = LINE_END.split(text)
    found = [one for part in _documents(document, lines, file) for one in _inside(part.data, part.place, ())]
    if not found:
        return document
    if len(found) > 1:
        keys = ", ".join(quote(format_path(one.path)) for one in found)
        raise refusal(file, START, "config-ambiguous", f"the file contains {len(found)} configurations: {keys}")
    return load(_in_place(found[0], lines), file)


def _documents(document: Document, lines: list[str], file: str) -> Iterator[Document]:
    """Yield the documents of a file; those that cannot be read contain no configuration."""
    starts = [number for number, line in enumerate(lines) if _NEXT_DOCUMENT.match(line)]
    if not starts:
        yield document
        return
    for start, end in zip([0, *starts], [*starts, len(lines)], strict=True):
        try:
            yield load("\n" * start + "\n".join(lines[start:end]), file)
        except ConfigError:
            continue


def _inside(data: Value, place: Place, path: Path) -> Iterator[_Text]:
    """Yield the configurations in the texts of a document."""
    if isinstance(data, dict) and isinstance(place, MappingPlace):
        for key, value in data.items():
            below = place.values[key]
            if isinstance(value, Quoted) and key.endswith(_KEYS) and _CONFIG.search(value):
                yield _Text((*path, key), str(value), line_and_column(mark_of(below))[0] - 1)
            else:
                yield from _inside(value, below, (*path, key))
    elif isinstance(data, list) and isinstance(place, ListPlace):
        for index, (value, below) in enumerate(zip(data, place.items, strict=True)):
            yield from _inside(value, below, (*path, index))


def _in_place(found: _Text, lines: list[str]) -> str:
    """Return the text at its lines of the file; a text in quotes, whose lines are others, begins at its line."""
    inner = found.text.rstrip("\n").split("\n")
    first = found.line + 1
    outer = lines[first : first + len(inner)]
    if [line.strip() for line in outer] == [line.strip() for line in inner]:
        return "\n" * first + "\n".join(outer)
    return "\n" * found.line + found.text


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


#: Returns the text of a file that a configuration names, and the name of the file in problems.
FileReader: TypeAlias = Callable[[str], tuple[str, str]]
#: Stands for every item of a list.
_EACH: Final = object()
#: The places where a file may be included.
_PLACES: Final[tuple[tuple[object, ...], ...]] = (
    ("partitions", _EACH, "ugm", "elastic", "groups", _EACH),
    ("partitions", _EACH, "ugm", "quotatrees", _EACH, "tree"),
)
#: The key of a file that is included.
FILE_KEY: Final = "file"
_Placed: TypeAlias = tuple[Value, Place]


def reader_in(folder: str, texts: dict[str, str]) -> FileReader:
    """Return a function that reads files whose names are relative to a folder, and adds their texts to *texts*.

    The text of a file that cannot be read is empty.
    """

    def read(name: str) -> tuple[str, str]:
        file = os.path.join(folder, name)  # noqa: PTH118 - the name stays as it was written
        texts.setdefault(file, "")
        with FilePath(file).open("rb") as stream:
            texts[file] = stream.read(MAX_BYTES + 1).decode("utf-8-sig")
        return texts[file], file

    return read


def include_files(document: Document, read: FileReader | None) -> Document:
    """Return a document in which the content of the named files has replaced their names.

    Args:
        document: the document; its problems are those of the result.
        read: reads the files; None if no file may be included.

    Raises:
        ConfigError: there are too many problems.
    """
    data, place = document.data, document.place
    for pattern in _PLACES:
        data, place = _replaced(data, place, pattern, (), partial(_content, document, read))
    return Document(data, place, document.problems)


def _replaced(
    data: Value,
    place: Place,
    pattern: Sequence[object],
    path: Path,
    content: Callable[[Value, Place, Path], list[_Placed]],
) -> _Placed:
    """Return data in which the values at the places of a pattern are replaced; containers are copied, not changed."""
    part, rest = pattern[0], pattern[1:]
    if part is _EACH and isinstance(data, list) and isinstance(place, ListPlace):
        items: list[_Placed] = []
        for at, pair in enumerate(zip(data, place.items, strict=True)):
            below = (*path, at)
            items += [_replaced(*pair, rest, below, content)] if rest else content(*pair, below)
        return [item for item, _ in items], ListPlace(place.mark, [each for _, each in items])
    if isinstance(part, str) and isinstance(data, dict) and isinstance(place, MappingPlace) and part in data:
        given, below = (data[part], place.values[part]), (*path, part)
        found = _replaced(*given, rest, below, content) if rest else content(*given, below)[0]
        return {**data, part: found[0]}, place._replace(values={**place.values, part: found[1]})
    return data, place


def _content(document: Document, read: FileReader | None, data: Value, place: Place, path: Path) -> list[_Placed]:
    """Return the values that a value stands for: itself, or those in a file."""
    if not isinstance(data, dict) or set(data) != {FILE_KEY} or not isinstance(data[FILE_KEY], str):
        return [(data, place)]
    name, at = str(data[FILE_KEY]), (*path, FILE_KEY)
    if read is None:
        document.report(at, "file-not-allowed", "only a configuration that is a file may name other files")
        return [(UNUSABLE, place)]
    try:
        text, file = read(name)
        loaded = load_any(text, file)
    except ConfigError as error:
        document.problems.include(error.problems)
        return [(UNUSABLE, place)]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        document.report(at, "file-unreadable", f"the file {quote(name)} cannot be read: {reason}")
        return [(UNUSABLE, place)]
    if loaded.problems:
        document.problems.include(loaded.problems.error().problems)
    found = [(loaded.data, loaded.place)] if path[-1] == "tree" else _items(loaded.data, loaded.place)
    return [(item, FilePlace(file, each)) for item, each in found]


def _items(data: Value, place: Place) -> Iterator[_Placed]:
    """Yield the groups of a file: the items of a list or of a Kubernetes list, or the one group that it contains."""
    if isinstance(data, dict) and isinstance(place, MappingPlace) and isinstance(data.get("items"), list):
        data, place = data["items"], place.values["items"]
    if isinstance(data, list) and isinstance(place, ListPlace):
        yield from zip(data, place.items, strict=True)
    else:
        yield data, place


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
    found: dict[str, str] = {}
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
        document = include_files(load_config_document(text, file), None if folder is None else reader_in(folder, texts))
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
    return cast("JsonObject", to_data(config, WRITERS))
