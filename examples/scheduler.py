"""A scheduler in a hundred lines that leaves all questions of quota to ugm.

It keeps a queue of pending requests, asks for each whether it may start, shows why one may not, and asks again when
something has ended or the limits have changed. Run it from a clone with: python examples/scheduler.py
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from ugm import ConfigError, Manager, Resource, UserGroup, load_config, parse_config

GIB = 2**30

LIMITS = Path(__file__).with_name("limits.yaml")

#: What the administrator rolls out later: one more application for sue.
RELAXED = LIMITS.read_text().replace("maxapplications: 3", "maxapplications: 4")

#: What the administrator tries first: in YAML a mapping needs its colons.
MISTAKEN = LIMITS.read_text().replace("maxapplications: 3", "maxapplications 3")


@dataclass(frozen=True)
class Request:
    """An application that wants to start."""

    application_id: str
    queue_path: str
    user: UserGroup
    usage: Resource


class Scheduler:
    """Starts pending requests in the order of their arrival, skipping those that the limits hold back."""

    def __init__(self, config_file: Path) -> None:
        self.manager = Manager(load_config(str(config_file)).partition())
        self.pending: deque[Request] = deque()
        self.running: dict[str, Request] = {}

    def submit(self, request: Request) -> None:
        """Start a request if it fits; keep it if it may fit later."""
        decision = self.manager.increase(request.queue_path, request.application_id, request.usage, request.user)
        if decision:
            self.running[request.application_id] = request
            print(f"{request.application_id} starts with {request.usage}")
        elif decision.can_wait:
            self.pending.append(request)
            print(f"{request.application_id} waits; {decision}")
        else:
            print(f"{request.application_id} is refused for good; {decision}")

    def schedule(self) -> None:
        """Ask for every pending request again, the oldest first."""
        waiting, self.pending = self.pending, deque()
        for request in waiting:
            self.submit(request)

    def complete(self, application_id: str) -> None:
        """Give back what an application holds, and see whom that helps."""
        done = self.running.pop(application_id)
        self.manager.decrease_tracked_resource(done.queue_path, application_id, done.usage, done.user, remove_app=True)
        print(f"{application_id} ends")
        self.schedule()

    def reload(self, text: str) -> None:
        """Put other limits in force, unless something is wrong with them: then the old ones stay."""
        try:
            config = parse_config(text)
        except ConfigError as error:
            print(f"the new limits are not used;\n{error}")
            return
        self.manager.update_config(config.partition())
        print("the new limits are in force")
        self.schedule()


def main() -> None:
    """Show a morning of sue and two colleagues."""
    sue = UserGroup("sue", ("development",))
    bob = UserGroup("bob", ("development", "test"))
    scheduler = Scheduler(LIMITS)
    for number in range(1, 5):
        scheduler.submit(Request(f"sue-{number}", "root.batch", sue, Resource(vcore=5000, memory=8 * GIB)))
    scheduler.submit(Request("bob-1", "root.batch", bob, Resource(vcore=9000)))
    scheduler.submit(Request("bob-2", "root.interactive", bob, Resource(vcore=4000)))
    print(f"sue has left: {scheduler.manager.headroom('root.batch', 'sue-1', sue)}")
    scheduler.complete("sue-1")
    scheduler.submit(Request("sue-5", "root.batch", sue, Resource(vcore=5000, memory=8 * GIB)))
    scheduler.reload(MISTAKEN)
    scheduler.reload(RELAXED)
    for application_id in list(scheduler.running):
        scheduler.complete(application_id)
    scheduler.manager.verify()


if __name__ == "__main__":
    main()
