"""Step one of reading a configuration: from YAML text to plain data, with the place of every value.

This module rejects a text with invalid characters or directives, or above the maximum size, before it is parsed.
`ugm._documents.builder` builds the data from the events of the parser. Loading reports as many problems as possible; it
stops only at a syntax error or if the text has too many values.

The module knows nothing of queues and limits.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, NamedTuple, cast

import yaml

from ugm._documents.builder import Builder, Value, mark_in, not_text
from ugm._documents.places import START, Mark, Path, Place, line_and_column, locate, mark_after
from ugm._documents.problems import Problems
from ugm.errors import ConfigError

__all__ = ["MAX_BYTES", "Document", "load", "refusal", "too_large"]

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
_Parser: Final = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))


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
    builder = Builder(Problems(file))
    parser = _Parser(text)
    try:
        builder.build(parser.get_event)
    except yaml.YAMLError as error:
        reason = ", ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
        mark = mark_in(getattr(error, "problem_mark", None))
        if _TOO_DEEP in reason:
            builder.refuse_depth(mark)
        builder.refuse(mark, "yaml-syntax", f"invalid YAML: {_in_plain_words(reason, text, mark)}")
    except ConfigError:
        raise
    except (ValueError, OverflowError):
        # The parser in Python does not catch the error of `chr` for an escape beyond Unicode.
        builder.refuse(START, "yaml-syntax", "invalid YAML: invalid Unicode character escape code")
    finally:
        parser.dispose()
    return Document(builder.data, builder.place, builder.problems)


def _in_plain_words(reason: str, text: str, mark: Mark) -> str:
    """Return the reason of a syntax error; that of a frequent one in plain words."""
    line, column = line_and_column(mark)
    found = next(islice(text.splitlines(), line - 1, None), "")
    indentation = found[: len(found) - len(found.lstrip())]
    if "\t" in indentation or found[column - 1 : column] == "\t":
        return "a tab character (allowed for indentation: only spaces)"
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
