"""The users and groups of one partition: tracked, enforced and explained.

A `Manager` is what a scheduler embeds. It finds what an application holds, or opens a new line for it in the ledger,
and lets the holding and its trackers do the rest. All figures live there; the manager keeps none of its own.

One lock guards everything; every public operation holds it once, for the whole of its work. No foreign code runs under
it, nothing is read from a file, timed or logged.

Source: Apache YuniKorn, user based resource usage tracking; user based quota enforcement.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final, Literal, final

from ugm.arguments import require_vector
from ugm.decision import ALLOWED, Decision, Violation, over
from ugm.errors import NotTrackedError, ReleaseError, RequestError
from ugm.hierarchy import RequestVector
from ugm.identity import UserGroup
from ugm.operation_lock import CHANGING, exclusive
from ugm.resources import Resource
from ugm.tracking.batch import Demand
from ugm.tracking.holding import DETACHED, Holding
from ugm.tracking.limits import Limits, LimitsInForce, PartitionLimits
from ugm.tracking.tracker import Request
from ugm.tracking.view import ManagerView

__all__ = ["Manager"]

_LOGGER: Final = logging.getLogger(__name__)


@final
class Manager(ManagerView):
    """Tracks and enforces the usage of users and groups in the queues of one partition.

    Any number of threads may call any operation at any time. A call by a signal handler or finalizer raises
    `ugm.ReentrantCallError` if it comes in the middle of an operation of the same thread. Let it leave a note for the
    scheduler instead.

    If an exception interrupts an operation, the operation has taken effect or not, and no lock is held.

    Args:
        config: the partition whose limits hold, from `ugm.load_config`; None for no limits. Queues that it does not
            name may be used like all others.
        group_limits: ``always`` holds an application to the limits of its user and of its group;
            ``unless-user-limited`` holds a user with a limit of its own on the path of the queue to that alone, and
            still counts the group's usage.
        strict: whether giving back what is not held raises; otherwise it is logged as an error and changes nothing.

    Raises:
        RequestError: *group_limits* is something else.

    >>> manager = Manager()
    >>> sue = UserGroup("sue", ("test",))
    >>> manager.increase("root.prod", "app-1", Resource(memory=4), sue).allowed
    True
    >>> manager.get_user_resources(sue)
    Resource(memory=4)
    """

    def __init__(
        self,
        config: PartitionLimits | None = None,
        *,
        group_limits: Literal["always", "unless-user-limited"] = "always",
        strict: bool = True,
    ) -> None:
        if group_limits not in ("always", "unless-user-limited"):
            raise RequestError("group_limits", group_limits, "expected 'always' or 'unless-user-limited'")
        in_force = LimitsInForce(
            Limits.compile(config), user_limits_win=group_limits == "unless-user-limited", managed=True
        )
        super().__init__(in_force)
        self._lock.rebuild = self._rebuild
        self._strict: Final = strict
        #: The ledger's own index, close at hand.
        self._holdings: Final = self._index.holdings

    # Growing

    def increase(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> Decision:
        """Charge *usage* to the user and the group of an application, or to neither.

        The first usage of an application starts it in the queue and chooses its group; a usage of nothing does, too.
        Costs time in the number of limits between the queue and the root, whatever the number of users, queues,
        applications and limits.

        Args:
            queue_path: the full path of the queue that the application runs in.
            application_id: the application.
            usage: what one more allocation takes. Pass the same object again for the same size.
            user: who owns the application.

        Returns:
            The decision; a denial names every limit in the way, and nothing has changed.

        Raises:
            RequestError: an argument is empty, not well formed or of the wrong kind, an amount is negative, or the
                application belongs to another user.
        """
        lock = self._lock
        try:
            # Before the lock is taken: one that has ended by then is of no epoch.
            holding = self._holdings.get(application_id)
        except TypeError:
            # What cannot be hashed is no application id; it is refused below.
            holding = None
        try:
            with lock:
                settled, lock.settled = lock.settled, CHANGING
                if (
                    holding is not None
                    and holding.user is user
                    and (
                        holding.queue_path is queue_path
                        or (type(queue_path) is str and holding.queue_path == queue_path)
                    )
                    and holding.epoch is settled
                    and type(usage) is Resource
                ):
                    layout, vector = usage.compiled
                    if layout is settled.layout:
                        if holding.try_charge(vector):
                            lock.settled = settled
                            return ALLOWED
                        violations = holding.violations_or_charge(vector)
                        lock.settled = settled
                        return Decision(violations) if violations else ALLOWED
                return lock.attempt(settled, self._increase_locked, queue_path, application_id, usage, user)
        except BaseException as error:
            lock.let_go_after(error)
            raise

    def _increase_locked(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> Decision:
        vector = require_vector("usage", usage, self._in_force.epoch.layout)
        holding = self._index.find(queue_path, application_id, user)
        if holding.epoch is DETACHED:
            violations = holding.start(vector)
            if not violations:
                self._index.add(holding)
        else:
            violations = () if holding.try_charge(vector) else holding.violations_or_charge(vector)
        return Decision(violations) if violations else ALLOWED

    def increase_tracked_resource(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> bool:
        """Do what `increase` does, and return whether it was allowed."""
        return self.increase(queue_path, application_id, usage, user) is ALLOWED

    def increase_all(self, requests: Iterable[Request]) -> Decision:
        """Grant several increases together, or none of them: a gang.

        Each request is a `ugm.Request`, or a tuple of its four parts. They may be of one application or of many,
        in any queues; each is held to the limits as if those before it had been granted. A denial names every limit
        that was short, with what all of them together ask of it.

        Raises:
            RequestError: as for `increase`, for any of the requests; nothing has changed.
        """
        # Whatever makes the requests is foreign code, and done with before the lock is taken.
        return self._lock.run(self._increase_all, _batch(requests))

    def _increase_all(self, batch: Sequence[Request]) -> Decision:
        demand = Demand(self._index)
        try:
            for queue_path, application_id, usage, user in batch:
                vector = require_vector("usage", usage, self._in_force.epoch.layout)
                demand.charge(self._index.find(queue_path, application_id, user), usage, vector)
            violations = demand.exceeded()
        except RequestError:
            demand.take_back()
            # Nothing is left to undo, and no counter has to be rebuilt.
            self._lock.undo.clear()
            raise
        if violations:
            demand.take_back()
        return Decision(violations) if violations else ALLOWED

    @exclusive
    def adopt(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Charge what is running already without checking: recovery after a restart.

        Returns:
            Every limit of the application that is exceeded now; empty when all is within limits.

        Raises:
            RequestError: as for `increase`.
        """
        vector = require_vector("usage", usage, self._in_force.epoch.layout)
        holding = self._index.find(queue_path, application_id, user)
        self._index.charge(holding, vector)
        return tuple(violation for node in holding.chain() for violation in over(node))

    @exclusive
    def replace(
        self, queue_path: str, application_id: str, placeholder: Resource, real: Resource, user: UserGroup
    ) -> Decision:
        """Swap what a placeholder holds for what the real allocation takes, in one step.

        Only growth is checked: a real allocation that is no larger in any resource is always granted.

        Raises:
            RequestError: as for `increase`.
            NotTrackedError: the application holds nothing in that queue.
            ReleaseError: it holds less than *placeholder*.
        """
        layout = self._in_force.epoch.layout
        vector = require_vector("placeholder", placeholder, layout)
        require_vector("real", real, layout)
        holding = self._index.require_held(queue_path, application_id, user)
        holding.require_held(vector)
        violations = holding.swap_violations(placeholder, real)
        if violations:
            return Decision(violations)
        holding.swap(placeholder, real)
        return ALLOWED

    # Giving back

    def decrease_tracked_resource(
        self,
        queue_path: str,
        application_id: str,
        usage: Resource,
        user: UserGroup,
        remove_app: bool = False,  # noqa: FBT001, FBT002 - the document's signature
    ) -> None:
        """Give *usage* of an application back to its user and its group. This is never denied.

        An application whose usage has come down to nothing still runs, because more requests may be pending; only
        *remove_app* ends it, in that queue. Its group is forgotten with the last of its queues.

        Raises:
            RequestError: an argument is empty, not well formed or of the wrong kind, an amount is negative, or the
                application belongs to another user.
            NotTrackedError: the user, or the application in that queue, is not tracked.
            ReleaseError: the application holds less than *usage*, or would end with something left.

        The last two are logged as errors instead if the manager is not strict. In every case nothing has changed.
        """
        lock = self._lock
        try:
            # Before the lock is taken: one that has ended by then is of no epoch.
            holding = self._holdings.get(application_id)
        except TypeError:
            # What cannot be hashed is no application id; it is refused below.
            holding = None
        try:
            with lock:
                settled, lock.settled = lock.settled, CHANGING
                if (
                    holding is not None
                    and holding.user is user
                    and (
                        holding.queue_path is queue_path
                        or (type(queue_path) is str and holding.queue_path == queue_path)
                    )
                    and holding.epoch is settled
                    and type(usage) is Resource
                ):
                    layout, vector = usage.compiled
                    if layout is settled.layout:
                        if remove_app:
                            return lock.attempt(settled, self._end, holding, vector)
                        if holding.try_refund(vector):
                            lock.settled = settled
                            return None
                return lock.attempt(settled, self._decrease_locked, queue_path, application_id, usage, user, remove_app)
        except (NotTrackedError, ReleaseError) as error:
            if self._strict:
                raise
            _LOGGER.error("nothing given back: %s", error)  # noqa: TRY400 - the caller's mistake needs no stack
            return None
        except BaseException as error:
            lock.let_go_after(error)
            raise

    def _decrease_locked(
        self,
        queue_path: str,
        application_id: str,
        usage: Resource,
        user: UserGroup,
        remove_app: bool,  # noqa: FBT001 - as in the document's signature
    ) -> None:
        vector = require_vector("usage", usage, self._in_force.epoch.layout)
        holding = self._index.require_held(queue_path, application_id, user)
        if remove_app:
            self._end(holding, vector)
        elif not holding.try_refund(vector):
            holding.require_held(vector)

    def _end(self, holding: Holding, vector: RequestVector) -> None:
        """Give back all that an application holds in a queue, and end it there: one change, or none."""
        if not holding.holds_exactly(vector):
            holding.require_held(vector, everything=True)
        self._lock.undo.append((holding.restore_amounts, (holding.amounts,)))
        holding.try_refund(vector)
        self._index.end(holding)

    # Limits

    def update_config(self, config: PartitionLimits | None) -> None:
        """Put the limits of another configuration in force, all at once.

        Takes the lock for one assignment, however many users are tracked. From then on every answer follows the new
        limits. Usage stays where it is, applications keep their group, and nobody is evicted: a limit below the usage
        denies growth of that resource until enough has been given back.

        Raises:
            RequestError: a limit allows nothing but zeros; the old limits are still in force.
        """
        self._lock.run(self._in_force.swap, Limits.compile(config))

    # After an interruption

    def _rebuild(self) -> None:
        """Recompute everything that follows from what the applications hold."""
        self._index.rebuild()
        self._in_force.renew()


def _batch(requests: Iterable[Request]) -> list[Request]:
    try:
        return [Request(*request) for request in requests]
    except TypeError as error:
        raise RequestError("requests", requests, "expected Requests, or tuples of their four parts") from error
