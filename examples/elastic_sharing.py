"""The worked example of the document on elastic quotas: four groups, a cluster of 100, and how B's surplus is shared.

Run: python examples/elastic_sharing.py
"""

from ugm import Resource
from ugm.elastic import ElasticGroup, ElasticTree, explain, table

#: What each group is guaranteed, its weight, and what it asks for.
GROUPS = {"A": (10, 10, 5), "B": (15, 60, 20), "C": (20, 50, 40), "D": (15, 80, 50)}


def main() -> None:
    """Share out the cluster, and say how."""
    tree = ElasticTree(Resource(cpu=100))
    for name, (least, weight, _) in GROUPS.items():
        tree.put(ElasticGroup(name, min=Resource(cpu=least), max=Resource(cpu=100), shared_weight=Resource(cpu=weight)))
    for name, (_, _, request) in GROUPS.items():
        tree.change_request(name, Resource(cpu=request))
    print(table(tree, "cpu"))
    print()
    print(explain(tree, "C", "cpu"))


if __name__ == "__main__":
    main()
