"""Step one of reading a configuration: from YAML text to plain data, with the place of every value.

This module rejects a text with invalid characters or directives, or above the maximum size, before it is parsed.
`ugm._documents.builder` builds the data from the nodes of the parser. Loading reports as many problems as possible; it
stops only at a syntax error or if the text has too many values.

The module knows nothing of queues and limits.

A `DocumentFormat` reads documents of other formats inside of a configuration, for example the manifest of an elastic
group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple, cast

import yaml

from ugm._documents.builder import (
    START,
    Builder,
    Mark,
    Place,
    Problems,
    Value,
    line_and_column,
    locate,
    mark_after,
    mark_in,
    not_text,
)
from ugm.configuration.fields import ConfigValue, to_data
from ugm.configuration.scheduler import Path
from ugm.errors import ConfigError
from ugm.resources import Resource

__all__ = ["MAX_BYTES", "Document", "DocumentFormat", "ReadDocument", "load", "refusal", "too_large"]

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


def load(text: str, file: str) -> Document:
    """Read a YAML document.

    Args:
        text: the document.
        file: the name of the text in problems.

    Raises:
        ConfigError: the text is not valid YAML, or too large; no part of it can be checked.
    """
    if not isinstance(text, str):
        raise refusal(file, START, "text-invalid", f"expected a text, found {type(text).__name__}")
    # The parser in C refuses subclasses of `str`, and their methods may do anything.
    text = str.__str__(text)
    _check_text(text, file)
    problems = Problems(file)
    builder, parser = Builder(problems), _Parser(text)
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

    __slots__ = ()

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
