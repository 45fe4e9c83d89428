"""The manager: users and groups of one partition, tracked, limited and explained.

A scheduler embeds a `Manager`. For each request the manager finds the holding of the application, or makes a detached
one, and leaves the rest to the holding (`ugm.tracking.holding`). It stores no amounts itself.

One lock guards everything, and every public operation holds it once for all of its work. While it is held, no foreign
code runs, and nothing is read from files, timed or logged.

Source: Apache YuniKorn, user based resource usage tracking, "Tracker interface"; user based quota enforcement.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, Protocol, final, runtime_checkable

from ugm.arguments import require_group_limits, require_request, require_user, require_vector
from ugm.configuration import PartitionConfig
from ugm.counters import fits, headroom
from ugm.decision import ALLOWED, Decision, EffectiveLimit, Violation, already_exceeded
from ugm.engine_lock import exclusive
from ugm.errors import InvariantError, NotTrackedError, ReleaseError, RequestError
from ugm.identity import UserGroup, require_name
from ugm.resources import Resource
from ugm.tracking.holding import DETACHED, Holding, OwnerUsageTree, all_holdings, with_siblings
from ugm.tracking.holding_index import BatchCharge, HoldingIndex
from ugm.tracking.limits import ActiveLimits, Limits
from ugm.tracking.trackers import GroupTracker, GroupUsage, UserTracker, UserUsage, copies_of, tracker_of


@runtime_checkable
class Tracker(Protocol):
    """An object that tracks and enforces the usage of users and groups, such as `ugm.Manager`."""

    def increase_tracked_resource(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> bool:
        """Charge *usage* to the user and the group of an application, or to neither. Return whether it was charged."""

    def decrease_tracked_resource(
        self,
        queue_path: str,
        application_id: str,
        usage: Resource,
        remove_app: bool,  # noqa: FBT001 - the document's signature
        user: UserGroup,
    ) -> None:
        """Refund *usage*; with *remove_app*, end the application in that queue."""

    def get_user_resources(self, user: UserGroup) -> Resource | None:
        """Return the usage of a user in all queues together; None if the user is not tracked."""

    def get_group_resources(self, group: str) -> Resource | None:
        """Return the usage of a group in all queues together; None if the group is not tracked."""

    def get_users_resources(self) -> tuple[UserUsage, ...]:
        """Return the usage of every tracked user by queue, sorted by name."""

    def get_groups_resources(self) -> tuple[GroupUsage, ...]:
        """Return the usage of every tracked group by queue, sorted by name."""


class Request(NamedTuple):
    """One of several increases that are granted together or not at all."""

    queue_path: str
    application_id: str
    usage: Resource
    user: UserGroup


def _findings(index: HoldingIndex) -> Iterator[str]:
    """Yield a message for each counter or list that does not agree with the holdings; a message may be repeated."""
    for first in index.holdings.values():
        yield from _application_findings(list(with_siblings(first)))
    listed: dict[OwnerUsageTree, set[Holding]] = {tree: set() for tree in index.trees()}
    for holding in all_holdings(index.holdings):
        for tree in filter(None, (holding.owner, holding.group)):
            if tree in listed:
                listed[tree].add(holding)
            else:
                yield f"{tree.kind} {tree.name!r} is charged {holding.application_id!r} but is not tracked"
    for tree, holdings in listed.items():
        owner = f"{tree.kind} {tree.name!r}"
        if not tree.holdings:
            yield f"{owner} is tracked without applications"
        elif set(all_holdings(tree.holdings)) != holdings:
            yield f"{owner} lists other holdings than are charged to it"
        yield from (f"{owner} {finding}" for finding in _counter_findings(tree))


def _application_findings(same: list[Holding]) -> Iterator[str]:
    name = f"application {same[0].application_id!r}"
    if len({(holding.owner, holding.group) for holding in same}) > 1:
        yield f"{name} is charged to more than one user or group"
    if len({holding.queue_path for holding in same}) != len(same):
        yield f"{name} is listed twice in one queue"


def _counter_findings(tree: OwnerUsageTree) -> Iterator[str]:
    recounted = tree.recounted()
    for path in {**tree.counters, **recounted}:
        counter, expected = tree.counters.get(path), recounted.get(path)
        if expected is None or counter is None:
            yield f"counts {path}, where nothing runs" if expected is None else f"does not count {path}"
            continue
        due = dict([(None, expected.running), *expected.used().items()])
        for name, used in [(None, counter.running), *counter.used().items()]:
            if used != due[name]:
                yield f"counts {used} {name or 'applications'} in {path}, but its applications hold {due[name]}"


_LOGGER: Final = logging.getLogger(__name__)
#: The request of an application that only starts.
_NOTHING: Final = Resource()


@final
class Manager:
    """Tracks and enforces the usage of users and groups in the queues of one partition.

    Any number of threads may call any operation at any time. A call by a signal handler or finalizer raises
    `ugm.ReentrantCallError` if it interrupts an operation of the same thread. Such code should set a flag for the
    scheduler instead.

    If an exception interrupts an operation, the operation has either taken effect or not, and no lock is held.

    Args:
        config: the partition whose limits are enforced, from `ugm.load_config`; None for no limits. Queues that it does
            not name may be used like all others.
        group_limits: ``always`` enforces the limits of the user and of the group; ``unless-user-limited`` exempts a
            user with a named limit on the path of the queue from the limits of the group, and still counts the usage
            for the group.
        strict: whether a refund of more than is held raises an error; otherwise it is logged as an error and changes
            nothing.

    Raises:
        RequestError: *group_limits* has another value, or *config* is not valid.

    >>> manager = Manager()
    >>> sue = UserGroup("sue", ("test",))
    >>> manager.increase("root.prod", "app-1", Resource(memory=4), sue).allowed
    True
    >>> manager.get_user_resources(sue)
    Resource(memory=4)
    """

    def __init__(
        self,
        config: PartitionConfig | None = None,
        *,
        group_limits: Literal["always", "unless-user-limited"] = "always",
        strict: bool = True,
    ) -> None:
        user_limits_win = require_group_limits(group_limits)
        self._active_limits: Final = ActiveLimits(_compile(config), user_limits_win=user_limits_win, managed=True)
        self._lock: Final = self._active_limits.lock
        self._lock.rebuild = self._rebuild
        self._index: Final = HoldingIndex(self._active_limits)
        self._strict: Final = strict

    def __repr__(self) -> str:
        # Without the lock, because a debugger may print the manager while another thread holds it.
        users, groups = self._index.users, self._index.groups
        return f"<{type(self).__name__} users={len(users)} groups={len(groups)}>"

    # Increases

    def increase(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> Decision:
        """Charge *usage* to the user and the group of an application, or to neither.

        The first usage of an application starts it in the queue and chooses its group, even if the usage is empty. The
        cost depends on the number of limits between the queue and the root only.

        Args:
            queue_path: the full path of the queue that the application runs in.
            application_id: the application.
            usage: the size of one more allocation. Pass the same object again for the same size.
            user: the owner of the application.

        Returns:
            The decision. A denial names every limit that would be exceeded, and nothing has changed.

        Raises:
            RequestError: an argument is empty, not well formed or of the wrong type, an amount is negative, or the
                application belongs to another user.
        """
        return self._lock.call(self._increase, (queue_path, application_id, usage, user))

    def _increase(self, request: tuple[str, str, Resource, UserGroup]) -> Decision:
        queue_path, application_id, usage, user = request
        vector = require_request("usage", usage, self._active_limits.epoch.layout)
        holding = self._index.find(queue_path, application_id, user)
        is_new = holding.epoch is DETACHED
        violations = holding.admit(vector)
        if violations:
            return Decision(violations)
        if is_new:
            self._index.add(holding)
        return ALLOWED

    def increase_tracked_resource(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> bool:
        """Call `increase` and return whether it was allowed."""
        return self.increase(queue_path, application_id, usage, user) is ALLOWED

    def increase_all(self, requests: Iterable[Request]) -> Decision:
        """Grant several increases together, or none of them, as for a gang.

        Each request is a `ugm.Request`, or a tuple of its four parts. The requests may belong to one application or to
        several, in any queues. Each is checked as if those before it had been granted. A denial names every limit that
        was short, with the total of all requests for it.

        Raises:
            RequestError: as for `increase`, for any of the requests; nothing has changed.
        """
        # Before the lock is taken, because the iterable may run foreign code.
        return self._lock.run(self._increase_all, _batch(requests))

    def _increase_all(self, batch: Sequence[Request]) -> Decision:
        charges = BatchCharge(self._index, self._lock.changes)
        for queue_path, application_id, usage, user in batch:
            try:
                vector = require_request("usage", usage, self._active_limits.epoch.layout)
                holding = self._index.find(queue_path, application_id, user)
            except RequestError:
                charges.roll_back()
                # Everything has been taken back, so the counters need not be rebuilt.
                self._lock.finish()
                raise
            charges.charge(holding, usage, vector)
        violations = charges.exceeded()
        if violations:
            charges.roll_back()
        return Decision(violations) if violations else ALLOWED

    @exclusive
    def adopt(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Charge an allocation that is running already, without a check: recovery after a restart.

        Returns:
            Every limit of the application that is exceeded now.

        Raises:
            RequestError: as for `increase`.
        """
        vector = require_request("usage", usage, self._active_limits.epoch.layout)
        holding = self._index.find(queue_path, application_id, user)
        self._index.charge(holding, vector)
        return tuple(violation for counter in holding.chain() for violation in already_exceeded(counter))

    @exclusive
    def replace(
        self, queue_path: str, application_id: str, placeholder: Resource, real: Resource, user: UserGroup
    ) -> Decision:
        """Replace a placeholder by the real allocation in one step.

        Only resources that grow are checked, so a real allocation that is no larger is always granted.

        Raises:
            RequestError: as for `increase`.
            NotTrackedError: the application holds nothing in that queue.
            ReleaseError: it holds less than *placeholder*.
        """
        layout = self._active_limits.epoch.layout
        vector = require_vector("placeholder", placeholder, layout)
        require_request("real", real, layout)
        holding = self._index.require_held(queue_path, application_id, user)
        holding.require_held(vector)
        violations = holding.swap_violations(placeholder, real)
        if violations:
            return Decision(violations)
        holding.swap(placeholder, real)
        return ALLOWED

    # Decreases

    def decrease_tracked_resource(
        self,
        queue_path: str,
        application_id: str,
        usage: Resource,
        remove_app: bool,  # noqa: FBT001 - the document's signature
        user: UserGroup,
    ) -> None:
        """Refund *usage* of an application to its user and its group. This is never denied.

        An application whose usage has become zero still runs, because more requests may be pending. Only *remove_app*
        ends it in that queue. When it has ended in its last queue, the choice of its group is forgotten.

        Raises:
            RequestError: an argument is empty, not well formed or of the wrong type, an amount is negative, or the
                application belongs to another user.
            NotTrackedError: the user, or the application in that queue, is not tracked.
            ReleaseError: the application holds less than *usage*, or would end while it still holds something.

        The last two are logged as errors instead if the manager is not strict. In every case nothing has changed.
        """
        try:
            self._lock.call(self._decrease, (queue_path, application_id, usage, remove_app, user))
        except (NotTrackedError, ReleaseError) as error:
            if self._strict:
                raise
            _LOGGER.error("nothing refunded: %s", error)  # noqa: TRY400 - the caller's mistake needs no stack

    def _decrease(self, request: tuple[str, str, Resource, bool, UserGroup]) -> None:
        queue_path, application_id, usage, ends, user = request
        vector = require_vector("usage", usage, self._active_limits.epoch.layout)
        holding = self._index.require_held(queue_path, application_id, user)
        if ends:
            # Everything is refunded, as one change.
            holding.require_held(vector, everything=True)
            holding.owner.drop_group_choice(application_id)
            self._index.end(holding, vector)
        elif not holding.try_refund(vector):
            holding.require_held(vector)

    # Limits

    def update_config(self, config: PartitionConfig | None) -> None:
        """Replace all limits by those of another configuration.

        The lock is held for one assignment only, however many users are tracked. Usage does not change, applications
        keep their group, and nothing is evicted. A limit below the usage denies more of that resource until enough has
        been released.

        Raises:
            RequestError: a limit is not valid; the old limits stay in force.
        """
        self._lock.run(self._active_limits.replace_limits, _compile(config))

    # Queries. They change nothing, and results are values, except for live trackers.

    @exclusive
    def check(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> Decision:
        """Return the decision that `increase` would make now.

        Only `increase` itself is binding, because another thread may be granted the resources in between.

        Raises:
            RequestError: as for `increase`. All other queries treat an application of another user as one that has not
                started yet.
        """
        vector = require_request("usage", usage, self._active_limits.epoch.layout)
        holding = self._index.find(queue_path, application_id, user)
        if holding.epoch is not DETACHED and fits(holding.checked, vector):
            return ALLOWED
        violations = holding.violations(vector)
        return Decision(violations) if violations else ALLOWED

    @exclusive
    def headroom(self, queue_path: str, application_id: str, user: UserGroup) -> Resource | None:
        """Return how much more an application may use: the smallest free amount of each limited resource.

        Returns:
            None if no resource is limited. An amount is negative if a limit was lowered below the usage.

        >>> from ugm import Manager
        >>> Manager().headroom("root.prod", "app-1", UserGroup("sue")) is None
        True
        """
        holding = self._index.find_for_query(queue_path, application_id, user)
        return headroom(holding.enforced(holding.chain()))

    @exclusive
    def can_run_app(self, queue_path: str, application_id: str, user: UserGroup) -> bool:
        """Return whether the application runs in the queue, or may start there under the limits on applications."""
        nothing = self._active_limits.epoch.layout.vector(_NOTHING)
        return not self._index.find_for_query(queue_path, application_id, user).violations(nothing)

    @exclusive
    def group_for(self, queue_path: str, application_id: str, user: UserGroup) -> str | None:
        """Return the group that the application is, or would be, charged to; ``*`` for a group wildcard."""
        group = self._index.find_for_query(queue_path, application_id, user).group
        return None if group is None else group.name

    @exclusive
    def effective_limits(
        self, user: UserGroup, queue_path: str, application_id: str | None = None
    ) -> tuple[EffectiveLimit, ...]:
        """Return every limit that applies to a user in a queue, with the configuration entry that sets it.

        Args:
            user: the user.
            queue_path: the queue.
            application_id: a running application, whose group is used; otherwise the group is the one that a new
                application would be charged to.

        Returns:
            The limits of the user, then those of the group, each leaf to root.
        """
        if application_id is None:
            holding = self._index.detached(self._active_limits.path(queue_path), "", require_user(user))
        else:
            holding = self._index.find_for_query(queue_path, application_id, user)
        return tuple(EffectiveLimit.of(counter) for counter in holding.enforced(holding.chain()))

    @exclusive
    def exceeded_limits(self) -> tuple[Violation, ...]:
        """Return every limit that is exceeded now, users before groups, each sorted by name, leaf to root.

        Takes time proportional to the number of limited queues of all users and groups, under the lock.
        """
        counters = (counter for tree in self._index.trees() for counter in tree.sorted_counters())
        return tuple(violation for counter in counters for violation in already_exceeded(counter))

    @exclusive
    def get_user_resources(self, user: UserGroup) -> Resource | None:
        """Return the usage of a user in all queues together, without zeros; None if the user is not tracked."""
        tree = self._index.users.get(require_user(user).name)
        return None if tree is None else tree.total()

    @exclusive
    def get_group_resources(self, group: str) -> Resource | None:
        """Return the usage of a group in all queues together, without zeros; None if the group is not tracked."""
        tree = self._index.groups.get(require_name("group", group))
        return None if tree is None else tree.total()

    def get_users_resources(self) -> tuple[UserUsage, ...]:
        """Return the usage and limits of every tracked user by queue, sorted by name."""
        copies = self._lock.run(copies_of, self._index.users)
        return tuple(copy.user_usage() for copy in copies)

    def get_groups_resources(self) -> tuple[GroupUsage, ...]:
        """Return the usage and limits of every tracked group by queue, sorted by name."""
        copies = self._lock.run(copies_of, self._index.groups)
        return tuple(copy.group_usage() for copy in copies)

    @exclusive
    def get_user_tracker(self, user_name: str) -> UserTracker | None:
        """Return the live tracker of a user, for reading and for limits set by hand; None if the user is not tracked.

        The tracker is charged through the manager only. It is no longer updated after the last application of the user
        has ended.
        """
        tree = self._index.users.get(require_name("user_name", user_name))
        return None if tree is None else tracker_of(tree, UserTracker)

    @exclusive
    def get_group_tracker(self, group_name: str) -> GroupTracker | None:
        """Return the live tracker of a group, like `get_user_tracker`; None if the group is not tracked."""
        tree = self._index.groups.get(require_name("group_name", group_name))
        return None if tree is None else tracker_of(tree, GroupTracker)

    @exclusive
    def verify(self) -> None:
        """Recompute every counter from the holdings, and compare.

        Raises:
            InvariantError: a counter or index differs. This is a bug in ugm; please report it.
        """
        found = tuple(dict.fromkeys(_findings(self._index)))
        if found:
            raise InvariantError(found)

    # After an interruption

    def _rebuild(self) -> None:
        """Recompute everything that follows from the holdings."""
        self._index.rebuild()
        self._active_limits.discard_counters()


def _batch(requests: Iterable[Request]) -> list[Request]:
    try:
        return [Request(*request) for request in requests]
    except TypeError as error:
        raise RequestError("requests", requests, "expected Requests, or tuples of their four parts") from error


def _compile(config: PartitionConfig | None) -> Limits:
    """Compile the limits of a configuration.

    Raises:
        RequestError: a limit is not valid, or changes by a schedule; or there are families of resources.
    """
    limits = Limits.compile(config)
    if limits.families is not None:
        raise RequestError("config", "ugm.families", "a Manager grants nothing; families need a Partition")
    for path, queue in () if config is None else config.root.walk():
        if any(limit.ugm.schedule for limit in queue.limits):
            raise RequestError("config", path, "a Manager has no clock; scheduled limits need a Partition")
    return limits
