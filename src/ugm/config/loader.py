"""YAML text to plain data, with the place of every value.

What is no text, is too large, or has directives is refused here before the parser sees it; what comes out of the parser
is put together in `ugm.config._builder`. Loading finds as much as it can: it stops only at what is no YAML or too much
of it.

Nothing here knows of queues and limits.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, cast

import yaml

from ugm.config._builder import (
    MAX_ALIASED,
    MAX_COLLECTIONS,
    MAX_DEPTH,
    MAX_KEYS,
    MAX_VALUES,
    UNUSABLE,
    Builder,
    Value,
    mark_in,
    not_text,
)
from ugm.config.places import START, Mark, Place, mark_after
from ugm.config.problems import Problems
from ugm.errors import ConfigError

__all__ = [
    "MAX_ALIASED",
    "MAX_BYTES",
    "MAX_COLLECTIONS",
    "MAX_DEPTH",
    "MAX_KEYS",
    "MAX_VALUES",
    "UNUSABLE",
    "Document",
    "Value",
    "load",
    "refusal",
    "too_large",
]

_HAS_LIBYAML: Final = hasattr(yaml, "CSafeLoader")
#: The largest text that is read, in bytes. PyYAML without libyaml, its library in C, takes twenty times as long.
MAX_BYTES: Final = 8 * 2**20 if _HAS_LIBYAML else 2**19

#: What YAML does not allow in a text, in quotes or out of them.
_NOT_TEXT: Final = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: A directive other than ``%YAML``. The parser takes time in the square of their number, and none means anything here.
_DIRECTIVE: Final = re.compile("%(?<![^\ufeff\n\r\x85\u2028\u2029]%)(?!YAML\\b)")
#: Without the library in C the same parser in Python serves, more slowly.
_Parser: Final = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))


class Document(NamedTuple):
    """What a text holds."""

    data: Value
    place: Place
    problems: Problems


def load(text: str, file: str) -> Document:
    """Read a YAML document.

    Args:
        text: the document.
        file: its name, for problems.

    Raises:
        ConfigError: the text is no YAML, or more than is read; nothing of it can be judged.
    """
    _check_text(text, file)
    builder = Builder(Problems(file))
    parser = _Parser(text)
    try:
        builder.build(parser.get_event)
    except yaml.YAMLError as error:
        reason = ", ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
        builder.refuse(mark_in(getattr(error, "problem_mark", None)), "yaml-syntax", f"no YAML: {reason}")
    except ConfigError:
        raise
    except (ValueError, OverflowError):
        # The parser in Python lets slip what `chr` says of an escape beyond Unicode.
        builder.refuse(START, "yaml-syntax", "no YAML: invalid Unicode character escape code")
    finally:
        parser.dispose()
    return Document(builder.data, builder.place, builder.problems)


def too_large(file: str) -> ConfigError:
    """Return the error of a text that is larger than what is read."""
    hint = "" if _HAS_LIBYAML else " (the most without libyaml, which this installation of PyYAML lacks)"
    return refusal(file, START, "text-too-large", f"the text is larger than {MAX_BYTES} bytes{hint}")


def refusal(file: str, mark: Mark, code: str, message: str) -> ConfigError:
    """Return the error of a text of which nothing is read."""
    problems = Problems(file)
    problems.add(mark, (), code, message)
    return problems.error()


def _check_text(text: object, file: str) -> None:
    if not isinstance(text, str):
        raise refusal(file, START, "text-invalid", f"expected a text, found {type(text).__name__}")
    # Only a text near the bound is encoded to be measured.
    if len(text) > MAX_BYTES // 4 and len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise too_large(file)
    if found := _NOT_TEXT.search(text):
        raise refusal(file, mark_after(text[: found.start()]), "text-invalid", not_text(found[0]))
    if found := _DIRECTIVE.search(text):
        message = "a line begins with %, like a directive; only %YAML is one here"
        raise refusal(file, mark_after(text[: found.start()]), "yaml-directive", message)
