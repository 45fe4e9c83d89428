"""Placement rules and their filters: what each finds, why it passes, and which is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.tracking_fixtures import Wrong
from ugm import RequestError, UserGroup
from ugm.config import FilterConfig, PlacementRule, parse_config
from ugm.identity import ancestors
from ugm.queues import Acl, Filter, Placement, PlacementRules, PlacementTrial, Submission, path_allows

LIN: Final = UserGroup("lin", ("physics",))


class Queues:
    """Queues that are there: leaves, and everything above them."""

    def __init__(
        self,
        leaves: Iterable[str] = (),
        *,
        parents: Iterable[str] = (),
        draining: Iterable[str] = (),
        acls: Mapping[str, str] | None = None,
    ) -> None:
        self.leaves = frozenset(leaves)
        self.draining = frozenset(draining)
        self.paths = {above for path in ("root", *self.leaves, *parents) for above in ancestors(path)}
        self.acls = {path: Acl.parse(text) for path, text in (acls or {}).items()}

    def exists(self, queue_path: str) -> bool:
        """Return whether the queue is there."""
        return queue_path in self.paths

    def is_leaf(self, queue_path: str) -> bool:
        """Return whether an existing queue is a leaf."""
        assert queue_path in self.paths
        return queue_path in self.leaves

    def is_draining(self, queue_path: str) -> bool:
        """Return whether an existing queue is draining."""
        assert queue_path in self.paths
        return queue_path in self.draining

    def may_submit(self, queue_path: str, user: UserGroup) -> bool:
        """Return what the lists on the path say."""
        return path_allows((self.acls.get(path) for path in ancestors(queue_path)), user)


def rules(text: str) -> PlacementRules:
    """Compile the rules of a configuration, given as YAML in one line each."""
    lines = "".join(f"  - {line}\n" for line in text.strip().splitlines())
    partition = parse_config(f"partitions:\n- queues: [{{name: root}}]\n  placementrules:\n{lines}").partition()
    configured: tuple[PlacementRule, ...] = partition.placement_rules
    return PlacementRules(configured)


def submitted(queue: str = "", tags: Mapping[str, str] | None = None, user: UserGroup = LIN) -> Submission:
    """Return an application."""
    return Submission("app-1", user, queue, tags or {})


QUEUES = Queues(["root.a", "root.prod.web", "root.a_dot_b"], parents=["root.dev"])

NAMESPACE = "{name: tag, value: namespace, create: true}"


def place(text: str, submission: Submission, queues: Queues = QUEUES) -> Placement:
    """Place an application by rules."""
    return rules(text).place(submission, queues)


def why(text: str, submission: Submission, queues: Queues = QUEUES) -> str:
    """Return why the one rule that there is passed."""
    placement = place(text, submission, queues)
    assert placement.queue_path is None
    return placement.trials[-1].reason


@pytest.mark.parametrize(
    ("queue", "path"),
    [
        ("root.prod.web", "root.prod.web"),
        ("ROOT.Prod.WEB", "root.prod.web"),
        ("a", "root.a"),
        ("A", "root.a"),
        ("a.b", "root.a_dot_b"),
    ],
)
def test_provided(queue: str, path: str) -> None:
    """The provided queue is a path if it starts at the root, in any case, and else one name, without its dots."""
    assert place("name: provided", submitted(queue)) == (path, (("placementrules[0] provided", path, ""),), False, ())


def test_without_rules() -> None:
    """Without rules an application goes to the queue that it names, which is never created."""
    compiled = PlacementRules()

    assert compiled.place(submitted("a"), QUEUES).queue_path == "root.a"
    assert compiled.place(submitted("new"), QUEUES).trials == (
        PlacementTrial(
            "provided (there are no placement rules)",
            "root.new",
            "root.new does not exist, and the rule does not create it",
        ),
    )


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("name: provided", "the application names no queue"),
        ("{name: tag, value: Team}", "the application has no tag 'Team'"),
        ("{name: user, filter: {type: deny, users: [lin]}}", "the filter denies user 'lin'"),
        ("{name: user, parent: {name: tag, value: x, filter: {users: [b]}}}", "the filter denies user 'lin'"),
        ("name: user", "root.lin does not exist, and the rule does not create it"),
        (
            "{name: user, create: true, parent: {name: fixed, value: new}}",
            "root.new does not exist, and the parent rule does not create it",
        ),
    ],
)
def test_why_nothing_is_found(rule: str, reason: str) -> None:
    """A rule that finds nothing says what is missing or who is in the way."""
    assert why(rule, submitted()) == reason


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        ("prod", "root.prod is not a leaf"),
        ("root", "root is not a leaf"),
        ("root.a.x", "root.a is a leaf and cannot have queues below it"),
        ("root.a.x.y", "root.a is a leaf and cannot have queues below it"),
        ("old", "root.old is draining"),
        ("root.going.x", "root.going is draining"),
        ("locked", "user 'lin' may not submit to root.locked"),
        ("root.closed.x.y", "user 'lin' may not submit to root.closed.x.y"),
        ("root" + ".x" * 100, f"'root{'.x' * 30}'... has more than 100 names"),
    ],
)
def test_why_a_queue_cannot_be_used(queue: str, reason: str) -> None:
    """A rule passes if the queue is no leaf, cannot be created, is draining, or is closed to the user."""
    queues = Queues(
        ["root.a", "root.prod.web", "root.old", "root.locked"],
        parents=["root.going", "root.closed"],
        draining=["root.old", "root.going"],
        acls={"root.locked": "sue", "root.closed": " "},
    )

    assert why("{name: provided, create: true}", submitted(queue), queues) == reason


def test_placement_explains_itself() -> None:
    """A placement tells which rule was taken and why those before it passed."""
    text = f"name: provided\n{NAMESPACE}"

    assert str(place(text, submitted("a"))) == "placed in root.a by placementrules[0] provided"
    assert str(place(text, submitted(tags={"namespace": "b"}))) == (
        "placed in new queue root.b by placementrules[1] tag namespace; earlier rules:\n"
        "  placementrules[0] provided: the application names no queue"
    )


UNKNOWN = "unknown placement rule (allowed: fixed, provided, tag, user)"
NO_QUEUE = "a fixed rule needs a queue: names separated by single dots"
TWO_STARTS = "a path that starts with 'root' cannot be combined with a parent rule"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (PlacementRule(name="recovery"), f"placementrules[0].name 'recovery': {UNKNOWN}"),
        (PlacementRule(name="user", parent=PlacementRule(name="x")), f"placementrules[0].parent.name 'x': {UNKNOWN}"),
        (PlacementRule(name="tag"), "placementrules[0].value '': a tag rule needs the name of a tag"),
        (PlacementRule(name="fixed"), f"placementrules[0].value '': {NO_QUEUE}"),
        (PlacementRule(name="fixed", value="a b", create=True), f"placementrules[0].value 'a b': {NO_QUEUE}"),
        (PlacementRule(name="fixed", value="\u212a"), f"placementrules[0].value '\u212a': {NO_QUEUE}"),
        (PlacementRule(name="fixed", value="root.root"), f"placementrules[0].value 'root.root': {NO_QUEUE}"),
        (
            PlacementRule(name="fixed", value="root.a", parent=PlacementRule(name="user")),
            f"placementrules[0].value 'root.a': {TWO_STARTS}",
        ),
    ],
)
def test_rules_that_never_work(rule: Wrong, message: str) -> None:
    """A rule that nobody knows, or that can never find a queue, is refused when the rules are compiled."""
    with pytest.raises(RequestError) as caught:
        PlacementRules([rule])

    assert str(caught.value) == message


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
@example("root." + "a." * 100_000)
def test_any_text_is_answered(text: str) -> None:
    """No text that is submitted is an error, however long or odd."""
    found = place(f"name: provided\n{NAMESPACE}", submitted(text, {"namespace": text}))

    assert len(str(found)) < 1000


EVERYBODY = [UserGroup("ana", ("dev",)), UserGroup("bob", ("ops", "test")), UserGroup("sue")]


def allowed(kind: str = "", users: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> list[str]:
    """Return the names of those whom a filter allows."""
    found = Filter.compile(FilterConfig(type=kind, users=users, groups=groups))
    return [user.name for user in EVERYBODY if found is None or found.allows(user)]


@pytest.mark.parametrize(
    ("pattern", "named"),
    [("^a", ["ana"]), ("[ab]", ["ana", "bob"]), ("u.*", ["sue"]), ("b$", ["bob"]), ("(?i)^SUE$", ["sue"]), ("^n", [])],
)
def test_patterns(pattern: str, named: list[str]) -> None:
    """One name with a sign of a regular expression is one, and is searched for anywhere in the name."""
    assert allowed("allow", users=(pattern,)) == named


@pytest.mark.parametrize(
    "pattern",
    ["(" * 500 + ")" * 500, "(a", "a)", "*a", "a**", "a{3,2}", r"\pL+", "(?=a", "a(?i)b", "[[:alpha:]]", "[a&&b]"],
)
def test_invalid_patterns(pattern: str) -> None:
    """A pattern that cannot be compiled is refused."""
    with pytest.raises(RequestError, match="invalid regular expression: "):
        Filter.compile(FilterConfig(users=(pattern,)))


def test_long_patterns() -> None:
    """A pattern has at most 1,000 characters."""
    assert Filter.compile(FilterConfig(users=("a" * 999 + "*",))) is not None
    with pytest.raises(RequestError) as caught:
        Filter.compile(FilterConfig(users=("a" * 1000 + "*",)))

    assert caught.value.reason == "it has 1001 characters (allowed: up to 1000)"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"type": "denied"}, "filter.type 'denied': expected 'allow' or 'deny'"),
        ({"users": ("[a",)}, "filter.users '[a': invalid regular expression: unterminated character set at position 0"),
        (
            {"users": ("a{" + "9" * 20 + "}",)},
            f"filter.users 'a{{{'9' * 20}}}': invalid regular expression: the repetition number is too large",
        ),
        ({"groups": ("x", "y"), "users": "ana"}, "users 'ana': expected a sequence"),
        ({"users": (7,)}, "users 7: expected a text"),
        ({"groups": ("a", "x" * 257)}, f"filter.groups {'x' * 257!r}: a name has 1 to 256 characters"),
    ],
)
def test_wrong_filters(spec: dict[str, Wrong], message: str) -> None:
    """A filter of unknown type, a broken pattern, and one text in place of several names are refused."""
    with pytest.raises(RequestError) as caught:
        Filter.compile(FilterConfig(**spec))

    assert str(caught.value) == message
