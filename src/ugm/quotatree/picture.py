"""Pictures of a tree: for a terminal, and as text for Graphviz and Mermaid.

Each node shows its allocated amounts and its quota. If consumers of its groups borrow above it, it shows the borrowed
amounts too. Its consumers follow, those that borrow with the name of their group.
"""

from __future__ import annotations

from collections.abc import Iterator

from ugm.arguments import require_instance
from ugm.errors import printable
from ugm.quotatree.view import ConsumerView, NodeView, TreeView
from ugm.resources import format_amount

__all__ = ["draw", "to_graphviz", "to_mermaid"]


def draw(view: TreeView) -> str:
    """Draw a tree for a terminal.

    Raises:
        RequestError: *view* is not a TreeView.

    >>> from ugm.quotatree import NodeSpec, TreeCache
    >>> cache = TreeCache("Company")
    >>> cache.add_resource_name("cpu")
    >>> cache.add_node_specs({"all": {"quota": {"cpu": "8"}}, "team": {"parent": "all", "quota": {"cpu": "5"}}})
    >>> print(draw(cache.create_tree()[0]))
    Company
    all: cpu 0 of 8
    └─ team: cpu 0 of 5
    """
    require_instance("view", view, TreeView)
    if not view.nodes:
        return f"{printable(view.name)}\n(empty)"
    return "\n".join([printable(view.name), *_lines(view)])


def _lines(view: TreeView) -> Iterator[str]:
    below: dict[str, list[NodeView]] = {}
    for node in view.nodes[1:]:
        below.setdefault(node.parent, []).append(node)
    # Without recursion: a tree may be deeper than the stack.
    pending = [(view.nodes[0], "", "")]
    while pending:
        node, first, rest = pending.pop()
        yield first + printable(f"{node.name}{' (hard)' if node.hard and node.parent else ''}: {_amounts(node)}")
        children = below.get(node.name, [])
        bar = "│  " if children else "   "
        yield from (f"{rest}{bar}· {printable(_consumer(consumer))}" for consumer in node.consumers)
        for child in reversed(children):
            is_last = child is children[-1]
            pending.append((child, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  ")))


def _amounts(node: NodeView) -> str:
    parts = []
    for name, quota in node.quota.items():
        borrowed = node.borrowed[name]
        more = f" and {format_amount(name, borrowed)} borrowed" if borrowed else ""
        parts.append(f"{name} {format_amount(name, node.allocated[name])} of {format_amount(name, quota)}{more}")
    return ", ".join(parts)


def _consumer(consumer: ConsumerView) -> str:
    group = f" of {consumer.group}" if consumer.is_borrowing else ""
    requested = [f"{name} {format_amount(name, amount)}" for name, amount in consumer.request.items() if amount]
    return f"{consumer.consumer_id}{group}: {', '.join(requested) or 'nothing'}"


def to_graphviz(view: TreeView) -> str:
    """Draw a tree in the language of Graphviz: hard nodes have a thick frame, nodes over their quota a red one.

    Raises:
        RequestError: *view* is not a TreeView.
    """
    require_instance("view", view, TreeView)
    names = {node.name: f"n{number}" for number, node in enumerate(view.nodes)}
    lines = [f'digraph "{_escaped(view.name)}" {{', "  node [shape=box];"]
    for node in view.nodes:
        label = "\\n".join(map(_escaped, _label(node)))
        style = (", penwidth=3" if node.hard else "") + (", color=red" if _is_over(node) else "")
        lines.append(f'  {names[node.name]} [label="{label}"{style}];')
    lines += [f"  {names[node.parent]} -> {names[node.name]};" for node in view.nodes if node.parent]
    return "\n".join([*lines, "}"])


def _label(node: NodeView) -> list[str]:
    return [node.name, _amounts(node), *map(_consumer, node.consumers)]


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


def _is_over(node: NodeView) -> bool:
    return any(node.allocated[name] > quota for name, quota in node.quota.items())


def to_mermaid(view: TreeView) -> str:
    """Draw a tree as a Mermaid flowchart: hard nodes have a double frame, nodes over their quota a red one.

    Raises:
        RequestError: *view* is not a TreeView.
    """
    require_instance("view", view, TreeView)
    names = {node.name: f"n{number}" for number, node in enumerate(view.nodes)}
    lines = ["flowchart TD"]
    for node in view.nodes:
        label = "<br/>".join(map(_entities, _label(node)))
        left, right = ("[[", "]]") if node.hard else ("[", "]")
        lines.append(f'  {names[node.name]}{left}"{label}"{right}')
    lines += [f"  {names[node.parent]} --> {names[node.name]}" for node in view.nodes if node.parent]
    lines += [f"  style {names[node.name]} stroke:red" for node in view.nodes if _is_over(node)]
    return "\n".join(lines)


def _entities(text: str) -> str:
    """Escape every character with a meaning in Mermaid."""
    return "".join(c if c.isalnum() or c in " .,:-_/" else f"#{ord(c)};" for c in printable(text))
