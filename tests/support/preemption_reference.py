"""The rules of preemption, each as a test of a set of victims, and a search through all sets.

It follows the text of the rules and shares no code with the planner. It takes exponential time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Final, final

from ugm.identity import ancestors, is_below
from ugm.preemption import AllocationFacts, PreemptionRequest, QueueFacts, World

Victims = Sequence[int]


@final
class ReferencePlanner:
    """Plans for one request by exhaustive search.

    Args:
        world: the queues and allocations.
        request: the request.
        node: the node of the request and of all victims; None if nodes do not matter.
    """

    def __init__(self, world: World, request: PreemptionRequest, node: str | None = None) -> None:
        self.node: Final = node
        self.world: Final = world
        self.request: Final = request
        self.queues: Final[dict[str, QueueFacts]] = {one.queue_path: one for one in world.queues}
        self.path: Final = tuple(ancestors(request.queue_path))
        self.wanted: Final = dict(request.usage)
        #: The usage of queues without terminating allocations, by path and resource, as far as it is known.
        self._kept: Final[dict[tuple[str, str], int]] = {}

    # Usage

    def kept(self, path: str, name: str, victims: Victims = ()) -> int:
        """Return the usage of a queue without terminating allocations and victims."""
        if (path, name) not in self._kept:
            counted = [(one.queue_path, one.usage) for one in self.world.allocations if not one.is_terminating]
            counted += [(one.queue_path, one.usage) for one in self.world.placed]
            self._kept[path, name] = sum(usage.get(name, 0) for queue, usage in counted if is_below(queue, path))
        leaving = [self.world.allocations[position] for position in victims]
        going = [one for one in leaving if is_below(one.queue_path, path) and not one.is_terminating]
        return self._kept[path, name] - sum(one.usage.get(name, 0) for one in going)

    def lacks(self, path: str, name: str, victims: Victims = ()) -> int:
        """Return the amount of a requested resource that is missing at a queue of the path."""
        facts = self.queues[path]
        if name not in facts.maximum and not facts.is_closed:
            return 0
        return max(0, self.kept(path, name, victims) + self.wanted[name] - facts.maximum.get(name, 0))

    def lacks_on_node(self, name: str, victims: Victims = ()) -> int:
        """Return the amount of a requested resource that is missing on the node."""
        if self.node is None:
            return 0
        here = [number for number, one in enumerate(self.world.allocations) if one.node == self.node]
        leaving = [number for number in here if number in victims or self.world.allocations[number].is_terminating]
        free = (self.world.nodes or {})[self.node].get(name, 0)
        free += sum(self.world.allocations[number].usage.get(name, 0) for number in leaving)
        free -= sum(one.usage.get(name, 0) for one in self.world.placed if one.node == self.node)
        return max(0, self.wanted[name] - free)

    def common(self, one: AllocationFacts) -> str:
        """Return the lowest queue that is above or at both queues."""
        return next(path for path in self.path if is_below(one.queue_path, path))

    def helps(self, one: AllocationFacts) -> list[str]:
        """Return the resources that an allocation helps with."""
        above = ancestors(self.common(one))
        missing = {name for path in above for name in self.wanted if self.lacks(path, name)}
        missing |= {name for name in self.wanted if self.lacks_on_node(name)}
        return sorted(name for name in missing if one.usage.get(name, 0) > 0)

    # Laws about one allocation

    def alone(self, position: int) -> str:
        """Return the first law that an allocation alone would break."""
        one = self.world.allocations[position]
        if law := self.own_law(one):
            return law
        if not self.is_claimed([position]):
            return "not_entitled"
        return "not_needed" if self.keeps_guarantees([position]) else "guarantee"

    def own_law(self, one: AllocationFacts) -> str:
        """Return the law that protects an allocation whatever the other victims are; empty if there is none."""
        in_leaf = one.queue_path == self.request.queue_path
        laws = {
            "terminating": one.is_terminating,
            "other_node": self.node is not None and one.node != self.node,
            "not_preemptible": not one.preemptible,
            "disabled": self.policy(one.queue_path) == "disabled",
            "fence": not is_below(one.queue_path, self.fence()),
            "same_application": one.application_id == self.request.application_id,
            "same_queue": in_leaf and not self.request.within_queue,
            "priority": one.priority > self.request.priority or (in_leaf and one.priority == self.request.priority),
            "frees_nothing": not self.helps(one),
        }
        return next((law for law, applies in laws.items() if applies), "")

    def policy(self, path: str) -> str | None:
        """Return the policy of the nearest queue that sets one."""
        return next((self.queues[above].policy for above in ancestors(path) if self.queues[above].policy), None)

    def fence(self) -> str:
        """Return the lowest queue of the path that is a fence, or the root."""
        return next((path for path in self.path if self.queues[path].policy == "fence"), "root")

    # Laws about sets

    def is_claimed(self, victims: Victims) -> bool:
        """Return whether the request is entitled to all victims."""
        return all(self._is_claimed(self.world.allocations[position], victims) for position in victims)

    def _is_claimed(self, one: AllocationFacts, victims: Victims) -> bool:
        if one.queue_path == self.request.queue_path:
            return True
        side = self.path[: self.path.index(self.common(one))]
        guaranteed = [(path, name) for name in self.helps(one) for path in side if name in self.queues[path].guaranteed]
        return bool(guaranteed) and all(
            self.kept(path, name, victims) + self.wanted[name] <= self.queues[path].guaranteed[name]
            for path, name in guaranteed
        )

    def keeps_guarantees(self, victims: Victims) -> bool:
        """Return whether every queue outside the path keeps its guarantee."""
        for position in victims:
            one = self.world.allocations[position]
            for path in ancestors(one.queue_path):
                if path in self.path:
                    break
                for name in self.helps(one):
                    if self.kept(path, name, victims) < self.queues[path].guaranteed.get(name, 0):
                        return False
        return True

    def fits(self, victims: Victims) -> bool:
        """Return whether the request fits after all victims are released."""
        fits_on_node = not any(self.lacks_on_node(name, victims) for name in self.wanted)
        return fits_on_node and not any(self.lacks(path, name, victims) for path in self.path for name in self.wanted)

    def is_plan(self, victims: Victims) -> bool:
        """Return whether a set satisfies every law."""
        return (
            not any(self.own_law(self.world.allocations[position]) for position in victims)
            and self.fits(victims)
            and self.is_claimed(victims)
            and self.keeps_guarantees(victims)
        )

    def is_minimal(self, victims: Victims) -> bool:
        """Return whether no victim can be left out."""
        return not any(self.is_plan([one for one in victims if one != left_out]) for left_out in victims)

    # The search

    def cost(self, victims: Victims) -> tuple[int, Fraction, list[int], list[int]]:
        """Return the cost of a set; the lowest wins."""
        used = [self.world.allocations[position] for position in victims]
        waste = Fraction()
        for name in {name for one in used for name, amount in one.usage.items() if amount}:
            missing = max((self.lacks(path, name) for path in self.path if name in self.wanted), default=0)
            missing = max(missing, self.lacks_on_node(name)) if name in self.wanted else missing
            waste += Fraction(sum(one.usage.get(name, 0) for one in used) - missing, self.kept("root", name))
        priorities = sorted((one.priority for one in used), reverse=True)
        return len(victims), waste, priorities, [-position for position in sorted(victims)]

    def best(self) -> tuple[int, ...] | None:
        """Return the lawful set with the least cost; None if there is none."""
        allocations = self.world.allocations
        candidates = [position for position, one in enumerate(allocations) if not self.own_law(one)]
        for number in range(1, len(candidates) + 1):
            lawful = [victims for victims in combinations(candidates, number) if self.is_plan(victims)]
            if lawful:
                return min(lawful, key=self.cost)
        return None

    def laws(self, victims: Iterable[int] = ()) -> dict[str, str]:
        """Return the law of every allocation that is not a victim."""
        left_out = set(victims)
        return {
            one.allocation_id: self.alone(position)
            for position, one in enumerate(self.world.allocations)
            if position not in left_out
        }
