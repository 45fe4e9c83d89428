"""The quota models of the demo: elastic groups for the groups of users, and a quota tree for the sites of the grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ugm._json_values import JsonObject
from ugm.elastic import ElasticGroup, ElasticModel, ElasticQuota, ElasticTree
from ugm.elastic.model import GROUP_TAG
from ugm.identity import UserGroup
from ugm.model import Claim, QuotaModel
from ugm.quotatree import Mode, QuotaManager, TreeModel
from ugm.resources import Resource

__all__ = ["create_models", "tags_of"]

#: Cores that are guaranteed to a group of users, by the elastic group above it. Memory is 4 GiB for each core.
_GROUPS: Final[Mapping[str, Mapping[str, int]]] = {
    "founders": {"group1": 64, "group2": 32, "group3": 24},
    "partners": {"group4": 16, "group5": 16, "group9": 24, "group14": 8, "group26": 16},
}
#: The elastic group of all other groups of users, and its cores.
_OTHERS: Final = "others"
_OTHERS_CORES: Final = 32
#: Cores of each queue, by site. Consumers of other queues belong to the node of the guests.
_SITES: Final[Mapping[str, Mapping[str, int]]] = {
    "site1": {"queue1": 40, "queue2": 16, "queue3": 8},
    "site2": {"queue1": 32, "queue2": 16},
    "site3": {"queue1": 24, "queue2": 8, "queue3": 16},
    "site7": {"queue1": 8, "queue2": 32},
}
_GUESTS: Final = "guests"
_GUESTS_CORES: Final = 56
#: The cores of the cluster.
_CORES: Final = 256


def create_models() -> list[QuotaModel]:
    """Return the quota models of the demo, for a cluster of 256 cores and 1 TiB of memory."""
    groups = [_group(_OTHERS, "", _OTHERS_CORES, _CORES)]
    for parent, children in _GROUPS.items():
        groups.append(_group(parent, "", sum(children.values()), _CORES, is_parent=True))
        groups += [_group(name, parent, cores, 3 * cores) for name, cores in children.items()]
    tree = ElasticTree(_amounts(_CORES), groups)
    return [ElasticModel(ElasticQuota(tree)), _sites()]


def tags_of(user: UserGroup) -> dict[str, str]:
    """Return the tags of the applications of a user, which name the elastic group."""
    known = {name for children in _GROUPS.values() for name in children}
    return {GROUP_TAG: next((name for name in user.groups if name in known), _OTHERS)}


def _group(name: str, parent: str, least: int, most: int, *, is_parent: bool = False) -> ElasticGroup:
    return ElasticGroup(name, parent, _amounts(least), _amounts(most), is_parent=is_parent)


def _amounts(cores: int) -> Resource:
    return Resource.parse(vcore=str(cores), memory=f"{4 * cores}Gi")


def _sites() -> TreeModel:
    nodes = {"grid": _node("nil", _CORES), _GUESTS: _node("grid", _GUESTS_CORES)}
    for site, queues in _SITES.items():
        nodes[site] = _node("grid", sum(queues.values()))
        nodes |= {f"{site}.{queue}": _node(site, cores) for queue, cores in queues.items()}
    manager = QuotaManager()
    spec = {"resourceNames": ["vcore", "memory"], "nodes": nodes}
    manager.add_tree_from_struct({"kind": "QuotaTree", "metadata": {"name": "sites"}, "spec": spec})
    manager.set_mode(Mode.NORMAL)

    def leaf_of(claim: Claim) -> str:
        queue = claim.queue_path.removeprefix("root.")
        return queue if queue in nodes else _GUESTS

    return TreeModel(manager, "sites", leaf_of)


def _node(parent: str, cores: int) -> JsonObject:
    amounts = _amounts(cores)
    return {"parent": parent, "hard": "false", "quota": {name: str(amount) for name, amount in amounts.items()}}
