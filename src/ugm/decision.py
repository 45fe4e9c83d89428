"""Answers to requests: decisions with every limit that the request would exceed, and their explanations.

All answers are values. They contain the amounts at the moment of the decision, and format their text on demand, because
a scheduler makes thousands of requests per second and reads few of the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from ugm._json_values import JsonObject, Row, attributes
from ugm.counters import UNLIMITED, Counter, RequestVector, is_named
from ugm.errors import cut, printable, time_text
from ugm.identity import WILDCARD, TrackingType
from ugm.resources import MEMORY, VCORE, Resource, brief_amount, format_amount, smallest_amounts

if TYPE_CHECKING:
    from fractions import Fraction  # takes long to import

_QUEUE: Final = TrackingType.QUEUE
#: The prefix of the kinds of limits on the amounts of pending requests.
_PENDING: Final = "pending "

#: The longest summary, and the number of limits that a text for people names.
_LONGEST: Final = 200
_MOST: Final = 3

_OWNERS: Final = ("user", "group", "queue")


class CountedKind(NamedTuple):
    """A kind of objects that limits count, besides resources and running applications."""

    name: str
    #: The same after a number, in denials.
    after_number: str
    #: For end users.
    for_people: str


#: The kinds by the first word of the kind of a violation, as in `ugm.configuration.LimitExtensions`.
COUNTED_KINDS: Final = {
    "pending": CountedKind("pending requests", "requests pending", "waiting requests"),
    "submitted": CountedKind("submitted applications", "applications submitted", "submitted applications"),
}
#: The owners of free amounts, by the kind of a violation.
_OTHERS: Final = {"reservation": "A request that has waited longer needs", "guarantee": "Other teams are guaranteed"}
_ADMINISTRATOR: Final = "Waiting does not help: request less, or ask an administrator to raise the limit."

#: The kind of the limits of accounts.
BUDGET: Final = "budget"
#: The kind of a violation by cards that others are guaranteed; see `ugm.families`.
KEPT: Final = "guarantee"
#: The kind of a violation for a whole quota model, whose state is unknown after a failure.
SUSPENDED: Final = "suspended quota model"


class LimitRise(NamedTuple):
    """A later maximum of a limit that changes by a schedule, in which a request fits without other usage."""

    #: The second since 1970 from which the maximum is in force.
    at: int
    #: None if the resource is not limited then.
    limit: int | None


class Violation(NamedTuple):
    """One limit that a request would exceed, or that is exceeded already if nothing is requested.

    It is a tuple, because most requests of a busy cluster are denied, and a tuple is the fastest to create.

    >>> violation = Violation(TrackingType.USER, "sue", "root.prod", "*", "memory", 10 * 2**30, 9 * 2**30, 3 * 2**30)
    >>> print(violation)
    user 'sue' in root.prod: 3Gi memory requested, 9Gi of 10Gi used, 2Gi too much (limit for '*')
    >>> violation.shortfall == 2 * 2**30, violation.can_wait
    (True, True)
    """

    #: The kind of the owner: a `ugm.TrackingType`, or a kind that another quota model defines. The kind of a limit on
    #: pending work is that of its owner after the word ``pending`` or ``submitted``.
    kind: str
    #: The owner of the limit: the user, the group that the application is charged to, or the queue.
    name: str
    #: The queue of the limit, which the request may be below. Empty if the limit does not belong to a queue.
    queue_path: str
    #: The name that the limit was set for: the user or group itself, or the wildcard ``*``; of a node of a quota tree,
    #: the tree. Empty for most other kinds.
    limit_name: str
    #: None for the number of running applications, or of pending requests or submitted applications.
    resource: str | None
    limit: int
    used: int
    requested: int

    @property
    def shortfall(self) -> int:
        """The amount that must be released, or added to the limit, for the request to fit."""
        return self.used + self.requested - self.limit

    @property
    def can_wait(self) -> bool:
        """True if the request fits once enough of the other usage is released; False for a suspended quota model."""
        return self.kind != SUSPENDED and self.requested <= self.limit

    @property
    def rise(self) -> LimitRise | None:
        """The first change of the limit by a schedule that helps a request that is too large now; None for none."""
        return None

    def to_dict(self) -> JsonObject:
        """Return the violation for JSON, with the names of its attributes and its text."""
        return {**attributes(self, (*self._fields, "shortfall", "can_wait", "rise")), "text": str(self)}

    def __str__(self) -> str:
        return f"{self._where()}: {self._what()}" + (f" (limit for {self.limit_name!r})" if self.limit_name else "")

    def _where(self) -> str:
        work, _, owner = self.kind.partition(" ")
        kind = owner if work in COUNTED_KINDS else self.kind
        if self.name == self.queue_path:
            return f"{kind} {self.name}"
        return f"{kind} {self.name!r}" + (f" in {self.queue_path}" if self.queue_path else "")

    def _what(self) -> str:
        if self.kind == SUSPENDED:
            return "its state has been unknown since one of its calls failed; it has to be replaced"
        counted = COUNTED_KINDS.get(self.kind.partition(" ")[0])
        if self.resource is None:
            more = f", {self.requested} more requested" if self.requested else ""
            return f"{self.used} of {self.limit} {counted.after_number if counted else 'applications running'}{more}"
        in_use, allowed = ("pending", "may be pending") if counted else ("used", "allowed")
        used, limit, requested, shortfall = (
            format_amount(self.resource, amount) for amount in (self.used, self.limit, self.requested, self.shortfall)
        )
        if not self.requested:
            return f"{used} of {limit} {self.resource} {in_use}, {shortfall} too much"
        if not self.can_wait:
            return f"{requested} {self.resource} requested, never more than {limit} {allowed}"
        return f"{requested} {self.resource} requested, {used} of {limit} {in_use}, {shortfall} too much"


class Exhaustion(NamedTuple):
    """A time at which a limit over time, such as a budget, begins to deny every request, at the current rate of use.

    >>> print(Exhaustion("budget", "lab", "root", "sue", "gpu", 1_795_435_200, 1_796_083_200))
    budget 'lab' in root: no more gpu for 'sue' from 2026-11-23 12:00:00 UTC until 2026-12-01 00:00:00 UTC
    """

    #: The kind and the name of the limit, and the queue in and below which it applies.
    kind: str
    name: str
    queue_path: str
    #: The owner of the account.
    limit_name: str
    resource: str
    #: The second since 1970 from which nothing is left.
    begins: int
    #: The second at which the limit is renewed; None if it is not.
    ends: int | None

    def to_dict(self) -> JsonObject:
        """Return the exhaustion for JSON."""
        return self._asdict()

    def __str__(self) -> str:
        until = "" if self.ends is None else f" until {time_text(self.ends, places='seconds')}"
        owner, begins = f"{self.kind} {self.name!r} in {self.queue_path}", time_text(self.begins, places="seconds")
        return f"{owner}: no more {self.resource} for {self.limit_name!r} from {begins}{until}"


class Decision(NamedTuple):
    """The decision about a request: true if it is allowed."""

    #: Every limit that the request would exceed: of the user, the group, the queue and other models; each leaf to root.
    violations: tuple[Violation, ...] = ()
    #: The allocations that a quota model evicts: those that were released for an allowed request, or those that must be
    #: released for a denied request.
    evictions: tuple[str, ...] = ()
    #: The variants that amounts of any variant are assigned to; None if the request has no such amounts.
    assign: Resource | None = None

    def __bool__(self) -> bool:
        return not self.violations

    @property
    def allowed(self) -> bool:
        """True if the request was, or would be, granted."""
        return not self.violations

    @property
    def can_wait(self) -> bool:
        """True if the request can be granted now, after other usage is released, or later by a schedule or budget."""
        return all(violation.can_wait for violation in self.violations)

    def to_dict(self) -> JsonObject:
        """Return the decision for JSON."""
        return attributes(self, ("allowed", "can_wait", "violations", "evictions", "assign"))

    @property
    def summary(self) -> str:
        """The decision in one line of at most 200 characters, for logs, HTTP reason phrases and progress messages.

        Of several limits, it names the first one that waiting cannot help, or the first one.

        >>> Decision((Violation("queue", "root.q", "root.q", "", "gpu", 4, 3, 2),)).summary
        'denied, waiting can help: queue root.q: 2 gpu requested, 3 of 4 used, 1 too much'
        """
        first, *rest = str(self).splitlines() or [""]
        more = f" (and {len(self.violations) - 1} more limits)" if len(self.violations) > 1 else ""
        never = [str(one) for one in self.violations if not one.can_wait]
        return one_line(" ".join([first, *(never or rest)[:1]]) + more)

    def for_people(self) -> str:
        """Return the decision in sentences for end users: the limits in their units, and what can help.

        >>> Decision((Violation("user", "ana", "root.hub", "*", "gpu", 2, 1, 2),)).for_people()
        'Your limit allows 2 GPUs (in use: 1 GPU), and the request is for 2 GPUs. Try again when other work has ended.'
        """
        return "Granted." if self.allowed else denial_for_people(self.violations)

    def __str__(self) -> str:
        evicted = ", ".join(map(repr, self.evictions))
        if self.allowed:
            assigned = f", assigned {self.assign}" if self.assign else ""
            return f"allowed{assigned}, evicting {evicted}" if evicted else f"allowed{assigned}"
        advice = "waiting can help" if self.can_wait else "waiting cannot help"
        more = [f"  evicting {evicted} would make room"] if evicted else []
        return "\n".join([f"denied, {advice}:", *(f"  {violation}" for violation in self.violations), *more])


#: The decision of a request that is allowed without evictions; most decisions are this object.
ALLOWED: Final = Decision()


@dataclass(frozen=True, slots=True)
class EffectiveLimit(Row):
    """A limit that applies to a request, and its place in the configuration."""

    #: The kind of owner, a `ugm.TrackingType`: a user, a group or a queue; or a kind of another quota model.
    kind: str
    #: The user, the group that the user's applications are charged to, the queue, or the owner in another quota model.
    name: str
    #: The queue that sets the limit: the queue of the query or one above it. Empty for other quota models.
    queue_path: str
    #: The name in the configuration: the user or group itself, or the wildcard ``*``; of a node of a quota tree, the
    #: tree; empty for most other kinds.
    limit_name: str
    #: The entry of the configuration, for example ``root.prod limits[2]``.
    place: str
    #: None if resources are not limited.
    max_resources: Resource | None
    #: 0 if applications are not limited. For a limit on pending work: the maximum number of requests or applications.
    max_applications: int
    #: The usage of the limited resources in and below the queue. For a limit on pending work: the requested amounts.
    usage: Resource
    #: The number of applications that run in and below the queue; 0 for other quota models. For a limit on pending
    #: work: the number of requests or applications that count for it.
    running_applications: int
    #: The part of `max_resources` that the owner does not borrow from others; None if nothing can be borrowed.
    guaranteed: Resource | None = None

    @property
    def borrowable(self) -> Resource:
        """The free amounts that the owner would borrow from others, for each resource with such an amount.

        >>> half = Resource(gpu=4)
        >>> EffectiveLimit("team", "ml", "", "", "", Resource(gpu=7), 0, Resource(gpu=3), 0, half).borrowable
        Resource(gpu=3)
        """
        if self.guaranteed is None or self.max_resources is None:
            return Resource()
        free = {
            name: maximum - max(self.guaranteed.get(name, 0), self.usage.get(name, 0))
            for name, maximum in self.max_resources.items()
        }
        return Resource({name: amount for name, amount in free.items() if amount > 0})

    @classmethod
    def of(cls, counter: Counter, unavailable: Iterable[str] = ()) -> Self:
        """Return the limit of a counter with its usage.

        Args:
            counter: the counter.
            unavailable: resources of which it allows none, unless its limit names them.
        """
        owner, limit, used = counter.owner, counter.limit, counter.used()
        resources = limit.resources
        if not resources.keys() >= set(unavailable):
            resources = Resource({**dict.fromkeys(unavailable, 0), **resources})
        return cls(
            kind=owner.kind,
            name=owner.name,
            queue_path=counter.queue_path,
            limit_name=_limit_name(counter),
            place=limit.place,
            max_resources=resources or None,
            max_applications=limit.applications,
            usage=Resource({name: used.get(name, 0) for name in resources}),
            running_applications=counter.running,
        )


def headroom_of(limits: Iterable[EffectiveLimit]) -> Resource | None:
    """Return the minimum that limits leave, for each limited resource; None if they limit no resource.

    Limits on pending work do not count.
    """
    return smallest_amounts(
        (name, maximum - limit.usage.get(name, 0))
        for limit in limits
        if not limit.kind.startswith(_PENDING)
        for name, maximum in (limit.max_resources or {}).items()
    )


def exceeded(
    chain: Iterable[Counter], vector: RequestVector, starting: Sequence[Counter] = ()
) -> tuple[Violation, ...]:
    """Return every limit of *chain* that *vector*, and one more application below *starting*, would exceed.

    A resource that is not requested is never reported, even if it is over its limit. Exception: a queue that is over
    its limit denies a request that names the resource, even with an amount of 0.

    Source: Apache YuniKorn core, whose queues compare every resource that a request names
    (`tests/conformance/yunikorn/test_queues.py`).
    """
    required_vcore, required_memory, vcore, memory, extended, _ = vector
    names_vcore, names_memory = is_named(required_vcore), is_named(required_memory)
    found = []
    for counter in chain:
        limit, is_queue = counter.limit, counter.owner.kind is _QUEUE
        # The first comparison skips nearly every counter. The rest of each condition decides whether the limit applies.
        if counter.free_vcore < vcore and (vcore or (names_vcore and is_queue)) and limit.vcore < UNLIMITED:
            found.append(_violation(counter, VCORE, limit.vcore, counter.free_vcore, vcore))
        if counter.free_memory < memory and (memory or (names_memory and is_queue)) and limit.memory < UNLIMITED:
            found.append(_violation(counter, MEMORY, limit.memory, counter.free_memory, memory))
        for position, amount in extended:
            free = counter.free_extended[position]
            if free < amount and (amount or is_queue):
                maximum = limit.extended(counter.layout)[position]
                if maximum < UNLIMITED:
                    found.append(_violation(counter, counter.layout.names[position], maximum, free, amount))
        if limit.closed:
            found += [_violation(counter, name, 0, 0, amount) for name, amount in counter.layout.uncounted(vector)]
        if counter.running >= limit.max_running and counter in starting:
            found.append(_violation(counter, None, limit.applications, limit.applications - counter.running, 1))
    return tuple(found)


def already_exceeded(counter: Counter) -> Iterator[Violation]:
    """Yield every limit of a counter that is exceeded already, with nothing requested."""
    for name in counter.limited_resources():
        if counter.free(name) < 0:
            yield _violation(counter, name, counter.limit.maximum(name), counter.free(name), 0)
    if counter.running > counter.limit.max_running:
        yield _violation(counter, None, counter.limit.applications, counter.limit.applications - counter.running, 0)


def _violation(counter: Counter, resource: str | None, limit: int, free: int, requested: int) -> Violation:
    owner, used = counter.owner, limit - free
    return Violation(owner.kind, owner.name, counter.queue_path, _limit_name(counter), resource, limit, used, requested)


def _limit_name(counter: Counter) -> str:
    """Return the name that a limit was set for: its owner or the wildcard; empty for a queue."""
    if counter.limit.wildcard:
        return WILDCARD
    return "" if counter.owner.kind is _QUEUE else counter.owner.name


def effective_limits(counters: Sequence[Counter]) -> tuple[EffectiveLimit, ...]:
    """Return the limits of some counters, without counters that exist only for a guarantee.

    A closed limit has a 0 for every resource that another limit names and it does not name.
    """
    limiting = [counter for counter in counters if is_limiting(counter)]
    names = {name for counter in limiting for name in counter.limit.resources}
    return tuple(EffectiveLimit.of(counter, names if counter.limit.closed else ()) for counter in limiting)


def is_limiting(counter: Counter) -> bool:
    """Return whether a counter limits anything."""
    limit = counter.limit
    return bool(limit.resources or limit.applications or limit.closed)


# Denials in words for end users: without paths of queues and names of limits, and with amounts as people write them.
# The texts depend only on the fields of violations, because a client of a service has no other classes of violations.


def one_line(text: str) -> str:
    """Return a text in one line of at most 200 characters.

    >>> one_line("two" + chr(10) + "lines"), len(one_line("x" * 500))
    ('two lines', 200)
    """
    return cut(printable(" ".join(text.split())), _LONGEST - 3)


def denial_for_people(violations: Iterable[Violation]) -> str:
    """Return sentences about a denial: the limits, and what can help."""
    found = tuple(violations)
    sentences = [_limit_sentence(violation) for violation in found[:_MOST]]
    if len(found) > _MOST:
        sentences.append(f"{len(found) - _MOST} more limits are exceeded.")
    return printable(" ".join([*dict.fromkeys(sentences), _advice(found)]))


def _limit_sentence(violation: Violation) -> str:
    first, _, pending_owner = violation.kind.partition(" ")
    counted = COUNTED_KINDS.get(first)
    kind, resource = (pending_owner if counted else violation.kind), violation.resource
    if kind in _OTHERS:
        return f"{_OTHERS[kind]} what is free."
    if resource is None and kind not in _OWNERS:
        return f"A limit of the kind {kind} does not allow this request."
    if kind == BUDGET and resource is not None:
        return _budget_sentence(_owner_text(kind, violation.name), resource, violation)
    limit, used, requested = (
        f"{brief_amount(None, amount)} {counted.for_people if counted else 'running applications'}"
        if resource is None
        else amount_for_people(resource, amount)
        for amount in (violation.limit, violation.used, violation.requested)
    )
    owner = _owner_text(kind, violation.name)
    if resource is None:
        return f"{owner} allows {limit} (now: {violation.used})."
    if violation.requested > violation.limit:
        return f"{owner} allows {limit} at most, and the request is for {requested}."
    state = "waiting" if counted else "in use"
    return f"{owner} allows {limit} ({state}: {used}), and the request is for {requested}."


def _budget_sentence(owner: str, resource: str, violation: Violation) -> str:
    """Return a sentence about a budget, whose amounts are amounts times seconds."""
    if not (violation.limit or violation.used or violation.requested):
        return f"{owner} needs to know how long the work takes."
    from fractions import Fraction  # noqa: PLC0415 - see above

    limit, used, requested = (
        amount_for_people(resource, Fraction(amount, 3600), "hours")
        for amount in (violation.limit, violation.used, violation.requested)
    )
    request = f", and the request is for {requested}" if violation.requested else ""
    return f"{owner} allows {limit} (used or promised: {used}){request}."


def _owner_text(kind: str, name: str) -> str:
    # Models count what users have, too.
    if kind == "user" or kind.endswith(" of user"):
        return "Your limit"
    if kind == "group":
        return f"The limit of the group {name}"
    leaf = name.rpartition(".")[2]
    if kind == "queue":
        return "The cluster" if leaf == name else f"The queue {leaf}"
    return f"The {kind} {leaf}"


def amount_for_people(resource: str, amount: Fraction | int, per: str = "") -> str:
    """Return an amount in the units of people, also for a time: 1.5 core hours."""
    number = brief_amount(resource, amount)
    ends = "" if number == "1" or per else "s"
    after = f" {per}" if per else ""
    if resource == VCORE:
        return f"{number} core{ends}{after}"
    if resource == MEMORY:
        digits = number.rstrip("KMGTPEi")
        return f"{digits} {number[len(digits) :]}B{after} of memory"
    short = _short_name(resource)
    if short.startswith("GPUs"):
        return f"{number} GPU{ends}{short.removeprefix('GPUs')}{after}"
    return f"{number} {short if ends else _singular(short)}{after}"


def _short_name(resource: str) -> str:
    """Return the name of a resource without its domain, as people write it.

    >>> _short_name("nvidia.com/gpu:a100")
    'GPUs (a100)'
    """
    family, _, variant = resource.rpartition("/")[2].partition(":")
    return ("GPUs" if family == "gpu" else family) + (f" ({variant})" if variant else "")


def _singular(name: str) -> str:
    """Return the name of one unit of a resource, whose name may be a plural: `servers`."""
    return name if name.endswith(("as", "is", "ss", "us")) else name.removesuffix("s")


def _advice(violations: tuple[Violation, ...]) -> str:
    if any(violation.kind == BUDGET and not violation.limit + violation.used for violation in violations):
        return "State the duration, or ask an administrator."
    if not all(violation.can_wait for violation in violations):
        return _ADMINISTRATOR
    rises = [violation.rise.at for violation in violations if violation.rise is not None]
    if rises:
        return f"More is allowed from {time_text(max(rises))} on."
    if any(violation.kind == BUDGET for violation in violations):
        return "Try again when other work has ended, or when the budget is renewed."
    return "Try again when other work has ended."
