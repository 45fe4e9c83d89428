"""How Sphinx builds the documentation."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import ugm
import ugm.config
import ugm.simulation
import ugm.testing

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "ugm"
release = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"ugm {release}"
exclude_patterns = ["_build"]

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
