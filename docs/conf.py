"""Configuration of Sphinx."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util.docutils import SphinxDirective

from ugm.configuration.fields import ConfigValue
from ugm.server.app import ROUTES
from ugm.server.interface.route import PREFIX
from ugm.server.metrics.table import METRICS

if TYPE_CHECKING:
    from docutils.nodes import Element, Node
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "ugm"
release = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8"))["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
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
    ("py:class", "ugm.partition.config.compiled.CompiledConfig"),
    ("py:class", "ugm.partition.config.plan.ModelFacts"),
    ("py:class", "ugm.partition.engine.application.Application"),
    ("py:class", "ugm.partition.rows.ApplicationRow"),
    ("py:class", "ugm.partition.rows.QueueRow"),
    ("py:class", "ugm.partition.answers.snapshot.SnapshotParts"),
    ("py:class", "ugm.tracking.trackers.TrackerCopy"),
    ("py:class", "ugm.tracking.trackers.UsageLine"),
    ("py:class", "ugm.service.protocol.addresses.Address"),
    ("py:class", "ugm.service.protocol.addresses.LeaderAccess"),
    ("py:class", "ugm.service.remote.BlockingConnection"),
    ("py:class", "ugm.service.connection.AsyncConnection"),
    ("py:class", "ugm.service.remote.Caller"),
    ("py:class", "ugm.service.protocol.operations.Operation"),
    ("py:obj", "UNKNOWN"),
    ("py:class", "_Most"),
    ("py:class", "ugm.store.partition._T"),  # the result of an operation
    ("py:class", "ugm.partition.rows.Change"),
    ("py:class", "ugm.integrations.grants._T"),
    ("py:class", "ugm.integrations.dask_gateway._Config"),
    ("py:class", "ugm.service.client._T"),
    ("py:class", "ugm.elastic.quota.AnswerT"),
    ("py:class", "ugm.partition.rows.Traits"),
    # Sphinx splits the alternatives of a type in a signature at the comma.
    ("py:obj", "typing.Literal['always'"),
    ("py:obj", "typing.Literal['each'"),
    ("py:class", "datetime"),
    ("py:class", "Starlette"),
    ("py:class", "prometheus_client.registry.Collector"),
    ("py:class", "ugm.partition.engine.application.LedgerEntry"),
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


def without_defaults(_app: Sphinx, what: str, _name: str, obj: object, _options: object, *_: object) -> object:
    """Leave out the signature of a value of a configuration: its attributes say the same."""
    return ("()", None) if what == "class" and isinstance(obj, type) and issubclass(obj, ConfigValue) else None


def find_alias(app: Sphinx, env: BuildEnvironment, node: Element, content: Element) -> Element | None:
    """Resolve names under which packages re-export a class, and operations that `Partition` inherits."""
    target = str(node.get("reftarget", ""))
    name = f"ugm.{target.removeprefix('ugm.')}"
    if target == "Subject":  # the id of an application, or this
        name = "ugm.UserInQueue"
    if name.startswith("ugm.Partition."):
        name = name.replace("ugm.Partition.", "ugm.partition.AbstractPartition.")
    if node.get("refdomain") != "py" or name == target:
        return None
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)


def endpoints(*, of_yunikorn: bool) -> Iterator[tuple[str, ...]]:
    """Yield the header and the rows of the table of endpoints."""
    yield ("method and path", "description", "parameters")
    for route in sorted(ROUTES, key=lambda one: one.full_path):
        if route.is_yunikorn is of_yunikorn:
            names = [name for name in route.parameters.__struct_fields__ if f"{{{name}}}" not in route.path]
            path = route.full_path.removeprefix(PREFIX)
            yield f"`{route.method} {path}`", route.summary, ", ".join(f"`{name}`" for name in names)


def metrics() -> Iterator[tuple[str, ...]]:
    """Yield the header and the rows of the table of metrics."""
    yield ("metric", "kind", "further labels", "description")
    for one in METRICS:
        name = one.name + ("…" if one.kind == "amount" else "_total" if one.kind == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in one.labels if label != "partition")
        yield f"`{name}`", str(one.kind), labels, one.sentence


class ServerTable(SphinxDirective):
    """A table of the server, made from the code that answers requests."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """Return the table."""
        tables = {
            "endpoints": lambda: endpoints(of_yunikorn=False),
            "yunikorn-endpoints": lambda: endpoints(of_yunikorn=True),
            "metrics": metrics,
        }
        header, *rows = tables[self.arguments[0]]()
        lines = [header, ("---",) * len(header), *rows]
        return self.parse_text_to_nodes("\n".join(f"| {' | '.join(line)} |" for line in lines))


def setup(app: Sphinx) -> None:
    """Register the hooks; the first one before napoleon, whose priority is 500."""
    app.add_directive("ugm-table", ServerTable)
    app.connect("autodoc-process-docstring", lead_with_a_comment, priority=400)
    app.connect("autodoc-process-signature", without_defaults)
    app.connect("missing-reference", find_alias)
