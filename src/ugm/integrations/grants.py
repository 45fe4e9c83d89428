"""Grants of a host: what every adapter does with a partition.

The problem: a host starts and ends work, may be killed between any two steps, and shares a partition with other hosts.
The ledger must agree with what the host runs, and a host must keep running when the partition cannot be reached.

The idea: the host decides what runs, and the ledger remembers the grants. `Grants` holds no state of its own but
whether the two have been compared. The ids of a host get its name as a prefix, so every operation can be repeated, and
hosts do not touch each other's work. `Grants.keep_reconciled` compares again and again, and is the only loop that
retries.

Invariants: nothing is granted before the first comparison. A comparison ends only work that the ledger had before the
host listed its own, and that is not tentative: a grant is tentative until the host or a watcher has seen the work.
If the partition cannot be reached, a grant is denied, unless the host wants otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from fractions import Fraction
from inspect import isawaitable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from ugm.decision import Decision, Violation, amount_for_people
from ugm.errors import RequestError, UgmError, printable, time_text
from ugm.identity import UserGroup
from ugm.integrations.sources import PartitionSource
from ugm.model import AccountState
from ugm.partition import (
    AbstractPartition,
    Admission,
    AllocationSpec,
    AllocationState,
    OwnedAllocation,
    Partition,
    RunningApplication,
    SyncReport,
    UserInQueue,
)
from ugm.resources import Resource
from ugm.store import StoredPartition

_T = TypeVar("_T")
_Specs: TypeAlias = Iterable[AllocationSpec | tuple[str, Resource]]

_LOGGER: Final = logging.getLogger(__name__)

#: The seconds between two attempts to compare, while the partition cannot be reached.
_PAUSE: Final = 2.0
_OUTAGE: Final = "The quota service is not available, so nothing can be started now. Try again in a few minutes."
_NOT_READY: Final = "The quota service is not ready, so nothing can be started yet. Try again in a minute."


class Remedy(StrEnum):
    """The event that can help after a denial."""

    #: The end of other work.
    RELEASE = "release"
    #: A later time: a budget is renewed, or a limit rises.
    RENEWAL = "renewal"
    #: Nothing but a smaller request or a higher limit.
    NOTHING = "nothing"
    #: The quota service has to answer again.
    SERVICE = "service"


class GrantDeniedError(UgmError):
    """Work is not granted.

    Attributes:
        text: sentences for end users, in one line.
        remedy: what can help.
        decision: the answer of the partition; None if there is none.
    """

    code = "grant-denied"

    def __init__(self, text: str, remedy: Remedy, decision: Admission | Decision | None = None) -> None:
        super().__init__(text, remedy, decision)
        self.text: Final = text
        self.remedy: Final = remedy
        self.decision: Final = decision

    @classmethod
    def of(cls, denial: Admission | Decision) -> GrantDeniedError:
        """Return the error of a denial."""
        return cls(" ".join(denial.for_people().split()), _remedy(_violations(denial)), denial)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The limits that the work would exceed."""
        return () if self.decision is None else _violations(self.decision)

    def __str__(self) -> str:
        return printable(self.text)


class Work(NamedTuple):
    """The work of a host at one moment. All ids are those of the host, without its prefix."""

    #: The work that runs. An empty ``queue_path`` stands for the queue in the ledger, or that of the placement rules.
    running: Iterable[RunningApplication] = ()
    #: The ids of applications and allocations that are about to run, or that wait.
    starting: Iterable[str] = ()


#: Returns the work of a host; it gets what the ledger holds for the host, by the ids of the allocations.
ListWork: TypeAlias = Callable[[Mapping[str, OwnedAllocation]], Work | Awaitable[Work]]


