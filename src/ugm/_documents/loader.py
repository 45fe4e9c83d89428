"""Step one of reading a configuration: from YAML text to plain data, with the place of every value.

This module rejects a text with invalid characters or directives, or above the maximum size, before it is parsed.
`Builder` makes the data from the nodes of the parser. Loading reports as many problems as possible; it
stops only at a syntax error or if the text has too many values.

The module knows nothing of queues and limits.

A `DocumentFormat` reads documents of other formats inside of a configuration, for example the manifest of an elastic
group.

A scalar stays a text, because only the schema knows its type: a `Quoted` text if it is in quotes, and None for the
plain words that mean null. An alias stands for the same data as its anchor, so it takes no time. The nesting, and the
numbers of values in the text and behind aliases, are bounded (`MAX_DEPTH`, `MAX_VALUES`, `MAX_ALIASED`).

A key or value that cannot be used has been reported and is represented by `UNUSABLE`; so the rest of the document is
still built and checked.

A `Place` is a tree of the same shape as the data, with the line and column of every value and key. A path is converted
to a line and a column only when a problem is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, cast, final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ugm.configuration.fields import ConfigValue, to_data
from ugm.configuration.scheduler import Path
from ugm.errors import ConfigError, Problem, cut, quote
from ugm.resources import Resource

#: A line and a column in one number. A large document has millions of marks. The garbage collector does not track
#: numbers; with objects of two fields, loading takes four times as long.
Mark: TypeAlias = int
#: The column takes the lower bits; no accepted text has a longer line.
_COLUMN_BITS: Final = 32
#: The characters that end a line; the first two together end one line.
_BREAKS: Final = ("\r", "\n", "\x85", "\u2028", "\u2029")
#: The beginning of a text.
START: Final[Mark] = 0


class ListPlace(NamedTuple):
    """The place of a list and of its items."""

    mark: Mark
    items: Sequence[Place]


class MappingPlace(NamedTuple):
    """The place of a mapping, of its keys and of their values."""

    mark: Mark
    keys: Mapping[str, Mark]
    values: Mapping[str, Place]


class FilePlace(NamedTuple):
    """The place of a value that is the content of another file."""

    #: The name of the file in problems.
    file: str
    place: Place

    @property
    def mark(self) -> Mark:
        """The beginning of the content."""
        return mark_of(self.place)


class Location(NamedTuple):
    """A position in one of the files of a configuration."""

    #: Empty for the configuration itself.
    file: str
    mark: Mark


#: The place of a scalar is its mark.
Place: TypeAlias = "Mark | ListPlace | MappingPlace | FilePlace"


def mark_at(line: int, column: int) -> Mark:
    """Return the mark of a line and a column, both counted from 0."""
    return line << _COLUMN_BITS | column


def mark_after(text: str) -> Mark:
    r"""Return the mark of the position after a text; lines end as in YAML 1.1.

    >>> line_and_column(mark_after("a\r\nb\x85cd"))
    (3, 3)
    """
    line = sum(map(text.count, _BREAKS)) - text.count("\r\n")
    return mark_at(line, len(text) - max(map(text.rfind, _BREAKS)) - 1)


def line_and_column(mark: Mark) -> tuple[int, int]:
    """Return the line and the column of a mark, both counted from 1.

    >>> line_and_column(mark_at(2, 0))
    (3, 1)
    """
    return (mark >> _COLUMN_BITS) + 1, (mark & (1 << _COLUMN_BITS) - 1) + 1


def mark_of(place: Place) -> Mark:
    """Return the mark of the beginning of a value."""
    return place if isinstance(place, int) else place.mark


def locate(place: Place, path: Path, *, key: bool = False) -> Location:
    """Return the location of a path, or of the longest beginning of the path that is in the text.

    A list or a mapping is located at its key, because its own beginning may be several lines below.

    Args:
        place: the place of the whole document.
        path: the path to locate.
        key: if true, locate the last key, not its value.
    """
    file, mark = "", mark_of(place)
    for part in path:
        if isinstance(place, MappingPlace) and isinstance(part, str) and part in place.values:
            key_mark, place = place.keys[part], place.values[part]
            mark = place if isinstance(place, int) and not key else key_mark
        elif isinstance(place, ListPlace) and isinstance(part, int) and part < len(place.items):
            place = place.items[part]
            mark = mark_of(place)
        else:
            break
        if isinstance(place, FilePlace):
            file, place = place
            mark = mark_of(place)
    return Location(file, mark)


def value_at(data: object, place: Place, path: Path) -> tuple[str, object, Place]:
    """Return the file, the value and the place at a path that exists."""
    file = ""
    for part in path:
        container: Any = data
        data = container[part]
        if isinstance(place, MappingPlace):
            place = place.values[str(part)]
        elif isinstance(place, ListPlace) and isinstance(part, int):
            place = place.items[part]
        if isinstance(place, FilePlace):
            file, place = place
    return file, data, place


def format_path(path: Path) -> str:
    """Format a path for people; long keys are truncated.

    >>> format_path(("partitions", 0, "queues", 2, "name"))
    'partitions[0].queues[2].name'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{cut(part)}" for part in path).removeprefix(".")


