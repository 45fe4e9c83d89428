"""What one user uses, and which group each of the user's applications is charged to.

All changes of usage start at a user: what an application is charged to its user it is charged to its group in the same
step, or to neither.

Source: Apache YuniKorn, user based resource usage tracking, "User tracking".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from ugm.arguments import require_application_id, require_name
from ugm.errors import RequestError
from ugm.identity import TrackingType
from ugm.resources import Resource
from ugm.tracking.group_tracker import GroupTracker
from ugm.tracking.limits import LimitsInForce
from ugm.tracking.named_tracker import NamedTracker
from ugm.tracking.queue_tracker import QueueTracker

__all__ = ["UserTracker"]


@final
class UserTracker(NamedTracker):
    """What one user uses in which queues, with the group of every application.

    Args:
        user_name: the user.
        in_force: the limits, shared by all trackers of a partition; None for a tracker without limits of its own.

    >>> in_force = LimitsInForce()
    >>> sue, test = UserTracker("sue", in_force), GroupTracker("test", in_force)
    >>> sue.set_group_for_app("app-1", test)
    >>> sue.increase_resource("root.prod", "app-1", Resource(memory=4))
    True
    >>> test.usage
    Resource(memory=4)
    """

    __slots__ = ("choices",)

    #: The groups of applications that have not been charged yet; a holding knows its own. None while there are none.
    #: Never changed in place, only replaced.
    choices: Mapping[str, QueueTracker | None] | None

    def __init__(self, user_name: str, in_force: LimitsInForce | None = None) -> None:
        self.keep_in(QueueTracker(require_name("user_name", user_name), TrackingType.USER, in_force))

    def keep_in(self, queue: QueueTracker) -> None:
        """Begin with what *queue* holds, and with no choices."""
        super().keep_in(queue)
        self.choices = None

    @property
    def user_name(self) -> str:
        """The user."""
        return self.queue.name

    def has_group_for_app(self, application_id: str) -> bool:
        """Return whether a group, or no group, has been chosen for an application."""
        return self.queue.in_force.lock.run(self.has_chosen, application_id)

    def set_group_for_app(self, application_id: str, group_tracker: GroupTracker | None) -> None:
        """Choose the group that an application is charged to; None charges it to no group.

        The first choice stays until the application has ended in its last queue; a second one does nothing.

        Raises:
            RequestError: the application id is empty, or the group tracker belongs to another partition.
        """
        require_application_id(application_id)
        group = None if group_tracker is None else group_tracker.queue
        if group is not None and group.in_force is not self.queue.in_force:
            raise RequestError("group_tracker", group.name, "the tracker belongs to another partition")
        self.queue.in_force.lock.run(self._choose, application_id, group)

    def _choose(self, application_id: str, group: QueueTracker | None) -> None:
        if not self.has_chosen(application_id):
            self.choices = {**(self.choices or {}), application_id: group}

    def group_name_for_app(self, application_id: str) -> str | None:
        """Return the group chosen for an application; None where the choice is none, or not made."""
        group = self.queue.in_force.lock.run(self.chosen, application_id)
        return None if group is None else group.name

    # For callers that hold the lock

    def has_chosen(self, application_id: str) -> bool:
        """Do what `has_group_for_app` does."""
        return application_id in self.queue.holdings or (self.choices is not None and application_id in self.choices)

    def chosen(self, application_id: str) -> QueueTracker | None:
        """Return the tracker of the group chosen for an application; None where the choice is none, or not made."""
        running = self.queue.holdings.get(application_id)
        return running.group if running is not None else (self.choices or {}).get(application_id)

    def forget_choice(self, application_id: str) -> None:
        """Drop the choice made for an application before its first usage: from now on it is known by its holding."""
        if self.choices is not None and application_id in self.choices:
            # If the application is withdrawn again, the choice has to be there for its next first usage.
            self.queue.in_force.lock.undo.append((self.restore_choices, (self.choices,)))
            left = {name: group for name, group in self.choices.items() if name != application_id}
            self.choices = left or None

    def restore_choices(self, choices: Mapping[str, QueueTracker | None] | None) -> None:
        """Undo ``forget_choice``, given the choices that there were."""
        self.choices = choices

    def forget_choices_made(self) -> None:
        """Drop the choices of running applications, which an interruption may have left."""
        left = {name: group for name, group in (self.choices or {}).items() if name not in self.queue.holdings}
        self.choices = left or None

    # Changing

    def increase_resource(self, queue_path: str, application_id: str, usage: Resource) -> bool:
        """Charge *usage* to the user and to the group of the application, or to neither.

        An application for which no group was chosen before its first usage is charged to none.
        See `QueueTracker.increase_resource` for what is returned and raised.
        """
        return self.queue.in_force.lock.run(self._increase, queue_path, application_id, usage)

    def _increase(self, queue_path: str, application_id: str, usage: Resource) -> bool:
        charged = self.queue.increase_locked(queue_path, application_id, usage, self.chosen(application_id))
        if charged:
            self.forget_choice(application_id)
        return charged
