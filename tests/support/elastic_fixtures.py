"""Elastic groups with amounts of ``cpu``, and their runtimes."""

from __future__ import annotations

from ugm import Resource
from ugm.elastic import ElasticGroup, ElasticTree


def group(name: str, parent: str = "", least: int = 0, most: int = 100) -> ElasticGroup:
    """Return a group with amounts of ``cpu``."""
    return ElasticGroup(name, parent, Resource(cpu=least), Resource(cpu=most))


def cpu_runtimes(tree: ElasticTree, *names: str) -> list[int]:
    """Return the runtimes of some groups."""
    return [tree.runtime(name)["cpu"] for name in names]
