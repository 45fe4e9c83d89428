"""The example of Koordinator's design of elastic quotas: four groups share a cluster of 100 and the surplus of B.

Run: python examples/elastic_sharing.py
"""

from ugm import Resource
from ugm.elastic import ElasticGroup, ElasticTree, explain, table

#: Minimum, weight and request of each group.
GROUPS = {"A": (10, 10, 5), "B": (15, 60, 20), "C": (20, 50, 40), "D": (15, 80, 50)}


def main() -> None:
    """Print the runtimes and the calculation for one group."""
    tree = ElasticTree(Resource(cpu=100))
    for name, (minimum, weight, _) in GROUPS.items():
        tree.put(
            ElasticGroup(name, min=Resource(cpu=minimum), max=Resource(cpu=100), shared_weight=Resource(cpu=weight))
        )
    for name, (_, _, request) in GROUPS.items():
        tree.change_request(name, Resource(cpu=request))
    print(table(tree, "cpu"))
    print()
    print(explain(tree, "C", "cpu"))


if __name__ == "__main__":
    main()
