"""The examples in the README, the documentation and the docstrings are tests.

`tests/conftest.py` registers this as a plugin: the hooks of a conftest would only see the files in its folder.
"""

from __future__ import annotations

import re
from doctest import ELLIPSIS
from pathlib import Path
from typing import Final

import pytest
from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers import markdown, rest
from sybil.sybil import SybilCollection
from sybil.typing import Parser

from support.places import ROOT

_PARSERS: Final[list[Parser]] = [markdown.PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), markdown.SkipParser()]
PAGES = Sybil(path=str(ROOT), parsers=_PARSERS, patterns=["docs/*.md", "docs/*/*.md"])
_README = Sybil(path=str(ROOT), parsers=_PARSERS, patterns=["README.md"], fixtures=["_readme_folder"])
_DOCSTRINGS = Sybil(
    parsers=[rest.DocTestParser(ELLIPSIS)],
    path=str(ROOT / "src"),
    patterns=["*.py"],
    document_types={".py": PythonDocStringDocument},
)

#: Pages with long examples, which the marker ``ci`` selects.
_LONG: Final = frozenset(ROOT / "docs" / "howto" / name for name in ("simulate.md", "testing.md"))

_collect = SybilCollection((PAGES, _README, _DOCSTRINGS)).pytest()


@pytest.fixture
def _readme_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the examples of the README where its configuration is a file."""
    [text] = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "limits.yaml").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the examples of a page or a module. Most modules have none, and need not be parsed."""
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text("utf-8"):
        return None
    collected: pytest.Collector | None = _collect(file_path, parent)
    return collected


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave long examples to the marker ``ci``."""
    if item.path in _LONG:
        item.add_marker(pytest.mark.ci)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the examples of a page in their order: each builds on those before it."""
    examples = {item: item.location[1] or 0 for item in items if not isinstance(item, pytest.Function)}
    rank = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in examples))}
    ordered = iter(sorted(examples, key=lambda item: (rank[item.path], examples[item])))
    items[:] = [next(ordered) if item in examples else item for item in items]
