"""The loader: YAML to plain data with places, and what it refuses to build."""

from __future__ import annotations

import pytest
import yaml

import ugm._documents.loader
from support.config_cases import problems_of, table
from ugm._documents.builder import (
    MAX_ALIASED,
    MAX_VALUES,
    UNUSABLE,
    Quoted,
    line_and_column,
    locate,
)
from ugm._documents.loader import MAX_BYTES, load

STRUCTURE = table("""
a key given twice
partitions:
- queues: []
  name: a
  name: b
----
4:3 yaml-key-duplicate
partitions[0].name
the key 'name' is given twice, first in line 3
====
tags that mean nothing
partitions:
- queues: !foo []
  name: !!binary aGk=
----
2:11 yaml-tag-unknown
partitions[0].queues
unknown tag '!foo' (allowed: null, bool, int, float, str, seq and map)
3:9 yaml-tag-unknown
partitions[0].name
unknown tag 'tag:yaml.org,2002:binary' (allowed: null, bool, int, float, str, seq and map)
====
a tag that would run a program
partitions: !!python/object/apply:os.system [ls]
----
1:13 yaml-tag-unknown
partitions
unknown tag 'tag:yaml.org,2002:python/object/apply:os.system' (allowed: null, bool, int, float, str, seq and map)
====
an anchor that contains itself
partitions: &p
- queues: *p
----
1:13 yaml-alias-recursive
partitions[0].queues
an anchor contains itself
====
keys that are no texts
partitions:
- queues: []
  [a]: b
  ? {c: d}
  : e
----
3:3 yaml-key-invalid
partitions[0]
a key must be a text, not a list or a mapping
4:5 yaml-key-invalid
partitions[0]
a key must be a text, not a list or a mapping
====
a merge key with a text
partitions:
- queues: []
  <<: 5
----
3:3 yaml-merge-invalid
partitions[0]
the value of a merge key must be a mapping or a list of mappings
====
a merge key with a list of which one is no mapping
partitions:
- queues: []
  <<: [{name: x}, 5]
----
3:3 yaml-merge-invalid
partitions[0]
the value of a merge key must be a mapping or a list of mappings
""")

PLACES = """\
a:
- b: 1
  c: [x,
    y]
- {<<: &m {b: 3}}
- {<<: *m, b: 2}
"""


