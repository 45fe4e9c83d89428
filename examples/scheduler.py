"""A scheduler in a hundred lines that leaves all questions of quota to ugm.

It submits applications, which are placed in queues, and asks for their allocations. A request that does not fit waits,
and the scheduler prints the reason and who holds what is missing. It is retried when an application has ended whose
usage counted against the limit in its way, or when the quotas have changed.
Run it from a clone with: python examples/scheduler.py
"""

from __future__ import annotations

from pathlib import Path

from ugm import (
    AllocationRequest,
    ApplicationInfo,
    ConfigError,
    Partition,
    Resource,
    UserGroup,
    Violation,
    load_config,
    parse_config,
)

CONFIG = Path(__file__).with_name("scheduler.yaml")

#: What the administrator rolls out later: more cores for the queue.
RELAXED = CONFIG.read_text().replace("max: {vcore: 24,", "max: {vcore: 28,")

#: What the administrator tries first: in YAML a mapping needs its colons.
MISTAKEN = CONFIG.read_text().replace("maxapplications: 3", "maxapplications 3")


class Scheduler:
    """Starts what is pending in the order of arrival, skipping what the quotas hold back."""

    def __init__(self, config_file: Path) -> None:
        self.partition = Partition(load_config(str(config_file)).partition())
        #: By the id of the first allocation, in the order of arrival: the allocations, and the first limit in the way.
        self.pending: dict[str, tuple[list[AllocationRequest], Violation]] = {}

    def submit(self, application_id: str, user: UserGroup, queue: str = "") -> None:
        """Let the placement rules find the queue of an application, for good."""
        placement = self.partition.submit(application_id, user, queue)
        print(f"{application_id}: {placement}")

    def request(self, asks: list[AllocationRequest]) -> None:
        """Start allocations, all together or none: one, or a gang. Keep them if they may fit later."""
        decision = self.partition.allocate_all(asks)
        first = asks[0].allocation_id
        names = ", ".join(ask.allocation_id for ask in asks)
        if decision:
            self.pending.pop(first, None)
            print(f"{names}: started")
        elif decision.can_wait:
            self.pending[first] = asks, decision.violations[0]
            print(f"{names}: {self.partition.explain(asks[0].application_id, sum_of(asks), most=2)}")
        else:
            self.pending.pop(first, None)
            print(f"{names}: refused for good; {decision}")

    def schedule(self, ended: ApplicationInfo | None = None) -> None:
        """Retry what is pending, the oldest first; after the end of an application only what that can help."""
        free: dict[tuple[object, ...], int] = {}
        for first, (asks, violation) in list(self.pending.items()):
            may_fit = violation.requested <= free.get(limit_of(violation), violation.requested)
            if ended is not None and not (may_fit and counts(violation, ended)):
                continue
            self.request(asks)
            if first in self.pending:
                _, found = self.pending[first]
                free[limit_of(found)] = found.limit - found.used

    def arrive(self, placeholder_id: str, allocation_id: str, usage: Resource) -> None:
        """Put what has really come up in the place of a placeholder."""
        self.partition.replace(placeholder_id, allocation_id, usage)
        print(f"{allocation_id}: takes the place of {placeholder_id}")

    def finish(self, application_id: str) -> None:
        """Give back what an application holds, forget what it waits for, and see whom that helps."""
        for asks, _ in list(self.pending.values()):
            if asks[0].application_id == application_id:
                del self.pending[asks[0].allocation_id]
        ended = self.partition.application(application_id)
        released = self.partition.remove(application_id)
        print(f"{application_id}: ends, and gives back {', '.join(released) or 'nothing'}")
        self.schedule(ended)

    def reload(self, text: str) -> None:
        """Put other quotas in force, unless something is wrong with them: then the old ones stay."""
        try:
            plan = self.partition.plan(parse_config(text).partition())
        except ConfigError as error:
            print(f"the new quotas are not used;\n{error}")
            return
        print(f"the new quotas are in force:\n{plan}")
        self.partition.apply(plan)
        self.schedule()


def counts(violation: Violation, owner: ApplicationInfo) -> bool:
    """Return whether a limit counts the usage of an application."""
    names = {"user": owner.user.name, "group": owner.group}
    is_above = f"{owner.queue_path}.".startswith(f"{violation.queue_path}.")
    return is_above and names.get(violation.kind, violation.name) == violation.name


def limit_of(violation: Violation) -> tuple[object, ...]:
    """Return which limit a violation is about."""
    return violation.kind, violation.name, violation.queue_path, violation.resource


def sum_of(asks: list[AllocationRequest]) -> Resource:
    """Return what several allocations take together."""
    return sum((ask.usage for ask in asks), start=Resource())


def gang(application_id: str, size: int, usage: Resource) -> list[AllocationRequest]:
    """Return placeholders for allocations that are of no use one by one."""
    names = [f"{application_id}-place-{number}" for number in range(1, size + 1)]
    return [AllocationRequest(name, application_id, usage, placeholder=True) for name in names]


def main() -> None:
    """Show a morning of sue and two colleagues."""
    sue, bob, ann = UserGroup("sue", ("development",)), UserGroup("bob", ("development",)), UserGroup("ann")
    small, large = Resource.parse(vcore="4", memory="8Gi"), Resource.parse(vcore="12", memory="16Gi")
    scheduler = Scheduler(CONFIG)
    scheduler.partition.add_node("node-1", Resource.parse(vcore="32", memory="128Gi"))
    scheduler.submit("train", sue, "root.batch")
    scheduler.request([AllocationRequest("train-1", "train", large)])
    scheduler.submit("build", bob, "root.batch")
    scheduler.request(gang("build", 3, small))
    scheduler.arrive("build-place-1", "build-1", small)
    scheduler.submit("report", ann, "root.batch")
    scheduler.request([AllocationRequest("report-1", "report", small)])
    scheduler.submit("notebook", ann)
    scheduler.request([AllocationRequest("notebook-1", "notebook", large)])
    scheduler.reload(MISTAKEN)
    scheduler.reload(RELAXED)
    scheduler.submit("test", sue, "root.batch")
    scheduler.request(gang("test", 2, small))
    scheduler.finish("train")
    for application in scheduler.partition.applications():
        scheduler.finish(application.application_id)
    scheduler.partition.verify()


if __name__ == "__main__":
    main()
