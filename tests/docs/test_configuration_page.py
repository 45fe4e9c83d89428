"""The page on the configuration describes every key and every code of a problem."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import ugm
from support.places import DOCS
from ugm import configuration, parse_config
from ugm._documents import loader
from ugm.configuration.fields import ConfigValue, field_shapes

PAGE: Final = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")
#: The values that an expression in a code may have.
PARTS: Final = {
    "kind": ("user", "group"),
    "field": ("users", "groups"),
    "above.relation": ("ancestor", "wildcard"),
    "part": ("type", "users", "groups"),
    "refusal.rule.replace('_', '-')": (
        "already-exists",
        "children-min-exceeds-min",
        "max-keys-mismatch",
        "min-exceeds-max",
        "min-key-not-in-max",
        "min-keys-not-in-parent",
        "namespace-bound",
        "parent-is-not-parent",
        "parent-not-found",
        "siblings-min-exceeds-parent-min",
        "tree-id-child-mismatch",
        "tree-id-parent-mismatch",
    ),
}
#: The packages and modules that report problems of a configuration.
SOURCES: Final = (
    "config/*.py",
    "configuration/family_rules.py",
    "configuration/model_kinds.py",
    "configuration/scheduler.py",
    "_documents/*.py",
    "*/kind.py",
    "kubernetes/elastic_quotas.py",
    "quotatree/documents.py",
)
#: The labels and annotations of manifests, and the codes of errors, which look like codes of problems.
LABELS: Final = frozenset(
    {"id-in-use", "node-unknown", "partition-unknown", "max-strict-check-resource-keys", "shared-weight", "tree-id"}
    | {
        "koordinator-root-quota",
        "allow-force-update",
        "allow-lent-resource",
        "child-request",
        "is-parent",
        "is-root",
        "parent-quota-name",
    }
)
#: Classes whose keys other pages describe, and documents of other formats.
ELSEWHERE: Final = ("BudgetConfig", "QuotaTreeDocument")


def _headings_of_extensions() -> Iterator[tuple[type[ConfigValue], str]]:
    """Yield the classes of extensions, with headings of the words in their names."""
    classes: list[type[ConfigValue]] = [configuration.Extensions]
    for kind in classes:
        classes += [one.nested for one in field_shapes(kind) if one.nested and one.nested.__name__ not in ELSEWHERE]
        words = re.findall("[A-Z][a-z]+", kind.__name__.removesuffix("Config"))
        yield kind, f"{' '.join(words).capitalize().removesuffix('s')} keys"


HEADINGS: Final = {
    configuration.SchedulerConfig: "File",
    configuration.PartitionConfig: "Partition keys",
    configuration.QueueConfig: "Queue keys",
    configuration.QueueResources: "Queue resource keys",
    configuration.ChildTemplate: "Child template keys",
    configuration.LimitConfig: "Limit keys",
    configuration.LimitExtensions: "Limit extension keys",
    configuration.ScheduledLimit: "Schedule keys",
    configuration.PlacementRule: "Placement rule keys",
    configuration.FilterConfig: "Filter keys",
    configuration.NodeSortPolicy: "Node sort policy keys",
    configuration.PreemptionConfig: "Preemption keys",
    configuration.UserGroupResolver: "User group resolver keys",
    **dict(_headings_of_extensions()),
}


def spellings(node: ast.AST) -> list[str]:
    """Return the texts that a literal or an f-string may be."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.FormattedValue):
        return list(PARTS.get(ast.unparse(node.value), ("?",)))
    texts = [""]
    for value in getattr(node, "values", []):
        texts = [text + more for text in texts for more in spellings(value)]
    return texts


def texts() -> Iterator[str]:
    """Yield all literal texts of the modules."""
    folder = Path(ugm.__file__).parent
    for path in (path for pattern in SOURCES for path in folder.glob(pattern)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant | ast.JoinedStr):
                yield from spellings(node)


def test_codes_are_described() -> None:
    """The tables have one line for each code that the package can report, and no others."""
    codes = {text for text in texts() if re.fullmatch("[a-z]+(-[a-z]+)+", text)}
    section = PAGE.split("\n## Problems\n")[1] + PAGE.split("\n## Warnings\n")[1].split("\n## ")[0]
    listed = set(re.findall("`([a-z]+(?:-[a-z]+)+)`", section))

    assert listed == codes - LABELS


@pytest.mark.parametrize("kind", HEADINGS, ids=lambda kind: kind.__name__)
def test_keys_are_described(kind: type) -> None:
    """Each mapping of a file has a table with its keys."""
    section = PAGE.split(f"\n### {HEADINGS[kind]}\n")[1].split("\n#")[0]
    keys = {shape.yaml_name for shape in field_shapes(kind)}

    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == keys


def test_example_has_every_key() -> None:
    """The example is valid and has every key."""
    found = re.search("```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    parse_config(found[1])
    named = set(re.findall(r"(?:^[- ]*|[{,] ?)([a-z]+):", found[1], re.MULTILINE))

    assert {shape.yaml_name for kind in HEADINGS for shape in field_shapes(kind)} <= named


def test_bounds_are_those_of_the_loader() -> None:
    """The page states the bounds of the loader."""
    assert (loader.MAX_BYTES, loader.MAX_VALUES) == (8 * 2**20, 500_000)
    assert (loader.MAX_DEPTH, loader.MAX_ALIASED) == (100, 100_000)
