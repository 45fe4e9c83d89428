"""Tasks of Celery that run only while the limits of their user allow it.

Start a quota service, and workers as usual:

    ugm serve limits.yaml --listen unix:quota.sock --store quota.db
    UGM_SERVICE=unix:quota.sock celery -A celery_tasks worker
"""

from __future__ import annotations

import os
import time
from functools import cache

from celery import Celery, Task

from ugm import Resource, UserGroup
from ugm.integrations import BlockingGrants, GrantDeniedError, Remedy, Work
from ugm.service import ConnectedPartition, connect

app = Celery("celery_tasks")
app.config_from_object("celeryconfig", silent=True)


@cache
def quotas() -> tuple[ConnectedPartition, BlockingGrants]:
    """Return the partition and the grants. Each process of a worker connects when it runs its first task."""
    partition = connect(os.environ["UGM_SERVICE"], token=os.environ.get("UGM_TOKEN", ""), client="celery")
    grants = BlockingGrants(partition, "celery")
    # Other workers run what the ledger has: nothing is released here.
    grants.reconcile(lambda held: Work(starting=held))
    return partition, grants


class LimitedTask(Task):
    """A task that waits until its user may run it, and fails if that can never be."""

    abstract = True
    acks_late = True  # a task whose worker was killed runs again, with the same id
    max_retries = None
    time_limit = 3600
    usage = Resource(slots=1)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the task between its grant and its end."""
        partition, grants = quotas()
        name, user = self.request.id, UserGroup(self.request.headers["user"])
        try:
            grants.grant(name, user, "root.tasks", [(name, self.usage)], duration=self.time_limit)
        except GrantDeniedError as denial:
            if denial.remedy is Remedy.NOTHING:
                raise PermissionError(denial.text) from None
            partition.release_overdue()  # of workers that were killed
            raise self.retry(exc=denial, countdown=2) from None
        try:
            return super().__call__(*args, **kwargs)
        finally:
            grants.end(name)


@app.task(base=LimitedTask)
def sleep(seconds: float) -> None:
    """Take one slot for some time."""
    time.sleep(seconds)


@app.task(base=LimitedTask, usage=Resource(slots=3))
def huge() -> None:
    """Take more slots than any user may have."""


# mypy: ignore-errors
