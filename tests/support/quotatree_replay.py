"""Replay recorded scenarios of quota trees through a manager, and answer in the form of the records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from ugm import ConfigError, RequestError
from ugm.quotatree import (
    DEFAULT_RESOURCES,
    DEFAULT_TREE_NAME,
    AllocationResponse,
    Mode,
    QuotaManager,
    Reason,
    TreeCreateResponse,
    TreeView,
    UpdateResponse,
    consumer_from_struct,
    parse_consumer,
)

_NO_QUANTITY = "a quota that is no whole number, or more than 64 bits hold, is refused and not taken for another"

#: Scenarios in which MCAD does something else on purpose of ours: how many steps agree (-1: not even the
#: documents), and why not more.
DIFFERENCES: Final = {
    **{f"quota value {number:02}": (-1, _NO_QUANTITY) for number in (4, 5, 6, 7, 8, 10, 11, 12, 14, 20, 21)},
    "consumer documents": (59, "a key that nearly is 'trees' is refused"),
    "cache methods": (12, "of several nodes of which one is malformed none is added"),
    "tree in two forests": (4, "a tree belongs to one forest"),
    "empty forest": (3, "nobody is allocated on an empty forest before asking"),
    "chained rename before one update": (7, "consumers go with their node through a chain of renames"),
    "swap names through a third": (9, "consumers go with their node when names are swapped"),
    "resource exchanged with consumers in place": (6, "what is held of a resource is not taken for another resource"),
    "resource names in the cache only": (5, "an edit takes effect with the update, and not for requests before"),
}

#: What a record calls a refused call, by the argument at fault and how the reason begins.
_CATEGORIES: Final = {
    ("tree_name", "there is no such tree"): "unknown_tree",
    ("tree_name", "a name is"): "unknown_tree",
    ("tree_name", "a tree of this name"): "duplicate",
    ("tree_name", "consumers are allocated"): "in_use",
    ("tree_name", "the tree does not belong"): "not_member",
    ("tree_name", "the tree belongs"): "duplicate",
    ("forest_name", "there is no such forest"): "unknown_forest",
    ("forest_name", "a forest of this name"): "duplicate",
    ("consumer_id", "there is no such consumer"): "unknown_consumer",
    ("consumer_id", "the consumer has no entry"): "no_spec_for_tree",
    ("consumer_id", "the consumer is allocated"): "already_allocated",
    ("consumer_id", "a consumer with this id"): "duplicate",
    ("consumer_id", "the last change"): "undo_failed",
    ("mode", "a try"): "not_normal_mode",
    ("name", "there is no such node"): "not_found",
    ("name", "a name is"): "bad_name",
    ("new_name", ""): "bad_name",
}

#: The methods of a cache that MCAD has for one call of another method.
_SHORTHANDS: Final[Mapping[str, Callable[..., None]]] = {
    "set_default_tree_name": lambda cache: cache.set_tree_name(DEFAULT_TREE_NAME),
    "set_default_resource_names": lambda cache: cache.add_resource_names(DEFAULT_RESOURCES),
    "add_resource_name": lambda cache, name: cache.add_resource_names((name,)),
    "add_tree_info": lambda cache, info: cache.from_string(
        info if isinstance(info, str) else json.dumps({"kind": "QuotaTree", "metadata": info, "spec": info})
    ),
}

#: Operations that call something unknown "not found", whatever it is.
_NOT_FOUND: Final = (
    "delete_tree",
    "delete_forest",
    "add_tree_to_forest",
    "update_tree",
    "update_forest",
    "remove_consumer",
    "cache",
)

#: The calls that are those of the manager: what their result is called, and the fields of a step that they take.
_CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    "set_mode": ("ok", "mode"),
    "delete_tree": ("ok", "tree"),
    "add_forest": ("ok", "forest"),
    "delete_forest": ("ok", "forest"),
    "add_tree_to_forest": ("ok", "forest", "tree"),
    "delete_tree_from_forest": ("ok", "forest", "tree"),
    "remove_consumer": ("ok", "consumer"),
    "undo_allocate": ("ok", "tree", "consumer"),
    "undo_allocate_forest": ("ok", "forest", "consumer"),
    "deallocate": ("ok", "tree", "consumer"),
    "deallocate_forest": ("ok", "forest", "consumer"),
    "is_allocated": ("allocated", "tree", "consumer"),
    "is_allocated_forest": ("allocated", "forest", "consumer"),
}

_SYNTAX: Final = ("json-syntax", "yaml", "type", "key", "quantity", "document", "text")


class Replay:
    """One scenario and the manager that it runs through."""

    def __init__(
        self, scenario: Mapping[str, Any], *, requeue_rejected: bool = True, check_unrequested: bool = True
    ) -> None:
        self.manager = QuotaManager(requeue_rejected=requeue_rejected, check_unrequested=check_unrequested)
        #: Whether the order on lists is that of MCAD. It is no longer after a forest has rejected a request:
        #: here everybody is back in place then, there those who were moved come down again behind all others.
        self.has_order = True
        self.setup = [self.answer({"op": "add_tree", "tree": tree}) for tree in scenario["trees"]]
        for forest in sorted(scenario["forests"]):
            self.manager.add_forest(forest)
            for tree in scenario["forests"][forest]:
                self.manager.add_tree_to_forest(forest, tree)

    def answer(self, step: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever a record holds
        """Do a step and return what it says."""
        try:
            return self._call(step) if step["op"] in _CALLS else getattr(self, f"_{step['op']}")(step)
        except RequestError as error:
            return {"error": True, "category": _category(step["op"], error)}
        except ConfigError as error:
            return {"error": True, "category": _category_of_document(error)}

    def _call(self, step: Mapping[str, Any]) -> object:
        name, *fields = _CALLS[step["op"]]
        result = getattr(self.manager, step["op"])(*(step[field] for field in fields))
        return {name: True if result is None else result}

    def _get_mode(self, _: Mapping[str, Any]) -> object:
        return {"mode": str(self.manager.get_mode())}

    def _tree_names(self, _: Mapping[str, Any]) -> object:
        return {"names": list(self.manager.get_tree_names())}

    def _forest_names(self, _: Mapping[str, Any]) -> object:
        return {"names": list(self.manager.get_forest_names())}

    def _forest_tree_names(self, _: Mapping[str, Any]) -> object:
        return {"forests": {name: list(trees) for name, trees in self.manager.get_forest_tree_names().items()}}

    def _consumer_ids(self, _: Mapping[str, Any]) -> object:
        return {"ids": list(self.manager.get_all_consumer_ids())}

    def _add_tree(self, step: Mapping[str, Any]) -> object:
        text = step["raw"] if "raw" in step else json.dumps(step["tree"])
        return {"tree": self.manager.add_tree_from_string(text)}

    def _add_tree_by_name(self, step: Mapping[str, Any]) -> object:
        return {"tree": self.manager.add_tree_by_name(step["tree"])}

    def _add_consumer(self, step: Mapping[str, Any]) -> object:
        info = parse_consumer(step["raw"]) if "raw" in step else consumer_from_struct(step["consumer"])
        return _ok(self.manager.add_consumer, info)

    def _allocate(self, step: Mapping[str, Any]) -> object:
        return self._decision(self.manager.allocate(step["tree"], step["consumer"]))

    def _try_allocate(self, step: Mapping[str, Any]) -> object:
        return self._tried(self.manager.try_allocate(step["tree"], step["consumer"]))

    def _allocate_forest(self, step: Mapping[str, Any]) -> object:
        response = self.manager.allocate_forest(step["forest"], step["consumer"])
        answer = self._decision(response)
        self.has_order &= response.allocated
        if response.rejection is not None and response.rejection.reason is Reason.NO_GROUP:
            answer["message_category"] = "empty_group"
        return answer | {"preempted": sorted(answer["preempted"])}

    def _try_allocate_forest(self, step: Mapping[str, Any]) -> object:
        answer = self._tried(self.manager.try_allocate_forest(step["forest"], step["consumer"]))
        return answer | {"preempted": sorted(answer["preempted"])}

    def _update_tree(self, step: Mapping[str, Any]) -> object:
        done = self.manager.update_tree(step["tree"])
        return {"unallocated": list(done.unallocated) or None, "response": _created(done.trees[step["tree"]])}

    def _update_forest(self, step: Mapping[str, Any]) -> object:
        return _updated(self.manager.update_forest(step["forest"]))

    def _update_all(self, _: Mapping[str, Any]) -> object:
        # Recorded for a manager without trees alone.
        assert self.manager.update_all() == UpdateResponse((), {})
        return {"error": False, "forest_responses": {}, "forests": {}, "tree_responses": {}, "trees": {}}

    def _decision(self, answer: AllocationResponse) -> dict[str, Any]:
        category = "allocated"
        if answer.rejection is not None:
            forced = self.manager.get_mode() is Mode.MAINTENANCE
            category = "rejected" if answer.rejection.reason is Reason.NO_ROOM or not forced else "unknown_group"
        return {"allocated": answer.allocated, "preempted": list(answer.preempted), "message_category": category}

    def _tried(self, answer: AllocationResponse) -> dict[str, Any]:
        failed = answer.rejection is not None and answer.rejection.reason is not Reason.NO_ROOM
        return self._decision(answer) | ({"message_category": "snapshot_failed"} if failed else {})

    def _cache(self, step: Mapping[str, Any]) -> object:
        cache = self.manager.get_tree_cache(step["tree"])
        method, args = step["method"], step["args"]
        if method == "create_tree":
            view, response = cache.create_tree()
            return {"tree": state(view), "response": _created(response)}
        if method in _SHORTHANDS:
            return _ok(_SHORTHANDS[method], cache, *args.values())
        call: Callable[..., object] = getattr(cache, method)
        given = [
            args.get("raw", json.dumps(value)) if key in ("info", "doc", "raw") else value
            for key, value in args.items()
        ]
        answer = call(*given)
        if isinstance(answer, str):
            return {"name": answer}
        return {"names": list(answer)} if isinstance(answer, tuple) else {"ok": True}

    def _state(self, _: Mapping[str, Any]) -> object:
        trees = {}
        for name in self.manager.get_tree_names():
            view = self.manager.view(name)
            consumers = {i: {"gNode": c.group, "aNode": c.node} for i, c in view.consumers.items()}
            trees[name] = state(view) | {"consumers": consumers}
            for node in view.nodes if self.has_order else ():
                trees[name]["nodes"][node.name]["order"] = [consumer.consumer_id for consumer in node.consumers]
        forests = {name: list(names) for name, names in self.manager.get_forest_tree_names().items()}
        return {"trees": trees} | ({"forests": forests} if forests else {})


def state(view: TreeView) -> dict[str, Any]:
    """Return a tree in the form of the records."""
    nodes = {
        node.name: {
            "parent": node.parent or None,
            "hard": node.hard,
            "quota": [node.quota[name] for name in view.resources],
            "allocated": [node.allocated[name] for name in view.resources],
            "consumers": sorted(consumer.consumer_id for consumer in node.consumers),
        }
        for node in view.nodes
    }
    root = view.nodes[0].name if view.nodes else None
    return {"name": view.name, "root": root, "resources": list(view.resources), "nodes": nodes}


def agree(answer: Any, fields: Any) -> bool:  # noqa: ANN401 - whatever a record holds
    """Return whether an answer is the recorded one.

    The order of consumers is compared where both have it. Where the group of a consumer is no node of the tree, its
    name is not: after a chain of renames MCAD has a name from the middle of the chain.
    """
    if isinstance(fields, dict) and isinstance(answer, dict):
        return bool(_comparable(answer, fields) == _comparable(fields, answer))
    return bool(answer == fields)


def _comparable(state: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a state without what is not compared with another."""
    trees = {}
    for name, tree in state.get("trees", {}).items():
        others = other.get("trees", {}).get(name, {}).get("nodes", {})
        nodes = {
            key: {field: value for field, value in node.items() if field != "order" or field in others.get(key, {})}
            for key, node in tree["nodes"].items()
        }
        consumers = {
            key: held | {"gNode": held["gNode"] if held["gNode"] in nodes else None}
            for key, held in tree["consumers"].items()
        }
        trees[name] = tree | {"nodes": nodes, "consumers": consumers}
    return {**state, "trees": trees} if trees else state


