"""Apps of Parsl that start only if the limits of their user allow it: python parsl_apps.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from uuid import uuid4

import parsl
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor

from ugm import Resource, UserGroup, load_config
from ugm.integrations import BlockingGrants, GrantDeniedError, Remedy, Work
from ugm.store import open_partition


class LimitedApps:
    """Starts apps for users.

    Args:
        grants: the grants of this program.
    """

    def __init__(self, grants: BlockingGrants) -> None:
        self.grants = grants
        # Apps end with the program that started them, so nothing runs yet.
        grants.reconcile(lambda _: Work())

    def submit(self, user: UserGroup, usage: Resource, app: Callable[..., Future], *args: object) -> Future:
        """Start an app, and return its future.

        Raises:
            GrantDeniedError: a limit does not allow it now.
        """
        name = uuid4().hex
        self.grants.grant(name, user, "root.tasks", [(name, usage)])
        try:
            future = app(*args)
        except BaseException:
            self.grants.end(name)
            raise
        future.add_done_callback(lambda _: self.grants.end(name))
        return future


@parsl.python_app
def work(seconds: float) -> None:
    """Take some time."""
    time.sleep(seconds)


def main() -> None:
    """Run six apps of a user who may run two at once."""
    config = load_config(Path(__file__).with_name("limits.yaml")).partition()
    with open_partition("quota.db", config) as partition, parsl.load(Config([ThreadPoolExecutor()])):
        apps, running, waiting = LimitedApps(BlockingGrants(partition, "parsl")), set(), [1, 2, 3, 4, 5, 6]
        while waiting:
            try:
                running.add(apps.submit(UserGroup("ana"), Resource(slots=1), work, 0.5))
            except GrantDeniedError as denial:
                print(denial)
                if denial.remedy is Remedy.NOTHING:
                    raise
                running = wait(running, return_when=FIRST_COMPLETED).not_done
            else:
                print(f"app {waiting.pop(0)} has started")
        wait(running)


if __name__ == "__main__":
    main()


# mypy: ignore-errors
