"""Decisions: a request is allowed, or denied with every limit that it would exceed.

A denial is a value. It contains the amounts at the moment of the decision, and formats its text on demand, because a
scheduler makes thousands of requests per second and reads few of the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from ugm.errors import value_text
from ugm.hierarchy import UNLIMITED, Node, RequestVector, is_named
from ugm.identity import WILDCARD, TrackingType
from ugm.resources import MEMORY, VCORE, format_amount

__all__ = ["ALLOWED", "SUSPENDED", "Decision", "Violation", "exceeded", "limit_name", "over"]

_QUEUE: Final = TrackingType.QUEUE

#: The kind of a violation for a whole quota model, whose state is unknown after a failure.
SUSPENDED: Final = "suspended quota model"


class Violation(NamedTuple):
    """One limit that a request would exceed, or that is exceeded already if nothing is requested.

    It is a tuple, because most requests of a busy cluster are denied, and a tuple is the fastest to create.

    >>> violation = Violation(TrackingType.USER, "sue", "root.prod", "*", "memory", 10 * 2**30, 9 * 2**30, 3 * 2**30)
    >>> print(violation)
    user 'sue' in root.prod: 3Gi memory requested, 9Gi of 10Gi used, 2Gi too much (limit for '*')
    >>> violation.shortfall == 2 * 2**30, violation.can_wait
    (True, True)
    """

    #: The kind of the owner: a `ugm.TrackingType`, or a term of another quota model.
    kind: str
    #: The owner of the limit: the user, the group that the application is charged to, or the queue.
    name: str
    #: The queue of the limit, which the request may be below. Empty if the limit does not belong to a queue.
    queue_path: str
    #: The name that the limit was set for: the user or group itself, or the wildcard ``*``. Empty for other kinds.
    limit_name: str
    #: None for the number of running applications.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the violation for JSON, with the names of its attributes."""
        return {**self._asdict(), "kind": str(self.kind), "shortfall": self.shortfall, "can_wait": self.can_wait}

    def __repr__(self) -> str:
        fields = zip(self._fields, self, strict=True)
        return f"Violation({', '.join(f'{name}={value_text(value)}' for name, value in fields)})"

    def __str__(self) -> str:
        return f"{self._where()}: {self._what()}" + (f" (limit for {self.limit_name!r})" if self.limit_name else "")

    def _where(self) -> str:
        if self.name == self.queue_path:
            return f"{self.kind} {self.name}"
        return f"{self.kind} {self.name!r}" + (f" in {self.queue_path}" if self.queue_path else "")

    def _what(self) -> str:
        if self.kind == SUSPENDED:
            return "its state is unknown since one of its calls failed; it has to be replaced"
        if self.resource is None:
            more = f", {self.requested} more requested" if self.requested else ""
            return f"{self.used} of {self.limit} applications running{more}"
        used, limit, requested, shortfall = (
            format_amount(self.resource, amount) for amount in (self.used, self.limit, self.requested, self.shortfall)
        )
        if not self.requested:
            return f"{used} {self.resource} used of {limit}, {shortfall} too much"
        if not self.can_wait:
            return f"{requested} {self.resource} requested, never more than {limit} allowed"
        return f"{requested} {self.resource} requested, {used} of {limit} used, {shortfall} too much"


class Decision(NamedTuple):
    """The decision about a request: true if it is allowed."""

    #: Every limit that the request would exceed: of the user, the group, the queue and other models; each leaf to root.
    violations: tuple[Violation, ...] = ()
    #: The allocations that a quota model evicts: those that were released for an allowed request, or those that must be
    #: released for a denied request.
    evictions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.violations

    @property
    def allowed(self) -> bool:
        """True if the request was, or would be, granted."""
        return not self.violations

    @property
    def can_wait(self) -> bool:
        """True if the request can be granted without a change of limits, now or after other usage is released."""
        return all(violation.can_wait for violation in self.violations)

    def to_dict(self) -> dict[str, Any]:
        """Return the decision for JSON."""
        return {
            "allowed": self.allowed,
            "can_wait": self.can_wait,
            "violations": [violation.to_dict() for violation in self.violations],
            "evictions": list(self.evictions),
        }

    def __str__(self) -> str:
        evicted = ", ".join(map(repr, self.evictions))
        if self.allowed:
            return f"allowed, evicting {evicted}" if evicted else "allowed"
        advice = "waiting can help" if self.can_wait else "waiting can never help"
        more = [f"  evicting {evicted} would let it in"] if evicted else []
        return "\n".join([f"denied, {advice}:", *(f"  {violation}" for violation in self.violations), *more])


#: The one decision without violations; most decisions are this object.
ALLOWED: Final = Decision()


def exceeded(chain: Iterable[Node], vector: RequestVector, starting: Sequence[Node] = ()) -> tuple[Violation, ...]:
    """Return every limit of *chain* that *vector*, and one more application below *starting*, would exceed.

    A resource that is not requested is never reported, even if it is over its limit. Exception: a queue that is over
    its limit denies a request that names the resource, even with an amount of 0.

    Source: Apache YuniKorn core, whose queues compare every resource that a request names
    (`tests/conformance/yunikorn/test_queues.py`).
    """
    required_vcore, required_memory, vcore, memory, extended, _ = vector
    names_vcore, names_memory = is_named(required_vcore), is_named(required_memory)
    found = []
    for node in chain:
        limit, is_queue = node.limit, node.owner.kind is _QUEUE
        # The first comparison skips nearly every node. The rest of each condition decides whether the limit applies.
        if node.free_vcore < vcore and (vcore or (names_vcore and is_queue)) and limit.vcore < UNLIMITED:
            found.append(_violation(node, VCORE, limit.vcore, node.free_vcore, vcore))
        if node.free_memory < memory and (memory or (names_memory and is_queue)) and limit.memory < UNLIMITED:
            found.append(_violation(node, MEMORY, limit.memory, node.free_memory, memory))
        for position, amount in extended:
            free = node.free_extended[position]
            if free < amount and (amount or is_queue):
                maximum = limit.extended(node.layout)[position]
                if maximum < UNLIMITED:
                    found.append(_violation(node, node.layout.names[position], maximum, free, amount))
        if limit.closed:
            found += [_violation(node, name, 0, 0, amount) for name, amount in node.layout.uncounted(vector)]
        if node.running >= limit.max_running and node in starting:
            found.append(_violation(node, None, limit.applications, limit.applications - node.running, 1))
    return tuple(found)


def over(node: Node) -> Iterator[Violation]:
    """Yield every limit of a node that is exceeded already, with nothing requested."""
    for name in node.limited_resources():
        if node.free(name) < 0:
            yield _violation(node, name, node.limit.maximum(name), node.free(name), 0)
    if node.running > node.limit.max_running:
        yield _violation(node, None, node.limit.applications, node.limit.applications - node.running, 0)


def _violation(node: Node, resource: str | None, limit: int, free: int, requested: int) -> Violation:
    owner, used = node.owner, limit - free
    return Violation(owner.kind, owner.name, node.queue_path, limit_name(node), resource, limit, used, requested)


def limit_name(node: Node) -> str:
    """Return the name that a limit was set for: its owner or the wildcard; empty for a queue."""
    if node.limit.wildcard:
        return WILDCARD
    return "" if node.owner.kind is _QUEUE else node.owner.name
