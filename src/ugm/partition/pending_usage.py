"""The pending work of users, groups and queues, compared with its limits.

Each maximum in force for some application has an *account*: the number and the sum of the pending requests, and the
number of submitted applications. There are accounts only while a configuration limits pending work.

Invariant: the accounts follow from the applications, their pending allocations and the limits in force. They are
recounted when the configuration changes and after an interruption.

The cost: a request, its end, a submission and the end of an application take time proportional to the number of queues
above. Grants of new allocations and releases of held ones cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol, final

from ugm.decision import EffectiveLimit, Violation
from ugm.identity import UserGroup
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.pending_limits import (
    PENDING_KINDS,
    SUBMITTED_KINDS,
    AccountKey,
    PendingLimits,
    PendingMaximum,
    PendingViolation,
)
from ugm.resources import Resource, smallest_amounts

__all__ = ["PendingHeadroom", "PendingUsage", "SelectGroup"]


class SelectGroup(Protocol):
    """The choice of the group of an application that has not run yet."""

    def __call__(self, queue_path: str, groups: tuple[str, ...], /) -> str | None:
        """Return the group that a member of *groups* would be charged to; None for none."""
        ...


class PendingHeadroom(NamedTuple):
    """The pending work that a subject may still add; None where nothing limits it.

    A number or amount is negative if a limit was reduced below the pending work.
    """

    #: The number of further requests.
    requests: int | None = None
    #: The sum of their amounts, for each limited resource.
    resources: Resource | None = None
    #: The number of further applications.
    applications: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the headroom for JSON, with the names of its attributes."""
        return {**self._asdict(), "resources": None if self.resources is None else dict(self.resources)}


@final
class _Account:
    """The pending work that counts for one maximum."""

    __slots__ = ("amounts", "maximum", "requests", "submitted")

    def __init__(self, maximum: PendingMaximum) -> None:
        self.maximum: Final = maximum
        self.requests = 0
        self.submitted = 0
        #: The sum of the requested amounts of the limited resources.
        self.amounts = dict.fromkeys(maximum.resources or (), 0)

    def add(self, usage: Resource, sign: int) -> None:
        """Count a pending request, or with the sign -1 its end."""
        self.requests += sign
        for name in self.amounts:
            self.amounts[name] += sign * usage.get(name, 0)

    def is_empty(self) -> bool:
        """Return whether nothing counts."""
        return not self.requests and not self.submitted

    def of_request(self, key: AccountKey, usage: Resource, number: int) -> Iterator[Violation]:
        """Yield the maxima that a request would exceed; with no amounts and the number 0, those exceeded now."""
        maximum, kind = self.maximum, PENDING_KINDS[key.kind]
        where = key.name, key.queue_path, maximum.limit_name
        if maximum.requests and self.requests + number > maximum.requests:
            yield PendingViolation(kind, *where, None, maximum.requests, self.requests, number)
        for name, limit in (maximum.resources or {}).items():
            amount, used = usage.get(name, 0), self.amounts[name]
            if used + amount > limit and (amount or not number):
                yield PendingViolation(kind, *where, name, limit, used, amount)

    def of_submission(self, key: AccountKey, number: int) -> Iterator[Violation]:
        """Yield the number of submitted applications if more would exceed it, or exceed it already."""
        limit, kind = self.maximum.submitted, SUBMITTED_KINDS[key.kind]
        if limit and self.submitted + number > limit:
            where = key.name, key.queue_path, self.maximum.limit_name
            yield PendingViolation(kind, *where, None, limit, self.submitted, number)

    def limits(self, key: AccountKey) -> Iterator[EffectiveLimit]:
        """Yield the maximum with what counts for it: of requests, and of submitted applications."""
        maximum, usage = self.maximum, Resource(self.amounts)
        where = key.name, key.queue_path, maximum.limit_name, maximum.place
        if maximum.requests or maximum.resources is not None:
            requests = self.requests if maximum.requests else 0
            kind = PENDING_KINDS[key.kind]
            yield EffectiveLimit(kind, *where, maximum.resources, maximum.requests, usage, requests)
        if maximum.submitted:
            kind = SUBMITTED_KINDS[key.kind]
            yield EffectiveLimit(kind, *where, None, maximum.submitted, Resource(), self.submitted)


