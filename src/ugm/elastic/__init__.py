"""Elastic quotas: guaranteed minimum, maximum, and a fair share that is borrowed and returned."""

from ugm.elastic.errors import GroupError, Refusal
from ugm.elastic.group import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP, ElasticGroup
from ugm.elastic.tree import ElasticTree

__all__ = [
    "DEFAULT_GROUP",
    "ROOT_GROUP",
    "SYSTEM_GROUP",
    "ElasticGroup",
    "ElasticTree",
    "GroupError",
    "Refusal",
]
