"""Two teams share GPUs of two models: one may use any card, the other is guaranteed cards of each model."""

from pathlib import Path

from ugm import AllocationRequest, Partition, Resource, UserGroup, load_config

CONFIG = Path(__file__).with_name("variants.yaml")


def main() -> None:
    """Let the first team take as many cards as it can, and give the second team what it is guaranteed."""
    partition = Partition(load_config(CONFIG).partition())
    for model in ("a100", "v100"):
        partition.add_node(f"node-{model}", Resource({f"gpu:{model}": 10}))
    for team in ("any", "models"):
        partition.submit(team, UserGroup("ana"), f"root.{team}")

    for number in range(14):
        decision = partition.allocate(f"any-{number}", "any", Resource(gpu=1))
        print(f"team any, card {number + 1}: {decision}")
    for model in ("a100", "v100"):
        request = AllocationRequest(f"models-{model}", "models", Resource({f"gpu:{model}": 5}))
        decision = partition.allocate(request)
        if not decision:
            plan = partition.plan_preemption(request, since=0)
            print(f"team models takes back {len(plan.victims)} borrowed cards")
            for victim in plan.victims:
                partition.release(victim.allocation_id)
            decision = partition.allocate(request)
        print(f"team models, 5 {model}: {decision}")
    for row in partition.allocations():
        print(row.allocation_id, "holds", row.usage)


if __name__ == "__main__":
    main()
