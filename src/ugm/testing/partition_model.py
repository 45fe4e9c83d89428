"""A naive model of a whole partition: every operation as a change of two lists, of applications and of allocations.

Every answer is computed from the lists; see `ugm.testing.partition_model_state`. The operations have the names and
arguments of the operations of a `ugm.Partition`. They expect arguments of the right type, and raise
`ugm.RequestError` where the partition does.

Source: Apache YuniKorn, user based resource usage tracking; user based quota enforcement; resource quota management.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from ugm.configuration import PartitionConfig
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import ROOT, UserGroup
from ugm.partition import Allocation, AllocationRequest, AllocationState, ApplicationState, Difference, Running
from ugm.resources import Resource
from ugm.testing.partition_model_state import UNCHOSEN, PartitionModelState, SubmittedApplication
from ugm.testing.tracker_model import Place

__all__ = ["PartitionModel"]

_PENDING: Final = AllocationState.PENDING


@final
@dataclass
class PartitionModel(PartitionModelState):
    """One partition, by the book.

    >>> from ugm import TrackingType
    >>> model = PartitionModel()
    >>> model.adopt_application("app-1", UserGroup("sue"), "root.prod")
    >>> model.allocate("x-1", "app-1", Resource(memory=4))
    ()
    >>> model.usage(Place(TrackingType.QUEUE, "root", "root"))
    Resource(memory=4)
    """

    # The life of applications

    def submit(
        self,
        application_id: str,
        user: UserGroup,
        queue: str = "",
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
    ) -> tuple[str | None, bool]:
        """Place an application, and return its queue, None for none, and whether that was made."""
        new = SubmittedApplication(application_id, user, queue, tags or {}, gang_style, "")
        if self._is_known(new, quota):
            return self.applications[application_id].queue_path, False
        path = self.queues.place(user, queue, new.tags)
        if path is None:
            return None, False
        creates = path not in self.queues.paths()
        self.queues.create(path)
        self.queues.annotate(path, quota)
        self.applications[application_id] = new._replace(queue_path=path)
        return path, creates

    def adopt_application(
        self,
        application_id: str,
        user: UserGroup,
        queue_path: str,
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
        group: str | None = UNCHOSEN,
    ) -> None:
        """List an application where it was."""
        path = queue_path.lower()
        if path == ROOT:
            raise RequestError("queue_path", queue_path, "the root takes no applications")
        new = SubmittedApplication(application_id, user, path, tags or {}, gang_style, path, group, is_adopted=True)
        if self._is_known(new, quota):
            return
        self.queues.create(path)
        self.queues.annotate(path, quota)
        self.applications[application_id] = new

    def set_queue_quota(self, queue_path: str, quota: Resource) -> None:
        """Give a queue that the configuration does not name another quota."""
        if queue_path.lower() not in self.queues.made:
            raise RequestError("queue_path", queue_path, "the configuration names it, or nobody does")
        self.queues.annotate(queue_path.lower(), quota)

    def _is_known(self, new: SubmittedApplication, quota: Resource | None) -> bool:
        """Return whether an application was submitted before; if so, the quota still counts.

        The queue may be named as it was, or be the one that was found; what was adopted may be submitted in any way.
        """
        known = self.applications.get(new.application_id)
        if known is None and self.closed:
            raise RequestError("application_id", new.application_id, "the partition is being removed")
        if known is None:
            return False
        as_before = new.queue.lower() in (known.queue.lower(), known.queue_path)
        same = as_before and (new.tags, new.gang_style) == (known.tags, known.gang_style)
        if new.user.name != known.user.name or not (same or known.is_adopted):
            raise RequestError("application_id", new.application_id, "submitted otherwise")
        self.queues.annotate(known.queue_path, quota)
        return True

    def _application(self, application_id: str) -> SubmittedApplication:
        if application_id not in self.applications:
            raise RequestError("application_id", application_id, "there is no such application")
        return self.applications[application_id]

    def _change(self, application_id: str, **changes: Any) -> None:  # noqa: ANN401 - whatever fields there are
        self.applications[application_id] = self.applications[application_id]._replace(**changes)

    def _settle(self, application_id: str) -> None:
        """Stop an application that holds nothing and has nothing pending, and forget it if it has failed."""
        pending, failing = self.entries(application_id, pending=True), self.applications[application_id].failing
        if self.entries(application_id) or (pending and not failing):
            return
        self._change(application_id, running=False)
        if failing:
            self._forget(application_id)

    def _forget(self, application_id: str) -> None:
        del self.applications[application_id]
        self.held = {name: one for name, one in self.held.items() if one.application_id != application_id}
        self.queues.prune({app.queue_path for app in self.applications.values()})

    def complete(self, application_id: str) -> ApplicationState:
        """Forget an application that has nothing."""
        self._application(application_id)
        if self.entries(application_id) or self.entries(application_id, pending=True):
            raise RequestError("application_id", application_id, "the application has something")
        self._forget(application_id)
        return ApplicationState.COMPLETED

    def fail(self, application_id: str) -> list[str]:
        """Let an application fail, and return what has to go, sorted."""
        self._application(application_id)
        self._change(application_id, failing=True)
        self.held = {
            name: one
            for name, one in self.held.items()
            if one.application_id != application_id or one.state is not _PENDING
        }
        told = self._tell_to_go(self.entries(application_id))
        self._settle(application_id)
        return told

    def _tell_to_go(self, going: Iterable[Allocation]) -> list[str]:
        for one in going:
            self.held[one.allocation_id] = one._replace(state=AllocationState.TERMINATING)
        return sorted(one.allocation_id for one in going)

    def remove(self, application_id: str) -> list[str]:
        """Forget an application with all that it holds, and return that, sorted."""
        self._application(application_id)
        held = self.entries(application_id)
        self._forget(application_id)
        return sorted(one.allocation_id for one in held)

    def time_out_gang(self, application_id: str) -> list[str]:
        """Wait no longer for a gang, and return what has to go, sorted."""
        application, held = self._application(application_id), self.entries(application_id)
        pending = [one for one in self.entries(application_id, pending=True) if one.placeholder]
        placeholders = [one for one in held if one.placeholder]
        unused = placeholders == held and not application.has_replaced
        if (pending or placeholders) and application.gang_style == "hard" and unused:
            return self.fail(application_id)
        for one in pending:
            self.release(one.allocation_id)
        return self._tell_to_go(placeholders)

    def close(self) -> list[str]:
        """Let everything fail, and return what has to go, sorted."""
        self.closed = True
        return sorted(name for application_id in list(self.applications) for name in self.fail(application_id))

    # Allocations

    def _entry(self, request: AllocationRequest, state: AllocationState = AllocationState.HELD) -> Allocation:
        self._application(request.application_id)
        if any(amount < 0 for amount in request.usage.values()):
            raise RequestError("usage", request.usage, "an amount is negative")
        return Allocation(*request[:3], state, *request[3:])

    def _is_repeated(self, one: Allocation, *, known: Allocation | None = None) -> bool:
        known = known or self.held.get(one.allocation_id)
        if known is not None and known != one._replace(state=known.state):
            raise RequestError("allocation_id", one.allocation_id, "the id stands for another allocation")
        return known is not None and known.state is not _PENDING

    def _require_welcome(self, application_id: str) -> SubmittedApplication:
        if self.applications[application_id].failing:
            raise RequestError("application_id", application_id, "the application is failing")
        return self.applications[application_id]

    def request(self, *request: Any) -> None:  # noqa: ANN401 - the parts of an Ask
        """Count an allocation as pending."""
        one = self._entry(AllocationRequest(*request), _PENDING)
        self._is_repeated(one)
        if one.allocation_id not in self.held:
            self._require_welcome(one.application_id)
            self.held[one.allocation_id] = one

    def allocate(self, *request: Any) -> tuple[Violation, ...]:  # noqa: ANN401 - the parts of an Ask
        """Grant an allocation if it fits everywhere, and return what is in the way if not."""
        one = self._entry(AllocationRequest(*request))
        if self._is_repeated(one):
            return ()
        application = self._require_welcome(one.application_id)
        violations = self.short(application, one.usage) + self.denied_beside(one)
        if not violations:
            self._grant(one)
        return violations

    def check(self, application_id: str, usage: Resource) -> tuple[Violation, ...]:
        """Return what one more allocation would be told."""
        one = self._entry(AllocationRequest("?", application_id, usage))
        return self.short(self._require_welcome(application_id), usage) + self.denied_beside(one)

    def _grant(self, one: Allocation) -> None:
        group = self.group_of(self.applications[one.application_id])
        self._change(one.application_id, group=group, has_run=True, running=True)
        self.held[one.allocation_id] = one

    def allocate_all(self, allocation_requests: Iterable[AllocationRequest]) -> tuple[Violation, ...]:
        """Grant several allocations, or none, and return what is in the way: with what all of them ask together."""
        wanted: dict[str, Allocation] = {}
        for one in map(self._entry, allocation_requests):
            if not self._is_repeated(one):
                self._require_welcome(one.application_id)
                self._is_repeated(one, known=wanted.setdefault(one.allocation_id, one))
        denied = next((told for at, one in enumerate(wanted.values()) if (told := self._beside(wanted, at, one))), ())
        before = dict(self.applications), dict(self.held)
        found = self._grant_together(wanted.values())
        if found or denied:
            self.applications, self.held = before
        return found + denied

    def _beside(self, wanted: Mapping[str, Allocation], at: int, one: Allocation) -> tuple[Violation, ...]:
        return self.denied_beside(one, coming=list(wanted.values())[:at])

    def _grant_together(self, wanted: Iterable[Allocation]) -> tuple[Violation, ...]:
        """Grant one after the other, and return every limit that was short at some point."""
        asked: dict[Place, dict[str | None, int]] = {}
        short: set[tuple[Place, str | None]] = set()
        for one in wanted:
            application = self.applications[one.application_id]
            short |= {(Place(*told[:3]), told.resource) for told in self.short(application, one.usage)}
            for place in self.places(application):
                sums = asked.setdefault(place, {})
                for name, amount in (*one.usage.items(), (None, 0 if application.running else 1)):
                    sums[name] = sums.get(name, 0) + amount
            self._grant(one)
        return tuple(
            self._together(place, name, amount)
            for place, sums in asked.items()
            for name, amount in sums.items()
            if (place, name) in short
        )

    def _together(self, place: Place, name: str | None, asked: int) -> Violation:
        if name is None:
            return self.violation(place, None, self.most_applications(place), len(self.below(place)) - asked, asked)
        return self.violation(place, name, self.most(place, name) or 0, self.usage(place).get(name, 0) - asked, asked)

    def _counted(self, argument: str, allocation_id: str) -> Allocation:
        known = self.held.get(allocation_id)
        if known is None or known.state is _PENDING:
            raise RequestError(argument, allocation_id, "there is no such allocation")
        return known

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource) -> tuple[Violation, ...]:
        """Put a real allocation in the place of a placeholder, and return what is in the way if that cannot be."""
        known = self.held.get(allocation_id)
        if known is not None and known.state is not _PENDING and placeholder_id not in self.held:
            self._is_repeated(known._replace(usage=usage))
            return ()
        old = self._counted("placeholder_id", placeholder_id)
        if not old.placeholder:
            raise RequestError("placeholder_id", placeholder_id, "the allocation is no placeholder")
        as_asked = known or old
        new = Allocation(allocation_id, old.application_id, usage, old.state, False, *as_asked[5:])  # noqa: FBT003 - a field by position
        new = self._entry(AllocationRequest(*new[:3], *new[4:]))
        if self._is_repeated(new):
            raise RequestError("allocation_id", allocation_id, "the allocation is held beside the placeholder")
        self._require_welcome(old.application_id)
        violations = self._exchange(old, new)
        if not violations:
            self._change(old.application_id, has_replaced=True)
        return violations

    def resize(self, allocation_id: str, usage: Resource) -> tuple[Violation, ...]:
        """Let an allocation take something else, and return what is in the way if that cannot be."""
        old = self._counted("allocation_id", allocation_id)
        self._entry(AllocationRequest(allocation_id, old.application_id, usage))
        if old.usage == usage:
            return ()
        if any(more > 0 for more in (usage - old.usage).values()):
            self._require_welcome(old.application_id)
        return self._exchange(old, old._replace(usage=usage))

    def _exchange(self, old: Allocation, new: Allocation) -> tuple[Violation, ...]:
        """Swap two allocations if what grows fits, and other models take the new one where it is more."""
        growth = Resource({name: more for name, more in (new.usage - old.usage).items() if more > 0})
        violations = tuple(
            told._replace(used=told.used - back, requested=told.requested + back)
            for told in self.short(self.applications[old.application_id], growth)
            for back in [old.usage.get(told.resource or "", 0)]
        )
        if growth or new[5:] != old[5:]:
            violations += self.denied_beside(new, leaving=[old.allocation_id])
        if not violations:
            del self.held[old.allocation_id]
            self._grant(new)
        return violations

    def preempt(self, allocation_id: str) -> bool:
        """Mark an allocation as going, and say whether there is one."""
        return bool(self._tell_to_go([one for one in self.entries() if one.allocation_id == allocation_id]))

    def release(self, allocation_id: str) -> bool:
        """Give an allocation back, or withdraw it, and say whether there was one."""
        gone = self.held.pop(allocation_id, None)
        if gone is not None:
            self._settle(gone.application_id)
        return gone is not None

    def adopt(self, *request: Any) -> tuple[Violation, ...]:  # noqa: ANN401 - the parts of an Ask
        """Count what exists, and return what is exceeded where it counts."""
        one = self._entry(AllocationRequest(*request))
        if not self._is_repeated(one):
            self._grant(one)
        return tuple(self.over(self.places(self.applications[one.application_id])))

    # The configuration and the truth

    def configure(self, config: PartitionConfig | None) -> None:
        """Put another configuration in force."""
        self.queues.configure(config)
        self.queues.prune({app.queue_path for app in self.applications.values()})

    def leaving(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return every queue that has applications and takes none any more, with these."""
        told: dict[str, list[str]] = {}
        for application_id, application in sorted(self.applications.items()):
            told.setdefault(application.queue_path, []).append(application_id)
        leaving = [path for path in sorted(told) if self.queues.is_draining(path) or not self.queues.is_leaf(path)]
        return [(path, tuple(told[path])) for path in leaving]

    def _running(self, allocation_id: str) -> Running | None:
        one = self.held.get(allocation_id)
        return None if one is None or one.state is _PENDING else Running(*one[:3])

    def audit(self, running: Iterable[Running]) -> tuple[Difference, ...]:
        """Return how the ledger differs from what runs."""
        truth = {one.allocation_id: one for one in running}
        ledger = {one.allocation_id: Running(*one[:3]) for one in self.entries()}
        return tuple(
            Difference(ledger.get(name), truth.get(name), name not in truth or truth[name][1] in self.applications)
            for name in sorted({*ledger, *truth})
            if _plain(ledger.get(name)) != _plain(truth.get(name))
        )

    def reconcile(self, differences: Iterable[Difference]) -> tuple[Difference, ...]:
        """Repair what is still so, and return that."""
        return tuple(told for told in differences if self._is_repaired(told))

    def _is_repaired(self, told: Difference) -> bool:
        name, truth = told.allocation_id, told.truth
        if self._running(name) != told.ledger or (truth is not None and truth[1] not in self.applications):
            return False
        known = self.held.get(name)
        if truth is not None and told.ledger is not None and known is not None and known[1] == truth[1]:
            self.held[name] = known._replace(usage=truth.usage)
            return True
        self.release(name)
        if truth is not None:
            self.adopt(*truth, *(known[4:] if known is not None else ()))
        return True


def _plain(running: Running | None) -> Running | None:
    return None if running is None else running._replace(usage=running.usage.without_zeros())
