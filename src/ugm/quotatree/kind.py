"""Quota trees and forests that a configuration declares, with their documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias, cast, final

from ugm._documents.described import Reader
from ugm._documents.loader import Document, DocumentFormat, ReadDocument, Value, format_path, value_at
from ugm._documents.located import from_place
from ugm._json_values import JsonMapping
from ugm.configuration import PartitionConfig, QuotaTreeConfig, QuotaTreeDocument, QuotaTreeRules
from ugm.configuration.fields import ConfigValue, setting_texts, to_data
from ugm.configuration.model_kinds import (
    GroupFinder,
    ModelDefinition,
    ModelKind,
    ModelPart,
    ReportedUse,
    UnmappedQueue,
    finder_of,
    queues_without_group,
    source_findings,
)
from ugm.configuration.scheduler import Finding, Path
from ugm.errors import RequestError, quote
from ugm.identity import MAX_NAME, is_name
from ugm.model import Claim
from ugm.quotatree._forest import Mode
from ugm.quotatree._tree import QuotaTree, TreeOptions
from ugm.quotatree.documents import CONFIGURED_TREE, NodeSpec, TreeCache, tree_of
from ugm.quotatree.manager import QuotaManager
from ugm.quotatree.models import ForestModel, Groups, TreeModel

_Content: TypeAlias = tuple[QuotaTreeRules, tuple[QuotaTreeConfig, ...]]

#: The path of the trees in a partition.
_TREES: Final[Path] = ("ugm", "quotatrees")


@final
class _TreeKind(ModelKind):
    """Models of trees and forests. The nodes that hold consumers depend on the order in which they came and left."""

    def definitions(self, config: PartitionConfig, before: Sequence[ModelDefinition]) -> Iterator[ModelDefinition]:  # noqa: ARG002 - trees depend on no others
        """Yield the definition of each tree that is in no forest, and of each forest."""
        models: dict[tuple[str, str], list[QuotaTreeConfig]] = {}
        seen: set[str] = set()
        for one in config.ugm.quota_trees:
            name = one.tree.name
            if name in seen:
                raise RequestError("config", name, "two quota trees have this name")
            seen.add(name)
            models.setdefault(("quota forest", one.forest) if one.forest else ("quota tree", name), []).append(one)
        for (kind, name), trees in models.items():
            yield ModelDefinition("quota_trees", kind, name, (config.ugm.quota_tree_rules, tuple(trees)))

    def build(self, content: _Content) -> TreeModel | ForestModel:
        """Return the model."""
        rules, trees = content
        return declared_model(trees, rules)

    def parts(self, definition: ModelDefinition) -> Iterator[ModelPart]:
        """Yield the settings and the nodes of each tree."""
        rules, trees = definition.content
        for config in trees:
            tree = config.tree
            texts = {**setting_texts(config, "tree"), **setting_texts(rules), "resources": ", ".join(tree.resources)}
            yield ("settings", f"quota tree {tree.name}"), {name: text for name, text in texts.items() if text}
            for node in tree.nodes:
                yield ("quota node", f"{tree.name}/{node.name}"), setting_texts(node, "name")

    def findings(self, config: PartitionConfig) -> Iterator[Finding]:
        """Yield the violations of the rules of trees and of the sources of the leaf of a claim."""
        yield from _trees_are_valid(config.ugm.quota_trees)
        yield from _sources_are_valid(config.ugm.quota_trees)

    def unmapped_queues(self, config: PartitionConfig) -> Iterator[UnmappedQueue]:
        """Yield the queues without a leaf in a tree that limits them."""
        for one in config.ugm.quota_trees:
            has_default = bool(one.default_group) or one.unrestricted
            leaves, name = _built(one.tree).leaves, f"the quota tree {one.tree.name!r}"
            for found in queues_without_group(config, one.group_by, leaves, name):
                if found.group is not None or not has_default:
                    yield found

    def uses(self, state: JsonMapping) -> Iterator[ReportedUse]:
        """Yield the use of each quota of a node."""
        for tree in state["trees"]:
            for node in tree["nodes"]:
                for resource, quota in node["quota"].items():
                    used = node["allocated"].get(resource, 0)
                    yield ReportedUse("quota node", tree["name"], node["name"], "", resource, used, quota)


KIND: Final = _TreeKind()


def _trees_are_valid(trees: Sequence[QuotaTreeConfig]) -> Iterator[Finding]:
    """Every quota tree has a name of its own and one root, and all its nodes are connected to the root.

    The quota manager of MCAD leaves out nodes that are not connected; their quotas would have no effect.

    Source: MCAD, quota manager, "Quota Tree".
    """
    first: dict[str, int] = {}
    for at, config in enumerate(trees):
        path = (*_TREES, at, "tree")
        name = config.tree.name
        sources = ((*path[:-2], first.get(name, at), "tree"), path)
        if not is_name(name):
            message = f"the quota tree has no name (allowed: 1 to {MAX_NAME} characters)"
            yield Finding((*path, "metadata", "name"), "quotatree-name-invalid", message, (path,))
        elif first.setdefault(name, at) != at:
            message = f"the quota tree {quote(name)} already exists (quotatrees[{first[name]}])"
            yield Finding((*path, "metadata", "name"), "quotatree-name-duplicate", message, sources)
        if len(config.forest) > MAX_NAME:
            message = f"the name of the forest has {len(config.forest)} characters (allowed: up to {MAX_NAME})"
            yield Finding((*path[:-1], "forest"), "quotatree-forest-invalid", message)
        yield from _node_findings(config, (*path, "spec", "nodes"), path)


def _node_findings(config: QuotaTreeConfig, nodes: Path, path: Path) -> Iterator[Finding]:
    roots = sorted(node.name for node in config.tree.nodes if not node.parent)
    if not roots:
        yield Finding(nodes, "quotatree-root-missing", "the quota tree has no node without a parent", (path,))
    for name in roots[1:]:
        message = f"the node {quote(name)} has no parent, but {quote(roots[0])} is already the root"
        yield Finding((*nodes, name), "quotatree-roots-several", message, (path,))
    connected = _built(config.tree).nodes
    for node in config.tree.nodes:
        if node.parent and node.name not in connected and roots:
            message = f"the node {quote(node.name)} is not connected to the root {quote(roots[0])}"
            yield Finding((*nodes, node.name, "parent"), "quotatree-node-unconnected", message, (path,))


def _sources_are_valid(trees: Sequence[QuotaTreeConfig]) -> Iterator[Finding]:
    """A quota tree has a source for the leaf of a claim, a default leaf, or limits only what has a leaf."""
    for at, config in enumerate(trees):
        path = (*_TREES, at)
        leaves, tree = _built(config.tree).leaves, (*path, "tree")
        if not config.group_by and not config.default_group and not config.unrestricted:
            message = "the quota tree denies everything (required: groupby, defaultgroup or unrestricted)"
            yield Finding(path, "quotatree-source-missing", message, ((*path, "groupby"), (*path, "defaultgroup")))
        if config.default_group and config.default_group not in leaves:
            message = f"{quote(config.default_group)} is not a leaf of the quota tree"
            yield Finding((*path, "defaultgroup"), "quotatree-default-unknown", message, (tree,))
        yield from source_findings(config.group_by, leaves, path, tree)


def document_of(
    tree: QuotaTreeDocument, write_quota: Callable[[str, int], object] = lambda _, amount: str(amount)
) -> dict[str, object]:
    """Return the document of a declared tree.

    Args:
        tree: the tree.
        write_quota: writes an amount of a resource.
    """
    nodes: dict[str, object] = {}
    for node in tree.nodes:
        quota = {name: write_quota(name, amount) for name, amount in node.quota.items()}
        nodes[node.name] = {**NodeSpec(node.parent or None, node.hard, {}).to_dict(), "quota": quota}
    spec = {"resourceNames": list(tree.resources), "nodes": nodes}
    return {"kind": "QuotaTree", "metadata": {"name": tree.name}, "spec": spec}


def _built(tree: QuotaTreeDocument) -> QuotaTree:
    """Return a declared tree with the nodes that are connected to the root: of several roots, the first by name."""
    cache = TreeCache()
    cache.merge(tree)
    return cache.next_tree(TreeOptions())[0]


def declared_model(trees: Sequence[QuotaTreeConfig], rules: QuotaTreeRules) -> TreeModel | ForestModel:
    """Return the model of one tree, or of the trees of one forest, in normal mode and without claims.

    Raises:
        RequestError: two trees have the same name, or a tree or node has none.
    """
    manager = QuotaManager(requeue_rejected=rules.requeue_rejected, check_unrequested=rules.check_unrequested)
    manager.set_mode(Mode.NORMAL)
    for one in trees:
        manager.add_tree_from_struct(one.tree)
    model = _forest_model(manager, trees) if trees[0].forest else _tree_model(manager, trees[0])
    model.described = {"quotatrees": to_data(tuple(trees)), "quotatreerules": to_data(rules)}
    model.make_emptied = partial(declared_model, trees, rules)
    return model


def _tree_model(manager: QuotaManager, config: QuotaTreeConfig) -> TreeModel:
    find, default = _leaf_finder(config), config.default_group or None
    return TreeModel(manager, config.tree.name, find, default_group=default, unrestricted=config.unrestricted)


def _forest_model(manager: QuotaManager, trees: Sequence[QuotaTreeConfig]) -> ForestModel:
    forest = trees[0].forest
    manager.add_forest(forest)
    for one in trees:
        manager.add_tree_to_forest(forest, one.tree.name)
    finders = [(one, _leaf_finder(one)) for one in trees]

    def groups_of(claim: Claim) -> Groups:
        found = {one.tree.name: find(claim) or one.default_group or None for one, find in finders}
        # A tree that is not restricted does not limit a claim without a leaf.
        return {one.tree.name: found[one.tree.name] for one in trees if found[one.tree.name] or not one.unrestricted}

    return ForestModel(manager, forest, groups_of, unrestricted=all(one.unrestricted for one in trees))


def _leaf_finder(config: QuotaTreeConfig) -> GroupFinder:
    finders = tuple(map(finder_of, config.group_by))

    def found(claim: Claim) -> Iterator[str]:
        return (name for find in finders if (name := find(claim)))

    return lambda claim: next(found(claim), None)


@final
class _TreeFormat(DocumentFormat):
    def read(self, document: Document, data: Value, path: Path) -> ReadDocument:
        """Return the tree of a document."""
        file, value, place = value_at(document.data, document.place, path)
        reader = Reader(file or document.problems.file, format_path(path))
        data = CONFIGURED_TREE(reader, from_place(value, place), "")
        document.problems.include(reader.problems)
        return ReadDocument(None, {}, (path,)) if reader.problems else ReadDocument(tree_of(data), {})

    def write(self, value: ConfigValue, write_amount: Callable[[str, int], object]) -> object:
        """Return the document of a tree."""
        return document_of(cast("QuotaTreeDocument", value), write_amount)


FORMAT: Final = _TreeFormat()