class Grants:
    """The grants of one host, for asyncio.

    Args:
        source: the partition, or a `quota_source`. Blocking clients of a service would stop the event loop; use
            `quota_source` for a service.
        host: the name of the host: the prefix of all ids.
        tentative: the seconds after which a grant that no `reconcile` or `confirm` has seen may be released; None if
            the host always knows what it is about to start. A tentative grant without a duration promises to end then.
        fails_open: whether work may start while the partition cannot be reached. It is adopted later.
        clock: returns the seconds since 1970.

    Attributes:
        is_ready: whether the ledger has been compared with the work of the host.
    """

    def __init__(
        self,
        source: PartitionSource | AbstractPartition,
        host: str,
        *,
        tentative: int | None = None,
        fails_open: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.is_ready: bool = False
        self._source: Final = source
        self._host: Final = host
        self._prefix: Final = f"{host}/"
        self._tentative: Final = tentative
        self._fails_open: Final = fails_open
        self._clock: Final = clock
        self._released: Final = asyncio.Event()
        self._repair: Final = asyncio.Event()
        #: The allocations whose end could not be recorded. The host does not list them, but they may be pending.
        self._unrecorded: Final[set[str]] = set()
        #: The applications, and the allocations, that have ended since the work was listed; None if no comparison is
        #: under way.
        self._ended: tuple[set[str], set[str]] | None = None

    async def run(self, operation: Callable[[AbstractPartition], _T]) -> _T:
        """Call an operation of the partition, and return its result.

        >>> await grants.run(lambda partition: partition.limits("jupyterhub/ana"))  # doctest: +SKIP
        """
        partition = await self._partition()
        if isinstance(partition, StoredPartition):
            return await partition.awaited(operation, partition)
        result = operation(partition)
        return cast("_T", await result) if isawaitable(result) else result

    async def _partition(self) -> AbstractPartition:
        return self._source if isinstance(self._source, AbstractPartition) else await self._source()

    def ledger_id(self, name: str) -> str:
        """Return the id in the ledger of work of the host, for `run`."""
        return self._prefix + name

    # Grants

    async def grant(
        self,
        application_id: str,
        user: UserGroup,
        queue: str = "",
        allocations: _Specs = (),
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        duration: int | None = None,
    ) -> None:
        """Grant an application with its allocations, or change nothing. Repetitions change nothing.

        Args:
            application_id: the id of the work in the host.
            user: the owner.
            queue: as for `ugm.partition.AbstractPartition.submit`.
            allocations: as for `ugm.partition.AbstractPartition.admit`.
            tags: as for `ugm.partition.AbstractPartition.submit`.
            quota: as for `ugm.partition.AbstractPartition.submit`.
            duration: the number of seconds that the host lets the work run; None if it has no limit.

        Raises:
            GrantDeniedError: a limit does not allow it, or the partition cannot be reached.
            RequestError: an argument is invalid, or an id is in use with other properties.
        """
        specs = self._specs(allocations, duration)
        await self._granted(
            lambda partition: partition.admit(self._prefix + application_id, user, queue, specs, tags=tags, quota=quota)
        )

    async def extend(
        self, application_id: str, allocations: _Specs, *, duration: int | None = None, waits: bool = False
    ) -> None:
        """Grant further allocations of an application, all or none.

        Args:
            application_id: as for `grant`.
            allocations: as for `grant`.
            duration: as for `grant`.
            waits: whether denied allocations become pending requests, for `wait`. `release` withdraws them.

        Raises:
            GrantDeniedError: as for `grant`, or the ledger does not know the application until the next comparison.
            RequestError: as for `grant`.
        """
        requests = [spec.request(self._prefix + application_id) for spec in self._specs(allocations, duration)]
        try:
            await self._granted(lambda partition: partition.allocate_all(requests))
        except RequestError as error:
            if error.code != "application-unknown":
                raise
            self._repair.set()
            raise GrantDeniedError(_NOT_READY, Remedy.SERVICE) from error
        except GrantDeniedError as denial:
            for one in requests if waits and denial.decision is not None else ():
                try:
                    await self.run(lambda partition, one=one: partition.request(one))  # type: ignore[misc]
                except Exception as error:  # noqa: BLE001 - the host asks again after a while
                    _LOGGER.warning("%s: %s does not wait: %s", self._host, one.allocation_id, error)
            raise

    async def _granted(self, operation: Callable[[AbstractPartition], Admission | Decision]) -> None:
        """Call an operation that grants.

        Raises:
            GrantDeniedError: it is denied, or the partition cannot be reached.
            RequestError: an argument is invalid.
        """
        if not self.is_ready and not self._fails_open:
            raise GrantDeniedError(_NOT_READY, Remedy.SERVICE)
        try:
            answer = await self.run(operation)
        except RequestError:
            raise
        except Exception as error:
            self._repair.set()
            if self._fails_open:
                _LOGGER.warning("%s: granted without a check: %s", self._host, error)
                return
            _LOGGER.warning("%s: denied without a check: %s", self._host, error)
            raise GrantDeniedError(_OUTAGE, Remedy.SERVICE) from error
        if not answer:
            raise GrantDeniedError.of(answer)

    def _specs(self, allocations: _Specs, duration: int | None) -> list[AllocationSpec]:
        default = self._tentative if duration is None else duration
        specs = [AllocationSpec(*item) for item in allocations]
        return [
            spec._replace(
                allocation_id=self._prefix + spec.allocation_id,
                duration=default if spec.duration is None else spec.duration,
            )
            for spec in specs
        ]

    async def confirm(self, application_id: str) -> None:
        """Make a tentative grant last, because its work has been seen. Other grants do not change."""
        name = self._prefix + application_id
        if self._tentative is None:
            return
        with suppress(RequestError):  # it has ended
            held = await self.run(lambda partition: partition.allocations(name))
            await self._confirm(one.allocation_id for one in held if one.duration == self._tentative)

    async def _confirm(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(RequestError):  # it has ended
                decision = await self.run(lambda partition, name=name: partition.renew(name, None))  # type: ignore[misc]
                if not decision:
                    _LOGGER.warning("%s runs without a promised end: %s", name, decision.summary)

    # Ends

    async def release(self, allocation_id: str) -> None:
        """End an allocation. If the partition cannot be reached, the next comparison ends it."""
        if self._ended is not None:
            self._ended[1].add(self._prefix + allocation_id)
        name = self._prefix + allocation_id
        if not await self._end(lambda partition: partition.release(name)):
            self._unrecorded.add(name)

    async def end(self, application_id: str) -> None:
        """End an application with all of its allocations. If the partition cannot be reached, a comparison does so."""
        if self._ended is not None:
            self._ended[0].add(self._prefix + application_id)
        await self._end(lambda partition: partition.end(self._prefix + application_id))

    async def _end(self, operation: Callable[[AbstractPartition], bool]) -> bool:
        """Record an end, and return whether the partition could be reached."""
        try:
            await self.run(operation)
        except RequestError:
            raise
        except Exception as error:  # noqa: BLE001 - the next comparison repairs it
            _LOGGER.warning("%s: an end is not recorded yet: %s", self._host, error)
            self._repair.set()
            return False
        finally:
            self._released.set()
        return True

    async def wait(self, seconds: float) -> bool:
        """Wait until a pending request may fit, or this object has released something, and return whether that is so.

        A limit on pending work may have denied the request, and budgets allow more with time, so a host asks again
        after *seconds*, too. Only one task may wait.
        """
        woken = asyncio.ensure_future(self._wake())
        try:
            return await _is_set(self._released, seconds)
        finally:
            woken.cancel()

    async def _wake(self) -> None:
        """Wait until a pending request of the host may fit, and end `wait`."""
        try:
            waiting_list = cast("Partition", await self._partition()).waiting_list()
            while not any(one.allocation_id.startswith(self._prefix) for one in await waiting_list.woken()):
                pass
            self._released.set()
        except Exception as error:  # noqa: BLE001 - the host asks again after a while
            _LOGGER.warning("%s: no request is woken now: %s", self._host, error)

    # Comparison

    async def reconcile(self, list_work: ListWork) -> SyncReport:
        """Make the ledger agree with the work of the host, and return the differences.

        Args:
            list_work: returns the work of the host.

        Raises:
            RequestError: the work has invalid values, or belongs to another user.
            UgmError: the partition cannot be reached.
        """
        applications = {one.application_id: one for one in await self.run(lambda p: p.applications())}
        allocations = await self.run(lambda p: p.allocations())
        for one in allocations:
            if one.state is AllocationState.PENDING and one.allocation_id in self._unrecorded:
                await self.run(lambda partition, name=one.allocation_id: partition.release(name))  # type: ignore[misc]
        self._unrecorded.clear()
        held = {
            one.allocation_id.removeprefix(self._prefix): OwnedAllocation(
                one, owner.user.name, owner.group, owner.queue_path
            )
            for one in allocations
            if one.state is not AllocationState.PENDING
            and one.allocation_id.startswith(self._prefix)
            and (owner := applications.get(one.application_id))
        }
        known = {name: one.queue_path for name, one in applications.items() if name.startswith(self._prefix)}
        ended = self._ended = set(), set()
        try:
            listed = list_work(held)
            work = await listed if isawaitable(listed) else listed
            running = [
                await self._prefixed(item, known.get(self._prefix + item.application_id)) for item in work.running
            ]
            report = await self._synchronize(running, work.starting, held, known)
            await self._end_again(report, *ended)
        finally:
            self._ended = None
        self._log(report, running)
        self.is_ready = True
        if report.released or report.ended:
            self._released.set()
        return report

    async def _end_again(self, report: SyncReport, applications: set[str], allocations: set[str]) -> None:
        """End what was adopted although it had ended after the host listed its work."""
        for name in applications.intersection(report.adopted_applications):
            await self.run(lambda partition, name=name: partition.end(name))  # type: ignore[misc]
        for name in allocations.intersection(report.adopted):
            await self.run(lambda partition, name=name: partition.release(name))  # type: ignore[misc]

    async def _synchronize(
        self,
        running: list[RunningApplication],
        starting: Iterable[str],
        held: Mapping[str, OwnedAllocation],
        known: Iterable[str],
    ) -> SyncReport:
        among = [*known, *(self._prefix + name for name in held)]
        names = [self._prefix + name for name in (*starting, *filter(lambda name: self._is_young(held[name]), held))]
        report = await self.run(lambda partition: partition.synchronize(running, starting=names, among=among))
        if self._tentative is not None:
            seen = {spec[0].removeprefix(self._prefix) for item in running for spec in item.allocations}
            await self._confirm(
                self._prefix + name for name in seen & held.keys() if held[name].allocation.duration == self._tentative
            )
        return report

    def _is_young(self, owned: OwnedAllocation) -> bool:
        """Return whether an allocation was granted so recently that its work may not be visible yet."""
        until, duration = owned.allocation.until, owned.allocation.duration
        if self._tentative is None or until is None or duration is None:
            return False
        return self._clock() < until - duration + self._tentative

    async def _prefixed(self, item: RunningApplication, queue_path: str | None) -> RunningApplication:
        path = queue_path or await self._queue_of(item)
        specs = [AllocationSpec(*spec) for spec in item.allocations]
        return item._replace(
            application_id=self._prefix + item.application_id,
            queue_path=path,
            allocations=[spec._replace(allocation_id=self._prefix + spec.allocation_id) for spec in specs],
        )

    async def _queue_of(self, item: RunningApplication) -> str:
        """Return the queue of work that the ledger does not know. It runs already, so it gets one in any case."""
        placement = await self.run(lambda partition: partition.place(item.user, item.queue_path, item.tags))
        if placement.queue_path is not None:
            return placement.queue_path
        return item.queue_path if item.queue_path.startswith("root.") else f"root.{self._host}"

    def _log(self, report: SyncReport, running: Iterable[RunningApplication]) -> None:
        if not report:
            return
        _LOGGER.warning("%s: the ledger was corrected: %s", self._host, "; ".join(str(report).splitlines()))
        adopted = {*report.adopted_applications}
        if nameless := [one.application_id for one in running if one.application_id in adopted and not one.user.groups]:
            _LOGGER.warning("%s: adopted without groups: %s", self._host, ", ".join(nameless))

    async def keep_reconciled(self, list_work: ListWork, *, every: float = 60.0) -> None:
        """Compare now, every *every* seconds, and soon after an operation that failed; until this is cancelled."""
        failure = ""
        while True:
            self._repair.clear()
            try:
                await self.reconcile(list_work)
            except Exception as error:
                if failure != (failure := repr(error)):  # an outage is one line, however long it takes
                    is_known = isinstance(error, UgmError | OSError)
                    _LOGGER.warning(
                        "%s: the ledger cannot be compared yet: %s", self._host, error, exc_info=not is_known
                    )
                await asyncio.sleep(_PAUSE)
            else:
                failure = ""
                await _is_set(self._repair, every)

    # Forms

    async def remaining_text(self, user: UserGroup, queue: str = "", *, tags: Mapping[str, str] | None = None) -> str:
        """Return what a user may still start and use, in one line for end users; empty if nothing is limited.

        If the partition cannot be reached, the line says so.
        """
        try:
            path = (await self.run(lambda partition: partition.place(user, queue, tags))).queue_path
            place = UserInQueue(user, path, tags) if path else None
            headroom = await self.run(lambda partition: partition.headroom(place)) if place else None
            accounts = await self.run(lambda partition: partition.budget_accounts(user, path))
        except RequestError:
            raise
        except Exception as error:  # noqa: BLE001 - a form must be shown
            _LOGGER.warning("%s: the remaining amounts are unknown: %s", self._host, error)
            return _OUTAGE
        return remaining_text(headroom, accounts)


class BlockingGrants:
    """The grants of one host, for threads.

    Args:
        partition: a partition in memory, with a store, or of `ugm.service.connect`.
        host: as for `Grants`.
        tentative: as for `Grants`.
        fails_open: as for `Grants`.
    """

    def __init__(
        self, partition: AbstractPartition, host: str, *, tentative: int | None = None, fails_open: bool = False
    ) -> None:
        self._grants: Final = _DirectGrants(partition, host, tentative=tentative, fails_open=fails_open)

    @property
    def is_ready(self) -> bool:
        """True if the ledger has been compared with the work of the host."""
        return self._grants.is_ready

    def grant(
        self,
        application_id: str,
        user: UserGroup,
        queue: str = "",
        allocations: _Specs = (),
        *,
        tags: Mapping[str, str] | None = None,
        duration: int | None = None,
    ) -> None:
        """See `Grants.grant`."""
        _result(self._grants.grant(application_id, user, queue, allocations, tags=tags, duration=duration))

    def extend(self, application_id: str, allocations: _Specs, *, duration: int | None = None) -> None:
        """See `Grants.extend`."""
        _result(self._grants.extend(application_id, allocations, duration=duration))

    def confirm(self, application_id: str) -> None:
        """See `Grants.confirm`."""
        _result(self._grants.confirm(application_id))

    def release(self, allocation_id: str) -> None:
        """See `Grants.release`."""
        _result(self._grants.release(allocation_id))

    def end(self, application_id: str) -> None:
        """See `Grants.end`."""
        _result(self._grants.end(application_id))

    def reconcile(self, list_work: Callable[[Mapping[str, OwnedAllocation]], Work]) -> SyncReport:
        """See `Grants.reconcile`."""
        return _result(self._grants.reconcile(list_work))

    def remaining_text(self, user: UserGroup, queue: str = "", *, tags: Mapping[str, str] | None = None) -> str:
        """See `Grants.remaining_text`."""
        return _result(self._grants.remaining_text(user, queue, tags=tags))


class _DirectGrants(Grants):
    """Grants whose operations never wait for an event loop."""

    async def run(self, operation: Callable[[AbstractPartition], _T]) -> _T:
        return operation(cast("AbstractPartition", self._source))


def _result(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast("_T", end.value)
    coroutine.close()
    raise RequestError("partition", None, "expected a blocking partition")


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, clear it, and return whether it was set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    was_set = event.is_set()
    event.clear()
    return was_set


def _violations(denial: Admission | Decision) -> tuple[Violation, ...]:
    if isinstance(denial, Decision):
        return denial.violations
    return denial.placement.violations if denial.decision is None else denial.decision.violations


def _remedy(violations: tuple[Violation, ...]) -> Remedy:
    if not violations or not all(violation.can_wait for violation in violations):
        return Remedy.NOTHING
    is_later = any(violation.kind == "budget" or violation.rise is not None for violation in violations)
    return Remedy.RENEWAL if is_later else Remedy.RELEASE


def remaining_text(headroom: Resource | None, accounts: Iterable[AccountState] = ()) -> str:
    """Return what a user may still start and use, in one line; empty if nothing is limited.

    Args:
        headroom: the amounts that may be requested now; None if no resource is limited.
        accounts: the budgets that count the work of the user. Of several for one resource, the smallest rest counts.

    >>> from ugm import Resource
    >>> remaining_text(Resource(vcore=2500, memory=2**33, gpu=1))
    'You can still start: 1 GPU, 8 GiB of memory, 2.5 cores.'
    >>> remaining_text(Resource(gpu=0))
    'You can still start: 0 GPUs.'
    """
    sentences = []
    if headroom:
        amounts = ", ".join(amount_for_people(name, amount) for name, amount in sorted(headroom.items()))
        sentences.append(f"You can still start: {amounts}.")
    smallest: dict[str, AccountState] = {}
    for account in accounts:
        known = smallest.get(account.resource)
        if known is None or account.remaining < known.remaining:
            smallest[account.resource] = account
    sentences += [_budget_sentence(smallest[name]) for name in sorted(smallest)]
    return printable(" ".join(sentences))


def _budget_sentence(account: AccountState) -> str:
    rest = amount_for_people(account.resource, Fraction(max(account.remaining, 0), 3600), "hours")
    until = "" if account.renews is None else f" until {time_text(account.renews)}"
    return f"You can still use{until}: {rest}."