@pytest.fixture(params=["CBaseLoader", "BaseLoader"], autouse=True)
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run everything with the parser in C, if there is one, and with that in Python."""
    parser = getattr(yaml, request.param, yaml.BaseLoader)
    monkeypatch.setattr(ugm._documents.loader, "_Parser", parser)


@pytest.mark.parametrize(("text", "problems"), STRUCTURE)
def test_structure(text: str, problems: list[str]) -> None:
    """What cannot be data is reported at its place."""
    assert problems_of(text) == problems


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: b: c\n", "1:5"),
        ("partitions: [\n", "2:1"),
        ("a:\n\t- b\n", "2:1"),
        ("'a", "1:3"),
    ],
)
def test_syntax(text: str, place: str) -> None:
    """What is no YAML has one problem, where the parser gave up."""
    (problem,) = problems_of(text)

    assert problem.startswith(f"{place} yaml-syntax\n")
    assert "\ninvalid YAML: " in problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", "010"),
        ("1_000", "1_000"),
        ("1e3", "1e3"),
        ("0x10", "0x10"),
        ("1:30", "1:30"),
        ("2026-11-20", "2026-11-20"),
        ("yes", "yes"),
        ("true", "true"),
        ("=", "="),
        ("!!int 5", "5"),
        ("!!bool true", "true"),
    ],
)
def test_scalars_stay_text(text: str, value: str) -> None:
    """No scalar becomes a number, a boolean or a date by itself."""
    data = load(text, "x").data

    assert (type(data), data) == (str, value)


@pytest.mark.parametrize("text", ["'5'", '"5"', "|-\n  5\n", ">-\n  5\n"])
def test_quoted_scalars(text: str) -> None:
    """A scalar in quotes or in a block is a text for certain."""
    data = load(text, "x").data

    assert (type(data), data) == (Quoted, "5")


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL", "# nothing"])
def test_nothing(text: str) -> None:
    """The plain words for nothing are None."""
    assert load(text, "x").data is None


def test_keys_are_texts() -> None:
    """A key is a text even if it looks like nothing or like a number, and may be an alias of a text."""
    assert load("{~: &a b, 5: c, *a : d, null: e}", "x").data == {"~": "b", "5": "c", "b": "d", "null": "e"}


def test_anchors() -> None:
    """An alias stands for what its anchor holds."""
    assert load("[&a 1, *a, &b {c: *a}, *b]", "x").data == ["1", "1", {"c": "1"}, {"c": "1"}]


def test_merge_keys() -> None:
    """A merge key brings what the mapping does not say itself; of several mappings the first wins."""
    text = "[&a {x: 1, y: 1}, &b {y: 2, z: 2}, {<<: [*a, *b], x: 0}, {<<: *b, '<<': 3}]"

    assert load(text, "x").data[2:] == [{"x": "0", "y": "1", "z": "2"}, {"y": "2", "z": "2", "<<": "3"}]


def test_unusable_values() -> None:
    """What cannot be used is set aside, and the rest is read."""
    document = load("[!foo a, &c [*c], !bar {d: e}, f, {[g]: h, <<: i, j: k}]", "x")

    assert document.data == [UNUSABLE, [UNUSABLE], UNUSABLE, "f", {"j": "k"}]
    assert len(document.problems) == 5


@pytest.mark.parametrize(
    ("path", "key", "place"),
    [
        ((), False, (1, 1)),
        (("a",), False, (1, 1)),
        (("a", 0, "b"), False, (2, 6)),
        (("a", 0, "b"), True, (2, 3)),
        (("a", 0, "c"), False, (3, 3)),
        (("a", 0, "c", 1), False, (4, 5)),
        (("a", 0, "missing"), False, (2, 3)),
        (("a", 7), False, (1, 1)),
        (("a", 1, "b"), False, (5, 15)),
        (("a", 2, "b"), False, (6, 15)),
    ],
)
def test_places(path: tuple[str | int, ...], key: bool, place: tuple[int, int]) -> None:  # noqa: FBT001 (parametrised)
    """A path leads to a line and column; lists and mappings are at their key; what is not there, above it."""
    document = load(PLACES, "x")

    assert line_and_column(locate(document.place, path, key=key).mark) == place


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "!!seq ["])
def test_deep_nesting(opening: str) -> None:
    """Nesting beyond the bound is refused where it is reached."""
    (problem,) = problems_of(opening * 10_000)

    assert "yaml-too-deep" in problem
    assert problem.endswith("\nlists and mappings are nested more than 100 levels deep")


def test_second_document() -> None:
    """A text with a second document is refused, whatever the document contains."""
    (problem,) = problems_of("partitions:\n- queues: []\n---\nnonsense: [1\n")

    assert problem.endswith(" yaml-second-document\n\na second document begins here (allowed: one document)")


def test_deepest_nesting() -> None:
    """A hundred levels are read."""
    assert len(load("[" * 100 + "]" * 100, "x").problems) == 0


def test_alias_bomb() -> None:
    """Aliases that stand for too much are refused before anything is built of them."""
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)]

    (problem,) = problems_of("a0: &a0 [x, x, x]\n" + "".join(levels))

    assert problem.endswith(f" yaml-aliases-too-large\na5[2]\nthe aliases stand for more than {MAX_ALIASED} values")


def test_merge_bomb() -> None:
    """Merge keys are bounded like all aliases."""
    levels = [f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}, *m{n - 1}], k{n}: v}}\n" for n in range(1, 30)]

    (problem,) = problems_of("m0: &m0 {k: v}\n" + "".join(levels))

    assert "yaml-aliases-too-large" in problem


def test_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """More values than the bound are refused where it is reached."""
    monkeypatch.setattr(ugm._documents.builder, "MAX_VALUES", 1000)

    assert MAX_VALUES == 500_000
    assert problems_of("- a\n" * 1001) == ["1000:3 yaml-too-many-values\n[999]\nthere are more than 1000 values"]


@pytest.mark.parametrize(
    ("piece", "times"), [("- aaaaaaaa\n", 1_000_000), ("a", 10_000_000), ("é", MAX_BYTES // 2 + 1)]
)
def test_large_texts(piece: str, times: int) -> None:
    """A text beyond the bound is refused unread; it is bytes that count."""
    assert problems_of(piece * times) == ["1:1 text-too-large\n\nthe text is too large (allowed: up to 8388608 bytes)"]


@pytest.mark.parametrize("directive", ["%TAG ! x:", "%FOO", "%YAM", "%"])
@pytest.mark.parametrize(
    ("before", "line"), [("", 1), ("# b\n", 2), ("%YAML 1.1\r", 2), ("--- {}\n...\n", 3), ("\ufeff", 1)]
)
def test_directives(before: str, line: int, directive: str) -> None:
    """No directive but %YAML is read, and none after the document."""
    (problem,) = problems_of(f"{before}{directive}\n--- {{}}\n")

    assert problem.startswith(f"{line}:")
    assert problem.endswith(" yaml-directive\n\na line begins with %, like a directive (allowed: %YAML)")


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x85", "\u2028", "\u2029"])
def test_lines_end_alike(end: str) -> None:
    """A character that is no text is in the line that other problems would be in."""
    assert problems_of(f"a: 1{end}{end}bc\0")[0].startswith("3:3 text-invalid\n")
    assert problems_of(f"a: 1{end}{end}b: !c d")[-1].startswith("3:4 yaml-tag-unknown\n")


@pytest.mark.parametrize("character", ["\0", "\x07", "\x1b", "\x7f", "\x80", "\ud800", "\ufffe"])
def test_characters_that_are_no_text(character: str) -> None:
    """A character that has no place in YAML is refused where it stands."""
    assert problems_of(f"a: b\nc: {character}") == [
        f"2:4 text-invalid\n\nthe character U+{ord(character):04X} is not allowed in a text"
    ]


@pytest.mark.parametrize("escape", ["\\ud800", "\\UFFFFFFFF", "\\U00110000", "\\xg0"])
def test_escapes_that_are_no_text(escape: str) -> None:
    """An escape that stands for no character is refused."""
    (problem,) = problems_of(f'partitions: [{{queues: [], name: "{escape}"}}]')

    assert problem.split()[1] in {"yaml-syntax", "text-invalid"}
