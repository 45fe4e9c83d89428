"""Documents of trees and consumers in JSON and YAML, and the problems of malformed ones."""

from __future__ import annotations

import pytest

from ugm import ConfigError, Resource
from ugm.quotatree import QuotaManager, TreeCache, consumer_from_struct

#: The tree that the documentation of MCAD shows, comma and all.
TREE = """{
  "kind": "QuotaTree",
  "metadata": {
    "name": "TestTree"
  },
  "spec": {
    "resourceNames": [
      "cpu",
      "memory"
    ],
    "nodes": {
      "A": {"parent": "nil", "hard": "true", "quota": {"cpu": "10", "memory": "256"}},
      "B": {"parent": "A", "hard": "true", "quota": {"cpu": "2", "memory": "64"}},
      "C": {"parent": "A", "hard": "false", "quota": {"cpu": "6", "memory": "64"}},
    }
  }
}"""


def problems(text: str) -> list[str]:
    """Return the problems of a tree document."""
    with pytest.raises(ConfigError) as caught:
        QuotaManager().add_tree_from_string(text)
    return str(caught.value).splitlines()


def spec(text: str) -> str:
    """Return a tree document with some nodes."""
    return f'{{"kind": "QuotaTree", "metadata": {{"name": "T"}}, "spec": {{"nodes": {text}}}}}'


def test_the_tree_of_the_documentation() -> None:
    """Without that comma it loads as it stands."""
    manager = QuotaManager()

    assert manager.add_tree_from_string(TREE.replace("}},\n    }", "}}\n    }")) == "TestTree"
    assert [(n.name, n.hard, n.quota) for n in manager.view("TestTree").nodes] == [
        ("A", True, Resource(cpu=10, memory=256)),
        ("B", True, Resource(cpu=2, memory=64)),
        ("C", False, Resource(cpu=6, memory=64)),
    ]


def test_yaml_says_the_same() -> None:
    """In YAML quotation marks may be left out. A quota allows none of a resource that it does not name."""
    text = "kind: QuotaTree\nmetadata: {name: T}\nspec:\n  resourceNames: [cpu, gpu]\n  nodes:\n"
    text += "    R: {quota: {cpu: 4}}\n    A: {parent: R, hard: true, quota: {cpu: 010}}\n"
    manager = QuotaManager()
    manager.add_tree_from_string(text)

    quotas = [(n.name, n.hard, n.quota) for n in manager.view("T").nodes]
    assert quotas == [("R", False, Resource(cpu=4, gpu=0)), ("A", True, Resource(cpu=10, gpu=0))]


def test_all_problems_together() -> None:
    """All problems are reported together, each with its place, in the order of the text."""
    text = (
        '{"kind": "Tree",\n"metadata": {"name": 5},\n"spec": {"resourceNames": "cpu",\n'
        '"nodes": {"R": {"quota": null},\n'
        '"A": {"hard": true, "quota": {"cpu": 1, "gpu": "1.5", "disk": "99999999999999999999"}},\n"B": 3, "": {}}}}'
    )

    assert problems(text) == [
        "<text>:1:10: kind: expected 'QuotaTree', found 'Tree' [kind-unknown]",
        "<text>:2:22: metadata.name: expected a text, found 5 [type-text]",
        "<text>:3:27: spec.resourceNames: expected a list, found 'cpu' [type-list]",
        "<text>:4:26: spec.nodes.R.quota: expected a quota, at least an empty one [node-quota-missing]",
        "<text>:5:15: spec.nodes.A.hard: expected a text, found True [type-text]",
        "<text>:5:38: spec.nodes.A.quota.cpu: expected a whole number in quotation marks, found 1 [type-text]",
        "<text>:5:48: spec.nodes.A.quota.gpu: expected a whole number, found '1.5' [quantity-invalid]",
        "<text>:5:63: spec.nodes.A.quota.disk: expected a number that fits a signed 64-bit integer [quantity-invalid]",
        "<text>:6:6: spec.nodes.B: expected a mapping, found 3 [type-mapping]",
        "<text>:6:9: spec.nodes: expected the name of the node [node-name-missing]",
    ]


def test_all_problems_of_a_consumer() -> None:
    """The same holds for consumers."""
    entry = {"treeName": "T", "groupId": "A", "request": {"cpu": 1.5, "gpu": True, "n": 10**30}, "unPreemptable": "no"}
    with pytest.raises(ConfigError) as caught:
        consumer_from_struct({"kind": "Consumer", "spec": {"trees": [entry, 1]}})

    assert [(problem.path, problem.code) for problem in caught.value.problems] == [
        ("spec.id", "consumer-id-missing"),
        ("spec.trees[0].request.cpu", "type-whole"),
        ("spec.trees[0].request.gpu", "type-whole"),
        ("spec.trees[0].request.n", "quantity-invalid"),
        ("spec.trees[0].unPreemptable", "type-boolean"),
        ("spec.trees[1]", "type-mapping"),
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "1:1"),
        ("{", "1:2"),
        ('{"a" 1}', "1:6"),
        ('{"a": 1 "b": 2}', "1:9"),
        ('{"a": ,}', "1:7"),
        ('{"a": nope}', "1:7"),
        ('{"a": NaN}', "1:1"),
        ('{"a": "b', "1:7"),
        ("{}\n x", "2:2"),
    ],
)
def test_text_that_is_no_json(text: str, place: str) -> None:
    """A text that is no JSON is refused with the place of the error."""
    [found] = problems(text)
    assert found.startswith(f"<text>:{place}: invalid JSON: ")
    assert found.endswith(" [json-syntax]")


def test_json_of_other_programs() -> None:
    """JSON may be indented with tabs, and have characters outside of the basic plane as two escapes."""
    manager = QuotaManager()
    manager.add_tree_from_string(
        '{\n\t"kind": "QuotaTree",\n\t"metadata": {"name": "\\ud83d\\ude80"}, "spec": {"nodes": {}}}'
    )

    assert manager.get_tree_names() == ("\N{ROCKET}",)


def test_several_nodes_are_added_together_or_not_at_all() -> None:
    """Of several nodes of which one is malformed none is added."""
    cache = TreeCache()
    with pytest.raises(ConfigError):
        cache.add_node_specs({"g": {"quota": {}}, "h": {}})

    assert cache.get_node_names() == ()
    cache.add_node_specs('{"g": {"quota": {}}}')
    assert cache.get_node_names() == ("g",)
