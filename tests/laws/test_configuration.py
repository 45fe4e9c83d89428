"""Laws of reading configurations: any input ends in a value or in a clear error, and what is written reads back."""

from __future__ import annotations

import contextlib
from typing import Final

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.config_cases import EVERYTHING
from support.examples import examples
from support.vectors import vectors
from ugm import Partition
from ugm._documents.loader import load
from ugm.config import (
    ChildTemplate,
    FilterConfig,
    LimitConfig,
    NodeSortPolicy,
    PartitionConfig,
    PlacementRule,
    PreemptionConfig,
    QueueConfig,
    QueueResources,
    SchedulerConfig,
    UserGroupResolver,
    dump_config,
    parse_config,
)
from ugm.config.assembly import Assembly
from ugm.errors import ConfigError, QuantityError, RequestError
from ugm.resources import Resource, parse_quantity

QUICK: Final = settings(max_examples=examples(150), deadline=None)

#: Texts to start from: everything that the schema has, and some that the peer has judged.
SEEDS: Final = (EVERYTHING, *(case["yaml"] for case in vectors("yunikorn/config_validation")[:40]))
#: What edits put in: the signs of YAML, and what numbers and names trip over.
FRAGMENTS: Final = (
    *(": ", "- ", ", ", "<<: ", "!!str ", "!x ", "? ", "&a ", "*a", "users: ", "queues: ", *"[]{}'\"#|>%@\n\t\0é"),
    *(
        "\n  ",
        "---\n",
        "...\n",
        "~",
        "null",
        "'*'",
        "0",
        "-1",
        "1_0",
        "1e3",
        "0x1",
        "9223372036854775808",
        "memory",
        "root",
    ),
)
#: The words of the schema, so that documents made of them get past its first question.
WORDS: Final = (
    *(
        "partitions",
        "name",
        "queues",
        "limits",
        "limit",
        "users",
        "groups",
        "maxresources",
        "maxapplications",
        "parent",
    ),
    *("resources", "max", "guaranteed", "properties", "adminacl", "childtemplate", "placementrules", "value", "create"),
    *("filter", "type", "nodesortpolicy", "resourceweights", "preemption", "enabled", "memory", "vcore", "root"),
    *("fixed", "ana", "*", "1", "010", "2Gi", "yes", "root.a", "", "~", "a b", "fair"),
)


def outcome(text: str) -> SchedulerConfig | ConfigError:
    """Read a text."""
    try:
        return parse_config(text)
    except ConfigError as error:
        return error