#: Reading stops after this many problems: more are not useful, and each costs memory.
MAX_PROBLEMS: Final = 1000
#: Reading stops after this many findings that may follow from other problems and are not reported.
MAX_CONSEQUENCES: Final = 10_000


@final
class Problems:
    """The problems of one text."""

    def __init__(self, file: str) -> None:
        self._file: Final = file
        self._found: Final[list[Problem]] = []
        self._left_out = 0

    @property
    def file(self) -> str:
        """The name of the text."""
        return self._file

    def __len__(self) -> int:
        return len(self._found)

    def add(self, mark: Mark, path: Path, code: str, message: str, *, file: str = "") -> None:
        """Record a problem.

        Args:
            mark: its place.
            path: the path of the value.
            code: its code.
            message: its message.
            file: the name of another file to which the place belongs; empty for the text itself.

        Raises:
            ConfigError: the maximum number of problems (`MAX_PROBLEMS`) is exceeded.
        """
        self.include([Problem(file or self._file, *line_and_column(mark), format_path(path), code, message)])

    def include(self, problems: Iterable[Problem]) -> None:
        """Record problems of another file.

        Raises:
            ConfigError: the maximum number of problems (`MAX_PROBLEMS`) is exceeded.
        """
        for problem in problems:
            if len(self._found) == MAX_PROBLEMS:
                self.stop()
            self._found.append(problem)

    def skip(self) -> None:
        """Count a finding that is not reported because it may follow from another problem.

        Raises:
            ConfigError: the maximum number of such findings (`MAX_CONSEQUENCES`) is exceeded.
        """
        if self._left_out == MAX_CONSEQUENCES:
            self.stop()
        self._left_out += 1

    def stop(self) -> NoReturn:
        """Raise all problems, with a final one: too many problems.

        Raises:
            ConfigError: always.
        """
        found = sorted(self._found)
        message = "too many problems; the rest of the text was not checked"
        last = found[-1]._replace(path="", code="too-many-problems", message=message)
        raise ConfigError((*found, last)) from None

    def error(self) -> ConfigError:
        """Return the error that lists all problems in the order of the text."""
        return ConfigError(tuple(sorted(self._found)))


#: The maximum number of keys, scalars, lists and mappings of a text; 25,000 limits have 325,000.
MAX_VALUES: Final = 500_000
#: The maximum number of values that all aliases together stand for; each `_LONG` characters of a scalar count as one
#: more.
MAX_ALIASED: Final = 100_000
#: The maximum nesting depth of lists and mappings; a queue takes two levels.
MAX_DEPTH: Final = 100
#: Represents a value that cannot be used; the reason has been reported.
UNUSABLE: Final = object()
_LONG: Final = 64
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TAG: Final = "tag:yaml.org,2002:"
_TAGS: Final[Mapping[type[Node], frozenset[str]]] = {
    ScalarNode: frozenset(_TAG + name for name in ("null", "bool", "int", "float", "str")),
    SequenceNode: frozenset({_TAG + "seq"}),
    MappingNode: frozenset({_TAG + "map"}),
}
_MERGE: Final = "<<"
#: A mapping, a list, a text, None or `UNUSABLE`.
Value: TypeAlias = Any


