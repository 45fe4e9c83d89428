"""Patterns of filters: what they match, what is refused, and how long they take."""

from __future__ import annotations

import random
import re
import time
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.line_counts import lines_run_by
from ugm import RequestError, UserGroup
from ugm.config import FilterConfig
from ugm.queues import Filter
from ugm.queues.patterns import compile_pattern

#: Parts of patterns that mean the same to Python's `re`, which is what the matcher is compared with.
_ATOMS: Final = (
    "a",
    "b",
    "-",
    "_",
    "1",
    ".",
    "[ab]",
    "[^a]",
    r"\w",
    r"\W",
    r"\d",
    r"\D",
    "[a-c]",
    "[-a]",
    r"\-",
    r"\x61",
)
_ASSERTIONS: Final = ("^", r"\Z", r"\b", r"\A")
_COUNTS: Final = ("*", "+", "?", "{2}", "{1,2}", "{0,2}", "{1,}", "{0}", "*?", "+?", "??")

_patterns = st.recursive(
    st.sampled_from((*_ATOMS, *_ASSERTIONS)),
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.lists(inner, min_size=1, max_size=3).map(lambda options: f"({'|'.join(options)}|)"[:-2] + ")")
        | st.tuples(inner, st.sampled_from(_COUNTS)).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
        | inner.map("(?i:{})".format)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(500), deadline=None)
@given(_patterns, st.lists(st.text("ab_-1cA\n", max_size=6), min_size=1, max_size=8))
def test_same_answers_as_re(pattern: str, texts: list[str]) -> None:
    """A pattern matches what Python's engine says that it matches."""
    reference = re.compile(pattern, re.ASCII)
    matcher = compile_pattern(pattern.replace(r"\Z", r"\z"))

    assert [matcher.search(text) for text in texts] == [bool(reference.search(text)) for text in texts]


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("^ops", ("ops", "ops-1"), ("devops", "")),
        ("ops$", ("devops", "ops"), ("ops-1", "ops\n")),
        (r"^\w+@example\.org$", ("ana@example.org",), ("ana@exampleXorg", "añá@example.org")),
        ("(?i)^ADMIN-", ("admin-1", "Admin-x"), ("xadmin-",)),
        ("(?i:ä|[x-z])9", ("Ä9", "Z9"), ("a9",)),
        ("(?i)a(?-i)b", ("Ab",), ("AB",)),
        ("a.b", ("a-b",), ("a\nb",)),
        ("(?s)a.b", ("a\nb",), ("ab",)),
        (r"\bteam\b", ("my team 1", "team"), ("teams", "steam")),
        (r"te\Bam", ("steam",), ("te am",)),
        ("[[:alpha:]_]+[[:^digit:]]$", ("ab_c",), ("a1", "1")),
        (r"[\d-]x[]a]", ("1x]", "-xa"), ("bx]",)),
        ("^(?P<team>a|b)(?<n>c)?$", ("a", "bc"), ("c",)),
        ("a{,2}", ("a{,2}",), ("aa",)),
        (r"\x{1F600}\t", ("\U0001f600\t",), ("\U0001f600",)),
        (r"a|", ("", "x"), ()),
        ("(a{0}b){2}", ("bb",), ("b", "abab")),
        (r"^[^\n]*$", ("any name",), ("two\nlines",)),
    ],
)
def test_syntax(pattern: str, matching: tuple[str, ...], others: tuple[str, ...]) -> None:
    """The supported syntax means what it means in the peer."""
    matcher = compile_pattern(pattern)

    assert [text for text in matching if not matcher.search(text)] == []
    assert [text for text in others if matcher.search(text)] == []


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", "the group (?=a at character 1 is not supported"),
        ("x(?<!a)", "the group (?<! at character 2 is not supported"),
        ("(?>a)", "the group (?>a at character 1 is not supported"),
        ("(?m)^a", "the group (?m) at character 1 is not supported"),
        (r"(a)\1", r"the escape \1 at character 4 is not supported"),
        (r"\pL+", r"the escape \p at character 1 is not supported"),
        (r"\Q+a\E", r"the escape \Q at character 1 is not supported"),
        ("a+\\", "the escape \\ at character 3 is not supported"),
        (r"\x{110000}", r"the escape \x at character 1 is not supported"),
        ("[[:words:]]", "the class [:words:] at character 2 is not supported"),
        ("(a", "the group is not closed: it begins at character 1"),
        ("a)", "unexpected ) at character 2"),
        ("[a", "the class is not closed: it begins at character 1"),
        ("[b-a]", "a range whose ends are not two characters in order at character 2"),
        (r"[a-\d]", "a range whose ends are not two characters in order at character 2"),
        (r"[^\x00-\x{10FFFF}]", "the class has no characters: it begins at character 1"),
        ("*a", "there is nothing to repeat at character 1"),
        ("a|+", "there is nothing to repeat at character 3"),
        ("(?i)*", "there is nothing to repeat at character 5"),
        ("a**", "a repetition is repeated at character 3"),
        ("a{2}{3}", "a repetition is repeated at character 5"),
        ("a{1001}", "a repetition of more than 1000 times at character 2"),
        ("a{" + "9" * 900 + "}", "a repetition of more than 1000 times at character 2"),
        ("a{3,2}", "a repetition whose lower count is above the upper one at character 2"),
        (
            "(a{100}){11}",
            "the pattern has more than 1000 characters when its repetitions are expanded (exceeded at character 1)",
        ),
        (
            "((){500}){500}",
            "the pattern has more than 1000 characters when its repetitions are expanded (exceeded at character 1)",
        ),
        ("(" * 31 + ")" * 31, "groups are nested more than 30 deep at character 31"),
        ("a" * 1001 + "*", "it has 1002 characters (allowed: up to 1000)"),
    ],
)
def test_refused_syntax(pattern: str, reason: str) -> None:
    """What is not supported, is no pattern, or is too large is refused with its place."""
    with pytest.raises(RequestError) as caught:
        Filter.compile(FilterConfig(users=(pattern,)))

    assert (caught.value.argument, caught.value.value, caught.value.reason) == ("filter.users", pattern, reason)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|a|aa)*!", "(a?){400}a{400}", "(.*.*.*)*x", r"(a*\b)*!"])
def test_linear_time(pattern: str) -> None:
    """A pattern on which an engine that backtracks takes exponential time takes milliseconds for the longest name."""
    found = Filter.compile(FilterConfig(users=(pattern,)))
    began = time.process_time()

    assert found is not None
    found.allows(UserGroup("a" * 255 + "-"))
    found.allows(UserGroup("a" * 256))
    assert time.process_time() - began < 1


def test_steps_of_earlier_names() -> None:
    """Names that lead to the same states take a lookup for each character, for any size of the pattern."""
    matcher = compile_pattern("(a|[a-z]){100}Q")
    for name in ("aabb", "abba", "bbaa", "baab"):
        matcher.search(name * 60)

    assert lines_run_by(lambda: matcher.search("aababbb" * 36)) < 10 * 252


def test_cached_steps_are_bounded() -> None:
    """A pattern that remembers many characters has more sets of states than are cached, and the same answers."""
    matcher, draw = compile_pattern("a.{200}Q"), random.Random(1)
    names = ["".join(draw.choices("abQ", k=256)) for _ in range(12)]

    assert [matcher.search(name) for name in names] == [bool(re.search("a.{200}Q", name)) for name in names]
    assert len(matcher._steps) <= 1_000
