"""How Sphinx builds the documentation."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "ugm"
release = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8"))["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
#: Links may name a heading of another page.
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"ugm {release}"

#: What stands between single backticks in a docstring is a name.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"

#: Nothing is fetched for a build, so that names from elsewhere lead nowhere.
nitpick_ignore_regex = [
    ("py:.*", r"(collections\.abc|concurrent\.futures|datetime|fractions|hypothesis|io|os|pathlib)\..*")
]
nitpick_ignore = [
    ("py:obj", "DEFAULT_PREFIXES"),  # private things that docstrings speak of
    ("py:obj", "MAX_SECONDS"),
    ("py:obj", "UNKNOWN"),
    ("py:class", "_Most"),
    ("py:class", "ugm.journal.partition._T"),  # whatever an operation returns
    ("py:class", "datetime"),
    ("py:class", "ugm.shared.engine.Engine"),
]


def lead_with_a_comment(_app: Sphinx, what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Keep napoleon from taking what precedes a colon in the description of an attribute for its type."""
    if what in ("attribute", "property"):
        if lines and lines[0].startswith("Alias for field number"):  # what Python says of a field that nobody described
            lines.clear()
        lines[:0] = ["..", ""]


def setup(app: Sphinx) -> None:
    """Come before napoleon, whose priority is 500."""
    app.connect("autodoc-process-docstring", lead_with_a_comment, priority=400)
