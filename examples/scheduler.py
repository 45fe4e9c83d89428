"""A small scheduler that leaves all quota decisions to ugm.

It submits applications, which are placed in queues, and requests their allocations. If a request does not fit, the
scheduler prints the reason and the holders of the missing resources, and keeps the request. It retries the request
when an application ends whose usage counted for the violated limit, or when the quotas change.
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

#: A later configuration: more cores for the queue.
RELAXED = CONFIG.read_text().replace("max: {vcore: 24,", "max: {vcore: 28,")

#: An invalid configuration: a colon is missing.
MISTAKEN = CONFIG.read_text().replace("maxapplications: 3", "maxapplications 3")


class Scheduler:
    """Starts pending requests in the order of arrival, and skips those that do not fit."""

    def __init__(self, config_file: Path) -> None:
        self.partition = Partition(load_config(str(config_file)).partition())
        #: In the order of arrival, by the id of the first allocation: the allocations and the first violated limit.
        self.pending: dict[str, tuple[list[AllocationRequest], Violation]] = {}

    def submit(self, application_id: str, user: UserGroup, queue: str = "") -> None:
        """Submit an application; the placement rules select its queue."""
        placement = self.partition.submit(application_id, user, queue)
        print(f"{application_id}: {placement}")

    def request(self, requests: list[AllocationRequest]) -> None:
        """Start one allocation, or a gang completely or not at all. Keep the request if it may fit later."""
        decision = self.partition.allocate_all(requests)
        first = requests[0].allocation_id
        names = ", ".join(request.allocation_id for request in requests)
        if decision:
            self.pending.pop(first, None)
            print(f"{names}: started")
        elif decision.can_wait:
            self.pending[first] = requests, decision.violations[0]
            print(f"{names}: {self.partition.explain(requests[0].application_id, sum_of(requests), max_holders=2)}")
        else:
            self.pending.pop(first, None)
            print(f"{names}: rejected permanently; {decision}")

    def schedule(self, ended: ApplicationInfo | None = None) -> None:
        """Retry pending requests, the oldest first; after the end of an application only the affected ones."""
        free: dict[tuple[object, ...], int] = {}
        for first, (requests, violation) in list(self.pending.items()):
            may_fit = violation.requested <= free.get(limit_of(violation), violation.requested)
            if ended is not None and not (may_fit and counts(violation, ended)):
                continue
            self.request(requests)
            if first in self.pending:
                _, found = self.pending[first]
                free[limit_of(found)] = found.limit - found.used

    def arrive(self, placeholder_id: str, allocation_id: str, usage: Resource) -> None:
        """Replace a placeholder by a real allocation."""
        self.partition.replace(placeholder_id, allocation_id, usage)
        print(f"{allocation_id}: replaces {placeholder_id}")

    def finish(self, application_id: str) -> None:
        """End an application with its allocations and requests, and retry the affected requests."""
        for requests, _ in list(self.pending.values()):
            if requests[0].application_id == application_id:
                del self.pending[requests[0].allocation_id]
        ended = self.partition.application(application_id)
        released = self.partition.remove(application_id)
        print(f"{application_id}: ends and releases {', '.join(released) or 'nothing'}")
        self.schedule(ended)

    def reload(self, text: str) -> None:
        """Apply other quotas; keep the old ones if the new ones are invalid."""
        try:
            plan = self.partition.plan(parse_config(text).partition())
        except ConfigError as error:
            print(f"the new quotas are invalid, so the old ones stay in force:\n{error}")
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
    """Return the key of the violated limit."""
    return violation.kind, violation.name, violation.queue_path, violation.resource


def sum_of(requests: list[AllocationRequest]) -> Resource:
    """Return the total usage of several allocations."""
    return sum((request.usage for request in requests), start=Resource())


def gang(application_id: str, size: int, usage: Resource) -> list[AllocationRequest]:
    """Return the placeholders of a gang."""
    names = [f"{application_id}-place-{number}" for number in range(1, size + 1)]
    return [AllocationRequest(name, application_id, usage, placeholder=True) for name in names]


def main() -> None:
    """Print a morning of three users."""
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