def check(text: str) -> None:
    """Read a text: a partition takes the result, which reads back, or every problem is at a place in the text."""
    found = outcome(text)
    if isinstance(found, SchedulerConfig):
        assert parse_config(dump_config(found)) == found
        for partition in found.partitions:
            Partition().configure(partition)
        return
    lines = len(text.splitlines()) + 1
    assert found.problems == tuple(sorted(found.problems)) != ()
    assert all(1 <= problem.line <= lines and problem.column >= 1 for problem in found.problems)
    assert all(problem.code and problem.message for problem in found.problems)
    assert str(found)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Draw a configuration with some edits: pieces taken out, put in, doubled, or moved."""
    text: str = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        piece = draw(st.sampled_from(FRAGMENTS) | st.just(text[start:end] * 2) | st.text(max_size=5))
        text = text[:start] + piece + text[end:]
    return text


documents = st.recursive(
    st.none() | st.sampled_from(WORDS) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=40,
)


@QUICK
@given(st.text())
def test_any_text(text: str) -> None:
    """Any text is a configuration or has problems."""
    check(text)


@QUICK
@given(mutated())
def test_edited_configurations(text: str) -> None:
    """A configuration with edits is a configuration or has problems."""
    check(text)


@QUICK
@given(documents)
def test_documents_of_any_shape(document: object) -> None:
    """Data of any shape is a configuration or has problems."""
    check(yaml.safe_dump(document))
    check(yaml.safe_dump({"partitions": [{"queues": document, "limits": document, "placementrules": document}]}))


@QUICK
@given(st.text() | st.from_regex(r"[0-9]{0,22}[ \t]{0,2}[mkKMGTPEi]{0,3}", fullmatch=True), st.booleans())
def test_any_quantity(text: str, vcore: bool) -> None:  # noqa: FBT001 (drawn)
    """Any text is an amount within 64 bits, or a clear error."""
    with contextlib.suppress(QuantityError):
        assert 0 <= parse_quantity(text, vcore=vcore) < 2**63


texts = st.text(max_size=8) | st.sampled_from(
    ("yes", "010", "~", "null", "*", "a: b", "- x", "'", "#", "1e3", "\x85", "\0")
)
names = st.text("abcXYZ019_-", min_size=1, max_size=4)
counts = st.integers(0, 2**63 - 1)
booleans = st.booleans()
amounts = st.dictionaries(names, counts, max_size=3).map(Resource)
resources = st.builds(QueueResources, guaranteed=st.none() | amounts, max=st.none() | amounts)
properties = st.dictionaries(texts, texts, max_size=2)
several = st.lists(texts, max_size=3).map(tuple)
limits = st.builds(
    LimitConfig, label=texts, users=several, groups=several, max_resources=st.none() | amounts, max_applications=counts
)
templates = st.builds(ChildTemplate, max_applications=counts, properties=properties, resources=resources)


def _queues(inner: st.SearchStrategy[QueueConfig]) -> st.SearchStrategy[QueueConfig]:
    return st.builds(
        QueueConfig,
        name=names,
        declared_parent=booleans,
        resources=resources,
        max_applications=counts,
        properties=properties,
        admin_acl=texts,
        submit_acl=texts,
        child_template=st.none() | templates,
        queues=st.lists(inner, max_size=2).map(tuple),
        limits=st.lists(limits, max_size=2).map(tuple),
    )


queues = st.recursive(st.builds(QueueConfig, name=names), _queues, max_leaves=4)
filters = st.builds(FilterConfig, type=texts, users=several, groups=several)
rules = st.builds(PlacementRule, name=texts, create=booleans, filter=filters, value=texts)
nested_rules = st.builds(PlacementRule, name=texts, parent=st.none() | rules)
weights = st.dictionaries(names, st.floats(allow_nan=False, allow_infinity=False), max_size=2)
partitions = st.builds(
    PartitionConfig,
    name=texts,
    queues=st.none() | st.lists(queues, max_size=2).map(tuple),
    placement_rules=st.lists(nested_rules, max_size=2).map(tuple),
    limits=st.lists(limits, max_size=1).map(tuple),
    preemption=st.builds(PreemptionConfig, enabled=st.none() | booleans, quota_preemption_enabled=st.none() | booleans),
    node_sort_policy=st.builds(NodeSortPolicy, type=texts, resource_weights=weights),
    user_group_resolver=st.builds(UserGroupResolver, type=texts),
)
configurations = st.builds(SchedulerConfig, partitions=st.lists(partitions, max_size=2).map(tuple), checksum=texts)


@settings(QUICK, suppress_health_check=[HealthCheck.too_slow])
@given(configurations)
def test_models_read_back(config: SchedulerConfig) -> None:
    """What is written of any models reads back as equal models, whether or not they keep the rules."""
    assembly = Assembly(load(dump_config(config), "x"))

    assert assembly.config() == config


_rule_names = st.sampled_from(("provided", "user", "User", "tag", "fixed", "usr", "recovery", "test", ""))
_rule_values = st.sampled_from(
    ("", "a", "root.a", "ROOT.a.b", "root", "a b", "...", "a.root", "root.root", "namespace", "é")
)
_patterns = st.sampled_from(("ana", "^a", "(a+)+$", "(?=a)", "a{2000}", "[a", "9", "*", "a|b", "(?i)x", "", "\\1+"))
_filtered = st.builds(
    FilterConfig,
    type=st.sampled_from(("", "allow", "Deny", "no")),
    users=st.lists(_patterns, max_size=2).map(tuple),
    groups=st.lists(_patterns, max_size=2).map(tuple),
)
_any_rules = st.recursive(
    st.builds(PlacementRule, name=_rule_names, value=_rule_values, create=booleans, filter=_filtered),
    lambda inner: st.builds(PlacementRule, name=_rule_names, value=_rule_values, create=booleans, parent=inner),
    max_leaves=3,
)
_lists = st.sampled_from(("", "*", " ", "a,b c", " a b", "a  b", "a b c", ",", "\ta"))


@settings(QUICK, max_examples=examples(400))
@given(st.lists(_any_rules, max_size=2), _lists, booleans)
def test_accepted_rules_are_usable(rules: list[PlacementRule], acl: str, parent: bool) -> None:  # noqa: FBT001 (drawn)
    """Whatever placement rules and access lists are accepted, a partition takes them; what it refuses is a problem."""
    queue = QueueConfig(name="a", submit_acl=acl, admin_acl=acl, declared_parent=parent)
    partition = PartitionConfig(queues=(queue,), placement_rules=tuple(rules))
    try:
        Partition(partition)
    except RequestError:
        with pytest.raises(ConfigError):
            parse_config(dump_config(SchedulerConfig(partitions=(partition,))))
    check(dump_config(SchedulerConfig(partitions=(partition,))))