def _ok(call: Callable[..., None], *args: object) -> dict[str, Any]:
    call(*args)
    return {"ok": True}


def _created(response: TreeCreateResponse) -> dict[str, Any]:
    fields = response._asdict()
    return fields | {"dangling": list(response.dangling), "clean": response.is_clean}


def _updated(done: UpdateResponse) -> dict[str, Any]:
    responses = {name: _created(response) for name, response in done.trees.items()}
    return {"unallocated": list(done.unallocated) or None, "responses": responses}


def _category(operation: str, error: RequestError) -> str:
    found = next(
        category
        for (argument, reason), category in _CATEGORIES.items()
        if argument == error.argument and error.reason.startswith(reason)
    )
    return "not_found" if operation in _NOT_FOUND and found.startswith("unknown") else found


def _category_of_document(error: ConfigError) -> str:
    codes = [problem.code for problem in error.problems]
    if any(code.startswith(_SYNTAX) for code in codes):
        return "bad_json"
    for code, category in (("kind", "bad_kind"), ("consumer-id", "missing_id"), ("node", "bad_nodes")):
        if any(code_found.startswith(code) for code_found in codes):
            return category
    raise AssertionError(codes)


def steps_to_compare(scenario: Mapping[str, Any]) -> int:
    """Return how many steps are to agree; -1 if not even the documents are."""
    broken: int = scenario.get("bookkeeping", {}).get("broken_after_step", len(scenario["steps"]))
    return DIFFERENCES.get(scenario["name"], (broken, ""))[0]


def everything(replay: Replay) -> list[TreeView]:
    """Return everything that can be seen of all trees, order included."""
    return [replay.manager.view(name) for name in replay.manager.get_tree_names()]


def habits_in(steps: list[dict[str, Any]], scenario: Mapping[str, Any]) -> set[str]:
    """Return which habits of MCAD make a difference in some steps."""
    both, one = Replay(scenario), Replay(scenario, check_unrequested=False)
    found = set()
    for step in steps:
        before = everything(both)
        answer, other = both.answer(step), one.answer(step)
        if "allocate" in step["op"] and answer.get("allocated") is False and everything(both) != before:
            found.add("requeue_rejected")
        if answer != other or everything(both) != everything(one):
            found.add("check_unrequested")
    return found
