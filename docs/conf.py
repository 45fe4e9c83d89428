"""Configuration of Sphinx."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "ugm"
release = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8"))["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
#: Links may refer to headings of other pages.
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"ugm {release}"

#: A text in single backticks in a docstring is a name.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"

#: The build downloads nothing, so names of other projects have no target.
nitpick_ignore_regex = [
    ("py:.*", r"(collections\.abc|concurrent\.futures|datetime|fractions|hypothesis|io|os|pathlib|ssl)\..*")
]
nitpick_ignore = [
    ("py:obj", "DEFAULT_PREFIXES"),  # private names in docstrings
    ("py:obj", "MAX_SECONDS"),
    # The parts of values that are passed on as a whole.
    ("py:class", "ugm.partition.checkpoint.QueueRecord"),
    ("py:class", "ugm.partition.compiled_config.CompiledConfig"),
    ("py:class", "ugm.partition.config_plan.ConfigPlanParts"),
    ("py:class", "ugm.partition.line_index.LineIndex"),
    ("py:class", "ugm.partition.snapshot_parts.SnapshotParts"),
    ("py:class", "ugm.partition.snapshot_parts.PendingLine"),
    ("py:class", "ugm.tracking.snapshot.TrackerCopy"),
    ("py:class", "ugm.tracking.snapshot.UsageLine"),
    ("py:class", "opentelemetry.metrics.Meter"),
    ("py:class", "ugm.journal.log.Log"),
    ("py:class", "ugm.service.addresses.Address"),
    ("py:class", "ugm.service.addresses.LeaderAccess"),
    ("py:class", "ugm.service.event_stream.EventReader"),
    ("py:class", "ugm.service.remote_partition.AsyncCaller"),
    ("py:class", "ugm.service.remote_partition.Caller"),
    ("py:obj", "UNKNOWN"),
    ("py:class", "_Most"),
    ("py:class", "ugm.journal.partition._T"),  # the result of an operation
    ("py:class", "ugm.integrations.grants._T"),
    ("py:class", "ugm.integrations.dask_gateway._Config"),
    ("py:class", "ugm.service.client._T"),
    ("py:class", "ugm.elastic.quota.AnswerT"),
    ("py:class", "ugm.partition.allocation.Traits"),
    # Sphinx splits the alternatives of a type in a signature at the comma.
    ("py:obj", "typing.Literal['always'"),
    ("py:obj", "typing.Literal['each'"),
    ("py:class", "datetime"),
    ("py:class", "ugm.partition.application.LedgerEntry"),
]

#: Docstrings name modules, which have no pages of their own.
SOURCE = Path(__file__).parents[1] / "src"
for module in SOURCE.rglob("*.py"):
    parts = module.relative_to(SOURCE).with_suffix("").parts
    nitpick_ignore.append(("py:obj", ".".join(part for part in parts if part != "__init__")))


def lead_with_a_comment(_app: Sphinx, what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Keep napoleon from reading the text before a colon in the description of an attribute as its type."""
    if what in ("attribute", "property"):
        if lines and lines[0].startswith("Alias for field number"):  # the default text of an undescribed field
            lines.clear()
        lines[:0] = ["..", ""]


def find_alias(app: Sphinx, env: BuildEnvironment, node: Element, content: Element) -> Element | None:
    """Resolve names under which packages re-export a class, and operations that `Partition` inherits."""
    target = str(node.get("reftarget", ""))
    name = f"ugm.{target.removeprefix('ugm.')}"
    if name.startswith("ugm.Partition."):
        name = name.replace("ugm.Partition.", "ugm.partition.AbstractPartition.")
    if node.get("refdomain") != "py" or name == target:
        return None
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)


def setup(app: Sphinx) -> None:
    """Register the hooks; the first one before napoleon, whose priority is 500."""
    app.connect("autodoc-process-docstring", lead_with_a_comment, priority=400)
    app.connect("missing-reference", find_alias)
