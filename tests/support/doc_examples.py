"""The examples in the README, the documentation and the docstrings are tests.

`tests/conftest.py` registers this as a plugin: the hooks of a conftest would only see the files beside it.
"""

from __future__ import annotations

from doctest import ELLIPSIS

import pytest
from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers import markdown, rest

from support.places import ROOT

PAGES = Sybil(
    path=str(ROOT),
    parsers=[markdown.PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), markdown.SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
)
_DOCSTRINGS = Sybil(
    parsers=[rest.DocTestParser(ELLIPSIS)],
    path=str(ROOT / "src"),
    patterns=["*.py"],
    document_types={".py": PythonDocStringDocument},
)

pytest_collect_file = (PAGES + _DOCSTRINGS).pytest()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the examples of a page in their order: each builds on those before it."""
    examples = {item: item.location[1] or 0 for item in items if not isinstance(item, pytest.Function)}
    rank = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in examples))}
    ordered = iter(sorted(examples, key=lambda item: (rank[item.path], examples[item])))
    items[:] = [next(ordered) if item in examples else item for item in items]
