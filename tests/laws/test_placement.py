"""Laws of placement: whatever is submitted, it ends in a queue that may be used or in reasons."""

from __future__ import annotations

from typing import Final

from hypothesis import example, given
from hypothesis import strategies as st

from support.placement_fixtures import Queues
from ugm import UserGroup
from ugm.config import FilterConfig, PlacementRule
from ugm.identity import canonical_path
from ugm.queues import PlacementRules, Submission

#: Texts that may be queues, and any others.
TEXTS: Final = (
    st.text() | st.text(alphabet="aAbB._ ", max_size=5) | st.sampled_from(["root", "root.a", "Root.a.B", "c"])
)
QUEUES: Final = st.builds(
    Queues,
    st.sets(st.sampled_from(["root.a", "root.b.a", "root.c"])),
    parents=st.just(["root.b"]),
    draining=st.sets(st.sampled_from(["root.a", "root.b", "root.c"])),
    acls=st.dictionaries(st.sampled_from(["root", "root.b", "root.c"]), st.sampled_from(["", " ", "*", "a b"])),
)
FILTERS: Final = st.builds(
    FilterConfig,
    type=st.sampled_from(["", "allow", "deny"]),
    users=st.sampled_from([(), ("a",), ("^b",), ("a", "c")]),
    groups=st.sampled_from([(), ("b",)]),
)


def _rules(parents: st.SearchStrategy[PlacementRule] | None = None) -> st.SearchStrategy[PlacementRule]:
    found = st.sampled_from(
        [("provided", ""), ("user", ""), ("tag", "t"), ("tag", "u"), ("fixed", "c"), ("fixed", "b")]
    )
    return st.builds(
        lambda named, create, allowed, parent: PlacementRule(
            name=named[0], value=named[1], create=create, filter=allowed, parent=parent
        ),
        found,
        st.booleans(),
        FILTERS,
        st.none() | (parents if parents is not None else st.none()),
    )


RULES: Final = st.lists(_rules(_rules(_rules())), max_size=4).map(PlacementRules)
USERS: Final = st.builds(
    UserGroup, TEXTS.filter(lambda name: name not in ("", "*")), st.sampled_from([(), ("b",), ("c", "b")])
)
SUBMISSIONS: Final = st.builds(
    Submission, st.just("app"), USERS, TEXTS, st.dictionaries(st.sampled_from(["t", "T", "u"]), TEXTS)
)


@given(RULES, SUBMISSIONS, QUEUES)
def test_placement_is_a_queue_or_reasons(rules: PlacementRules, submission: Submission, queues: Queues) -> None:
    """Any submission is placed in one canonical queue, by the last rule tried, or every rule has its reason."""
    placement = rules.place(submission, queues)
    *passed, last = placement.trials

    assert all(trial.reason for trial in passed)
    assert bool(placement) is not bool(last.reason)
    if placement.queue_path is not None:
        assert canonical_path(placement.queue_path) == placement.queue_path == last.queue_path
    assert all(line.isprintable() for line in str(placement).split("\n"))


@given(RULES, SUBMISSIONS, QUEUES)
def test_placement_can_be_used(rules: PlacementRules, submission: Submission, queues: Queues) -> None:
    """A queue that is found is a leaf, or can be created below one that is not, and is open to the user."""
    placement = rules.place(submission, queues)
    path = placement.queue_path
    if path is None:
        return

    above = path if not placement.creates else path.rpartition(".")[0]
    while not queues.exists(above):
        above = above.rpartition(".")[0]
    assert placement.creates is not queues.exists(path)
    assert queues.is_leaf(above) is not placement.creates
    assert queues.may_submit(path, submission.user)
    assert not queues.is_draining(above)


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
@example("root." + "a." * 100_000)
def test_any_text_is_answered(text: str) -> None:
    """No text that is submitted is an error, however long or odd."""
    rules = PlacementRules([PlacementRule(name=name, value="t", create=True) for name in ("provided", "tag")])
    placement = rules.place(Submission("app", UserGroup("a"), text, {"t": text}), Queues())

    assert len(str(placement)) < 1000
