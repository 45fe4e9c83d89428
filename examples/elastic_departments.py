"""Two departments share a cluster of GPUs. Teams borrow idle GPUs until the owner reclaims them.

Run: python examples/elastic_departments.py
"""

from dataclasses import replace

from ugm import Resource
from ugm.elastic import ROOT_GROUP, ElasticGroup, ElasticQuota, ElasticTree, Pod, status

#: Group, parent, minimum and maximum.
GROUPS = (
    ("research", ROOT_GROUP, 16, 32),
    ("vision", "research", 8, 24),
    ("language", "research", 8, 32),
    ("production", ROOT_GROUP, 16, 24),
    ("serving", "production", 6, 16),
    ("training", "production", 10, 16),
)


def departments() -> ElasticQuota:
    """Return a cluster of 32 GPUs with two departments. The team `serving` does not lend its minimum."""
    quota = ElasticQuota(ElasticTree(Resource(gpu=32)))
    for name, parent, minimum, maximum in GROUPS:
        group = ElasticGroup(name, parent, min=Resource(gpu=minimum), max=Resource(gpu=maximum))
        quota.create(replace(group, is_parent=parent == ROOT_GROUP, allow_lent=name != "serving"))
    return quota


def show(quota: ElasticQuota, title: str) -> None:
    """Print the runtime of each group."""
    print(title)
    for name, *_ in GROUPS:
        found = status(quota.tree, name)
        shown = (each.get("gpu", 0) for each in (found.min, found.runtime, found.request, found.max))
        print(f"  {name:11}min {{:2}}, runtime {{:2}}, request {{:2}}, max {{:2}}".format(*shown))
    print()


def submit(quota: ElasticQuota, team: str, count: int, gpus: int) -> None:
    """Submit some pods, and start those that fit."""
    for number in range(count):
        pod = Pod(f"{team}-{number}", Resource(gpu=gpus), team, started=number)
        quota.expect(pod)
        start(quota, pod)


def start(quota: ElasticQuota, pod: Pod) -> None:
    """Start a pod if it fits its quota and the cluster; otherwise print the reason."""
    decision = quota.check(pod)
    free = quota.tree.total["gpu"] - quota.tree.used(ROOT_GROUP).get("gpu", 0)
    if not decision:
        print(f"{pod.name} waits; {decision}\n")
    elif pod.usage["gpu"] > free:
        print(f"{pod.name} waits; it fits its quota, but only {free} GPUs are free\n")
    else:
        quota.start(pod.name)


def revoke(quota: ElasticQuota) -> None:
    """End pods of groups that are above their runtime. A real scheduler gives them some minutes first."""
    for name in sorted({violation.name for violation in quota.over_used()}):
        plan = quota.plan_revoke(name)
        if plan.victims:
            print(f"{name} returns {', '.join(plan.victims)}.\n")
            quota.carry_out(plan)


def main() -> None:
    """Let one department borrow and the other reclaim GPUs."""
    quota = departments()
    submit(quota, "language", 7, 4)
    show(quota, "At night, language borrows all idle GPUs; serving keeps its minimum.")

    submit(quota, "training", 2, 5)
    show(quota, "In the morning, training requests its minimum.")

    revoke(quota)
    for pod in quota.pods_in("training"):
        if not quota.is_running(pod.name):
            start(quota, pod)
    show(quota, "All teams have their minimum.")

    quota.tree.set_total(Resource(gpu=16))
    show(quota, "Half of the cluster has failed.")


if __name__ == "__main__":
    main()
