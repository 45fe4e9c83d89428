"""A tree of elastic groups against the naive model, event by event."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from support.elastic_reference import Naive
from support.elastic_strategies import amounts
from support.examples import examples
from ugm import RequestError, Resource
from ugm.elastic import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP, ElasticGroup, ElasticTree, GroupError, verify

BUILT_IN = (SYSTEM_GROUP, DEFAULT_GROUP)
NAMES = ("a", "b", "c", "d", "e", "f", "g")

groups = st.tuples(
    st.sampled_from([*NAMES, *BUILT_IN]),
    st.sampled_from([ROOT_GROUP, ROOT_GROUP, *NAMES]),
    amounts(st.integers(0, 20)),
    amounts(st.integers(0, 60)),
    st.none() | amounts(st.sampled_from([0, 1, 1, 2, 7])),
    st.booleans(),
).map(lambda drawn: ElasticGroup(*drawn))


class ElasticMachine(RuleBasedStateMachine):
    """Groups are added, changed, moved and removed; requests, usage and the total change; reads at any time."""

    @initialize(total=amounts(st.integers(0, 150)), scale=st.booleans())
    def start(self, total: Resource, scale: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        """Start with a cluster and no groups."""
        self.tree = ElasticTree(total, scale_min=scale)
        self.model = Naive((), total, scale, ())

    @rule(group=groups)
    def put(self, group: ElasticGroup) -> None:
        """Add, change or move a group; a change that is not a tree is refused."""
        # No rule is checked: a minimum above the maximum makes no difference to a tree.
        try:
            self.tree.put(group)
        except GroupError:
            return
        self.model.groups[group.name] = group

    @precondition(lambda self: self.model.groups)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        """Remove a group, if nothing is below it."""
        name = data.draw(st.sampled_from(sorted(self.model.groups)))
        try:
            self.tree.drop(name)
        except GroupError:
            assert name in BUILT_IN or any(group.parent == name for group in self.model.groups.values())
            return
        self.model.drop(name)

    @rule(data=st.data(), delta=amounts(st.integers(-30, 60)), uses=st.booleans())
    def change(self, data: st.DataObject, delta: Resource, uses: bool) -> None:  # noqa: FBT001 - as above
        """Change requests or usage; a negative result is refused."""
        name = data.draw(st.sampled_from([*BUILT_IN, *sorted(self.model.groups)]))
        counts = self.model.used if uses else self.model.requested
        own = counts.get(name, {})
        fits = all(own.get(resource, 0) + amount >= 0 for resource, amount in delta.items())
        try:
            (self.tree.change_used if uses else self.tree.change_request)(name, delta)
        except RequestError:
            assert not fits
            return
        assert fits
        self.model.change(counts, name, delta)

    @rule(total=amounts(st.integers(0, 150)))
    def set_total(self, total: Resource) -> None:
        """The cluster grows or shrinks."""
        self.tree.set_total(total)
        self.model.set_total(total)

    @precondition(lambda self: self.model.groups)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """Read the runtime of one group."""
        name = data.draw(st.sampled_from(sorted(self.model.groups)))
        for resource, gets in self.tree.runtime(name).items():
            assert gets == self.model.runtime(name, resource)

    @rule()
    def read_all(self) -> None:
        """A new tree of the same groups and requests has the same state, and all sums are right."""
        # Not an invariant: reading everything after each step would hide what single reads leave behind.
        twin = self.tree.copy()
        for name in self.tree.nodes:
            assert twin.runtime(name).without_zeros() == self.tree.runtime(name).without_zeros()
            assert twin.request(name) == self.tree.request(name)
            assert twin.used(name) == self.tree.used(name)
        verify(self.tree)

    def teardown(self) -> None:
        """Read everything at the end."""
        if hasattr(self, "tree"):
            self.read_all()


TestElastic = ElasticMachine.TestCase
TestElastic.settings = settings(max_examples=examples(100), stateful_step_count=40)
