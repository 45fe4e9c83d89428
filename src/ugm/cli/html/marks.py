"""Elements of HTML and SVG as text; whatever is put into them stays text.

A `Markup` is what is ready to be written; every other text is escaped on its way in. So a name in a log or a
configuration is shown as it is, whatever it looks like, and is never obeyed.
"""

from __future__ import annotations

from html import escape
from typing import Final

from ugm.errors import printable

__all__ = ["Markup", "element", "joined"]

#: Elements that have no end.
_VOID: Final = frozenset(("meta", "path", "line", "rect", "col"))


class Markup(str):
    """A text that is HTML already."""

    __slots__ = ()


def joined(*parts: str) -> Markup:
    """Put texts and markup one after the other.

    >>> print(joined("a < b", Markup("<br>")))
    a &lt; b<br>
    """
    return Markup("".join(part if isinstance(part, Markup) else escape(printable(part)) for part in parts))


def element(name: str, /, *parts: str, **attributes: str | float | None) -> Markup:
    """Return an element; an attribute that is None is left out, and a ``_`` in its name is a ``-``.

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
