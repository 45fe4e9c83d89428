"""The example of Koordinator's design of elastic quotas: four groups share a cluster of 100 and the surplus of B.

Run: python examples/elastic_sharing.py
"""

from ugm.elastic import Sharer, share

#: Minimum, weight and request of each group.
GROUPS = {"A": (10, 10, 5), "B": (15, 60, 20), "C": (20, 50, 40), "D": (15, 80, 50)}


def main() -> None:
    """Print the rounds of sharing and the runtimes."""
    sharers = [Sharer(name, request, minimum, weight) for name, (minimum, weight, request) in GROUPS.items()]
    result = share(100, sharers)
    print(f"up to the minimum: {result.floor}")
    for number, each in enumerate(result.rounds, 1):
        print(f"round {number} divides {each.left} by a total weight of {each.weight}: {each.given}")
    print(f"runtimes: {result.runtime}")


if __name__ == "__main__":
    main()
