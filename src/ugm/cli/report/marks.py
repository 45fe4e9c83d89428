"""HTML and SVG elements with automatic escaping.

A `Markup` is inserted as it is; all other text is escaped. So a name from a log or a configuration is always shown
literally, even if it contains markup.
"""

from __future__ import annotations

from html import escape
from typing import Final

from ugm.errors import printable

__all__ = ["Markup", "element", "joined"]

#: Elements without an end tag.
_VOID: Final = frozenset(("meta", "path", "line", "rect", "col"))


class Markup(str):
    """Text that is valid HTML and must not be escaped."""

    __slots__ = ()


def joined(*parts: str) -> Markup:
    """Concatenate texts and markup.

    >>> print(joined("a < b", Markup("<br>")))
    a &lt; b<br>
    """
    return Markup("".join(part if isinstance(part, Markup) else escape(printable(part)) for part in parts))


def element(name: str, /, *parts: str, **attributes: str | float | None) -> Markup:
    """Return an element; attributes with the value None are omitted, and ``_`` in their names becomes ``-``.

    >>> print(element("td", "a < b", class_="far", aria_label='"x"', title=None))
    <td class="far" aria-label="&quot;x&quot;">a &lt; b</td>
    """
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{named}/>")
    return Markup(f"<{name}{named}>{joined(*parts)}</{name}>")
