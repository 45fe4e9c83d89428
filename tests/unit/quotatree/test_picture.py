"""Pictures of trees."""

from __future__ import annotations

import runpy

import pytest

from support.places import EXAMPLES
from support.quotatree_fixtures import Scene, document
from ugm import RequestError
from ugm.quotatree import Mode, QuotaManager, TreeView, draw, to_graphviz, to_mermaid


@pytest.fixture(name="view")
def _view() -> TreeView:
    scene = Scene({"R": ("nil", 3), "A!": ("R", 2), 'B"\n': ("R", 1)})
    scene.ask("a", "A", 1)
    scene.ask("b", 'B"\n', 2)
    scene.manager.set_mode(Mode.MAINTENANCE)
    scene.ask("c", "A", 2)
    return scene.manager.view("T")


def test_terminal(view: TreeView) -> None:
    """Each node shows its amounts and what its groups borrow, and those whom it holds."""
    assert draw(view).splitlines() == [
        "T",
        "R: cpu 5 of 3",
        '│  · b of B"\\n: cpu 2',
        "├─ A (hard): cpu 3 of 2",
        "│     · a: cpu 1",
        "│     · c: cpu 2",
        '└─ B"\\n: cpu 0 of 1 and 2 borrowed',
    ]


def test_graphviz(view: TreeView) -> None:
    """Hard nodes have a thick frame and those above their quota a red one; names are quoted."""
    assert to_graphviz(view).splitlines() == [
        'digraph "T" {',
        "  node [shape=box];",
        '  n0 [label="R\\ncpu 5 of 3\\nb of B\\"\\\\n: cpu 2", color=red];',
        '  n1 [label="A\\ncpu 3 of 2\\na: cpu 1\\nc: cpu 2", penwidth=3, color=red];',
        '  n2 [label="B\\"\\\\n\\ncpu 0 of 1 and 2 borrowed"];',
        "  n0 -> n1;",
        "  n0 -> n2;",
        "}",
    ]


def test_mermaid(view: TreeView) -> None:
    """Hard nodes have a double frame; nothing in a name means anything to Mermaid."""
    assert to_mermaid(view).splitlines() == [
        "flowchart TD",
        '  n0["R<br/>cpu 5 of 3<br/>b of B#34;#92;n: cpu 2"]',
        '  n1[["A<br/>cpu 3 of 2<br/>a: cpu 1<br/>c: cpu 2"]]',
        '  n2["B#34;#92;n<br/>cpu 0 of 1 and 2 borrowed"]',
        "  n0 --> n1",
        "  n0 --> n2",
        "  style n0 stroke:red",
        "  style n1 stroke:red",
    ]


def test_empty_tree() -> None:
    """A tree without nodes is shown as such."""
    manager = QuotaManager()
    manager.add_tree_from_struct(document({}))

    assert draw(manager.view("T")) == "T\n(empty)"


def test_example(capsys: pytest.CaptureFixture[str]) -> None:
    """The example borrows, slides, takes back and preempts, and shows it."""
    runpy.run_path(str(EXAMPLES / "quotatree_company.py"), run_name="__main__")

    said = capsys.readouterr().out.splitlines()
    assert "'shop' would be allocated, preempting 'tune'" in said
    assert "  tree 'Company': 'train' from 'vision' to 'research'" in said
    assert "  'billing' is hard: nothing is borrowed above it" in said
    assert "│  └─ web: cpu 4 of 3" in said


def test_deep_tree() -> None:
    """A tree may be deeper than calls of functions may be nested."""
    names = [f"n{number}" for number in range(1_200)]
    scene = Scene({name: (parent, 1) for parent, name in zip(["nil", *names], names, strict=False)})
    view = scene.manager.view("T")

    assert draw(view).endswith("└─ n1199: cpu 0 of 1")
    assert to_mermaid(view).count("-->") == to_graphviz(view).count("->") == 1_199


def test_arguments_of_wrong_types() -> None:
    """Only views of trees can be drawn."""
    for picture in (draw, to_graphviz, to_mermaid):
        with pytest.raises(RequestError, match="view 5: expected a TreeView"):
            picture(5)  # type: ignore[arg-type]