class Quoted(str):
    """A scalar in quotes or in a block: never a number, a boolean or null."""

    __slots__ = ()


def mark_in(mark: yaml.Mark | None) -> Mark:
    """Return the mark of a position of the parser."""
    return START if mark is None else mark_at(mark.line, mark.column)


def not_text(character: str) -> str:
    """Return the message about a character that YAML does not allow."""
    return f"the character U+{ord(character):04X} is not allowed in a text"


class _Built(NamedTuple):
    """The data and the places of a node."""

    value: Value
    place: Place
    #: The number of values that an alias of it stands for.
    size: int = 1


@final
class Builder:
    """Builds the data and the places of one document from the nodes of a parser."""

    def __init__(self, problems: Problems, *, last_wins: bool = False) -> None:
        self.problems: Final = problems
        self._last_wins: Final = last_wins
        #: By the identity of the node, which an alias shares; None while the node is not finished.
        self._known: Final[dict[int, _Built | None]] = {}
        self._values = self._aliased = 0

    def refuse(self, mark: Mark, path: Path, code: str, message: str) -> NoReturn:
        """Record a problem and stop reading.

        Raises:
            ConfigError: always.
        """
        self.problems.add(mark, path, code, message)
        raise self.problems.error() from None

    def refuse_depth(self, mark: Mark, path: Path = ()) -> NoReturn:
        """Refuse a document that is nested too deep.

        Raises:
            ConfigError: always.
        """
        self.refuse(mark, path, "yaml-too-deep", f"lists and mappings are nested more than {MAX_DEPTH} levels deep")

    def build(self, node: Node, path: Path) -> _Built:
        """Return the data and the places of a node."""
        mark = mark_in(node.start_mark)
        if id(node) in self._known:
            return self._alias(self._known[id(node)], mark, path)
        self._values += 1
        if self._values > MAX_VALUES:
            self.refuse(mark, path, "yaml-too-many-values", f"there are more than {MAX_VALUES} values")
        if not isinstance(node, ScalarNode) and len(path) >= MAX_DEPTH:
            self.refuse_depth(mark, path)
        self._known[id(node)] = None
        if isinstance(node, ScalarNode):
            built = self._scalar(node, mark, path)
        else:
            built = self._list(node, mark, path) if isinstance(node, SequenceNode) else self._mapping(node, mark, path)
        if node.tag not in _TAGS[type(node)]:
            message = f"unknown tag {quote(str(node.tag))} (allowed: null, bool, int, float, str, seq and map)"
            self.problems.add(mark, path, "yaml-tag-unknown", message)
            built = built._replace(value=UNUSABLE)
        self._known[id(node)] = built
        return built

    def _alias(self, known: _Built | None, mark: Mark, path: Path) -> _Built:
        if known is None:
            self.problems.add(mark, path, "yaml-alias-recursive", "an anchor contains itself")
            return _Built(UNUSABLE, mark)
        self._aliased += known.size
        if self._aliased > MAX_ALIASED:
            message = f"the aliases stand for more than {MAX_ALIASED} values"
            self.refuse(mark, path, "yaml-aliases-too-large", message)
        return known

    def _scalar(self, node: ScalarNode, mark: Mark, path: Path) -> _Built:
        value: Value = node.value
        if node.style:
            value = Quoted(value)
            # The parser in Python accepts the escape of a surrogate; the one in C does not.
            if found := _SURROGATE.search(value):
                self.problems.add(mark, path, "text-invalid", not_text(found[0]))
                value = UNUSABLE
        elif value in _NULLS:
            value = None
        return _Built(value, mark, 1 + len(node.value) // _LONG)

    def _list(self, node: SequenceNode, mark: Mark, path: Path) -> _Built:
        built = [self.build(item, (*path, at)) for at, item in enumerate(node.value)]
        place = ListPlace(mark, [one.place for one in built])
        return _Built([one.value for one in built], place, 1 + sum(one.size for one in built))

    def _mapping(self, node: Node, mark: Mark, path: Path) -> _Built:
        data: dict[str, Value] = {}
        keys: dict[str, Mark] = {}
        places: dict[str, Place] = {}
        merged: list[_Built] = []
        size = 1
        for key, item in node.value:
            name, at = key.value, mark_in(key.start_mark)
            if not isinstance(key, ScalarNode):
                self.problems.add(at, path, "yaml-key-invalid", "a key must be a text, not a list or a mapping")
            elif name == _MERGE and not key.style:
                merged += self._merged(item, at, path)
            elif name in keys and not self._last_wins:
                message = f"the key {quote(name)} is given twice, first in line {line_and_column(keys[name])[0]}"
                self.problems.add(at, (*path, name), "yaml-key-duplicate", message)
            else:
                built = self.build(item, (*path, name))
                keys[name], data[name], places[name] = at, built.value, built.place
                size += 1 + built.size
        for one in merged:
            size += one.size
            if isinstance(one.place, MappingPlace):
                for name in one.value.keys() - data.keys():
                    data[name] = one.value[name]
                    places[name], keys[name] = one.place.values[name], one.place.keys[name]
        return _Built(data, MappingPlace(mark, keys, places), size)

    def _merged(self, node: Node, mark: Mark, path: Path) -> list[_Built]:
        """Return the values of a merge key: a mapping, or a list of mappings, the first of which takes precedence."""
        sources = [self.build(one, path) for one in (node.value if isinstance(node, SequenceNode) else [node])]
        if not all(isinstance(one.value, dict) for one in sources if one.value is not UNUSABLE):
            message = "the value of a merge key must be a mapping or a list of mappings"
            self.problems.add(mark, path, "yaml-merge-invalid", message)
        return [one for one in sources if isinstance(one.value, dict)]


_HAS_LIBYAML: Final = hasattr(yaml, "CSafeLoader")
#: The maximum size of a text in bytes. PyYAML is twenty times slower without libyaml, its library in C.
MAX_BYTES: Final = 8 * 2**20 if _HAS_LIBYAML else 2**19
#: A part of the error of libyaml 0.2.6 for a text that is nested in more than 1,000 levels. It reads ahead, so this may
#: come before the first value.
_TOO_DEEP: Final = "maximum nesting depth"
#: The characters that YAML does not allow, quoted or not.
_NOT_TEXT: Final = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: A directive other than ``%YAML``: none has a meaning in a configuration, and the parser takes time in the square of
#: their number.
_DIRECTIVE: Final = re.compile("%(?<![^\ufeff\n\r\x85\u2028\u2029]%)(?!YAML\\b)")
#: The parser in C if it is installed, else the slower one in Python.
_Parser: Final = cast("type[yaml.BaseLoader]", getattr(yaml, "CBaseLoader", yaml.BaseLoader))


class Document(NamedTuple):
    """The data of a text, the places of all values, and the problems found so far."""

    data: Value
    place: Place
    problems: Problems

    def report(self, path: Path, code: str, message: str, *, key: bool = False) -> None:
        """Record a problem at the place of a path.

        Args:
            path: the path.
            code: its code.
            message: its message.
            key: if true, its place is that of the last key, not of the value.

        Raises:
            ConfigError: there are too many problems.
        """
        file, mark = locate(self.place, path, key=key)
        self.problems.add(mark, path, code, message, file=file)


def load(text: str, file: str, *, last_wins: bool = False) -> Document:
    """Read a YAML document.

    Args:
        text: the document.
        file: the name of the text in problems.
        last_wins: whether a key that is given twice has its last value; otherwise it is a problem.

    Raises:
        ConfigError: the text is not valid YAML, or too large; no part of it can be checked.
    """
    if not isinstance(text, str):
        raise refusal(file, START, "text-invalid", f"expected a text, found {type(text).__name__}")
    # The parser in C refuses subclasses of `str`, and their methods may do anything.
    text = str.__str__(text)
    _check_text(text, file)
    problems = Problems(file)
    builder, parser = Builder(problems, last_wins=last_wins), _Parser(text)
    try:
        root = parser.get_node() if parser.check_node() else None
        data, place, _ = (None, START, 0) if root is None else builder.build(root, ())
        if parser.check_node():
            mark = mark_in(parser.peek_event().start_mark)  # type: ignore[no-untyped-call]  # of types-PyYAML
            problems.add(mark, (), "yaml-second-document", "a second document begins here (allowed: one document)")
    except yaml.YAMLError as error:
        reason = ", ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
        mark = mark_in(getattr(error, "problem_mark", None))
        if _TOO_DEEP in reason:
            builder.refuse_depth(mark)
        code = "yaml-alias-unknown" if "undefined alias" in reason else "yaml-syntax"
        builder.refuse(mark, (), code, f"invalid YAML: {_in_plain_words(reason, text, mark)}")
    except RecursionError:
        builder.refuse_depth(START)
    except ConfigError:
        raise
    except (ValueError, OverflowError):
        # The parser in Python does not catch the error of `chr` for an escape beyond Unicode.
        builder.refuse(START, (), "yaml-syntax", "invalid YAML: invalid Unicode character escape code")
    finally:
        parser.dispose()
    return Document(data, place, problems)


def _in_plain_words(reason: str, text: str, mark: Mark) -> str:
    """Return the reason of a syntax error; that of a frequent one in plain words."""
    line, column = line_and_column(mark)
    found = next(islice(text.splitlines(), line - 1, None), "")
    indentation = found[: len(found) - len(found.lstrip())]
    if "\t" in indentation or found[column - 1 : column] == "\t":
        return "a tab character (allowed for indentation: only spaces)"
    if "undefined alias" in reason:
        return "an unquoted * begins an alias, and no anchor has its name; quote a text that begins with *"
    if "an alias" in reason:
        return "an unquoted * begins an alias; quote it: '*'"
    if "cannot start any token" in reason:
        return f"an unquoted text cannot begin with {found[column - 1 : column]}; quote it"
    return reason


def too_large(file: str) -> ConfigError:
    """Return the error for a text above the maximum size."""
    hint = "" if _HAS_LIBYAML else "; more if PyYAML is installed with libyaml"
    return refusal(file, START, "text-too-large", f"the text is too large (allowed: up to {MAX_BYTES} bytes{hint})")


def refusal(file: str, mark: Mark, code: str, message: str) -> ConfigError:
    """Return the error for a text that cannot be read at all."""
    problems = Problems(file)
    problems.add(mark, (), code, message)
    return problems.error()


def _check_text(text: str, file: str) -> None:
    # Encode the text to measure it only if it may be too large.
    if len(text) > MAX_BYTES // 4 and len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise too_large(file)
    if found := _NOT_TEXT.search(text):
        raise refusal(file, mark_after(text[: found.start()]), "text-invalid", not_text(found[0]))
    if found := _DIRECTIVE.search(text):
        message = "a line begins with %, like a directive (allowed: %YAML)"
        raise refusal(file, mark_after(text[: found.start()]), "yaml-directive", message)


class ReadDocument(NamedTuple):
    """The value of a document."""

    #: None if the document cannot be used.
    value: ConfigValue | None
    #: The paths of fields in the document that differ from their paths in the value.
    moved: Mapping[Path, Path]
    #: The paths at which the document is invalid.
    refused: tuple[Path, ...] = ()


class DocumentFormat:
    """A format of documents for the values of one class."""

    def recognises(self, data: Value) -> bool:  # noqa: ARG002 - for subclasses
        """Return whether data are a document, and not the fields of the value. The default is True."""
        return True

    def read(self, document: Document, data: Value, path: Path) -> ReadDocument:
        """Return the value of a document at a path, and report its problems."""
        raise NotImplementedError

    def write(self, value: ConfigValue, write_amount: Callable[[str, int], object]) -> object:
        """Return a value as data. The default are its fields.

        Args:
            value: the value.
            write_amount: writes an amount of a resource.
        """

        def amounts_of(amounts: Resource) -> object:
            return {name: write_amount(name, amount) for name, amount in amounts.items()}

        return to_data(value, {Resource: amounts_of})