@final
class PendingUsage:
    """The pending work of one partition.

    Args:
        limits: the limits on pending work.
        select_group: chooses the group of an application that has not run yet.
        applications: all applications.
    """

    __slots__ = ("_accounts", "_limits", "_select_group")

    def __init__(
        self, limits: PendingLimits, select_group: SelectGroup, applications: Iterable[Application] = ()
    ) -> None:
        self._limits: Final = limits
        self._select_group: Final = select_group
        self._accounts: Final[dict[AccountKey, _Account]] = {}
        for application in applications:
            self.add_application(application)
            for entry in application.pending.values():
                self.replace(application, None, entry)

    # Changes

    def add_application(self, application: Application) -> None:
        """Count a submitted application."""
        self._change(application, lambda account: _submit(account, 1))

    def remove_application(self, application: Application) -> None:
        """Stop counting an application."""
        self._change(application, lambda account: _submit(account, -1))

    def replace(self, application: Application, before: LedgerEntry | None, after: LedgerEntry | None) -> None:
        """Count a pending entry of an application in place of another one; None for none."""
        if before is not None:
            gone = before.usage
            self._change(application, lambda account: account.add(gone, -1))
        if after is not None:
            new = after.usage
            self._change(application, lambda account: account.add(new, 1))

    def _change(self, application: Application, change: Callable[[_Account], None]) -> None:
        for key, maximum in self._maxima_of(application):
            account = self._accounts.get(key)
            if account is None:
                account = self._accounts[key] = _Account(maximum)
            change(account)
            if account.is_empty():
                del self._accounts[key]

    def _maxima_of(self, application: Application) -> Iterator[tuple[AccountKey, PendingMaximum]]:
        user, path = application.submission.user, application.queue.queue_path
        if application.has_chosen_group:
            return self._limits.maxima(path, user.name, application.group)
        return self._maxima(path, user)

    def _maxima(self, queue_path: str, user: UserGroup) -> Iterator[tuple[AccountKey, PendingMaximum]]:
        return self._limits.maxima(queue_path, user.name, self._select_group(queue_path, user.groups))

    # Queries

    def of_request(self, application: Application, usage: Resource) -> tuple[Violation, ...]:
        """Return every limit that one more pending request of an application would exceed."""
        found = self._with_accounts(self._maxima_of(application))
        return tuple(violation for key, account in found for violation in account.of_request(key, usage, 1))

    def of_submission(self, queue_path: str, user: UserGroup) -> tuple[Violation, ...]:
        """Return every limit that one more application would exceed."""
        found = self._with_accounts(self._maxima(queue_path, user))
        return tuple(violation for key, account in found for violation in account.of_submission(key, 1))

    def exceeded(self) -> Iterator[Violation]:
        """Yield every limit that is exceeded, by queue, kind and name."""
        for key, account in sorted(self._accounts.items(), key=lambda item: item[0]):
            yield from account.of_request(key, Resource(), 0)
            yield from account.of_submission(key, 0)

    def limits(self, subject: Application | tuple[str, UserGroup]) -> tuple[EffectiveLimit, ...]:
        """Return every limit for an application, or for a queue and a user."""
        return tuple(limit for key, account in self._of(subject) for limit in account.limits(key))

    def headroom(self, subject: Application | tuple[str, UserGroup]) -> PendingHeadroom:
        """Return what an application, or a user in a queue, may add."""
        accounts = [account for _, account in self._of(subject)]
        return PendingHeadroom(
            min((one.maximum.requests - one.requests for one in accounts if one.maximum.requests), default=None),
            smallest_amounts(
                (name, limit - one.amounts[name])
                for one in accounts
                for name, limit in (one.maximum.resources or {}).items()
            ),
            min((one.maximum.submitted - one.submitted for one in accounts if one.maximum.submitted), default=None),
        )

    def _of(self, subject: Application | tuple[str, UserGroup]) -> Iterator[tuple[AccountKey, _Account]]:
        maxima = self._maxima(*subject) if isinstance(subject, tuple) else self._maxima_of(subject)
        return self._with_accounts(maxima)

    def _with_accounts(
        self, maxima: Iterable[tuple[AccountKey, PendingMaximum]]
    ) -> Iterator[tuple[AccountKey, _Account]]:
        return ((key, self._accounts.get(key) or _Account(maximum)) for key, maximum in maxima)

    def state(self) -> dict[AccountKey, tuple[int, int, dict[str, int]]]:
        """Return the numbers of every account, for a comparison."""
        return {key: (one.requests, one.submitted, dict(one.amounts)) for key, one in self._accounts.items()}


def _submit(account: _Account, sign: int) -> None:
    account.submitted += sign
