"""The loader: YAML to plain data with places, and what it refuses to build."""

from __future__ import annotations

import pytest
import yaml

import ugm._documents.loader
from support.config_cases import problems_of
from ugm._documents.loader import MAX_ALIASED, MAX_BYTES, line_and_column, load, locate

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


@pytest.mark.parametrize(
    ("text", "place"), [("a: b: c\n", "1:5"), ("partitions: [\n", "2:1"), ("a:\n\t- b\n", "2:1"), ("'a", "1:3")]
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


def test_merge_keys() -> None:
    """A merge key brings what the mapping does not say itself; of several mappings the first wins."""
    text = "[&a {x: 1, y: 1}, &b {y: 2, z: 2}, {<<: [*a, *b], x: 0}, {<<: *b, '<<': 3}]"

    assert load(text, "x").data[2:] == [{"x": "0", "y": "1", "z": "2"}, {"y": "2", "z": "2", "<<": "3"}]


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
    (problem,) = problems_of(opening * 2_000)

    assert "yaml-too-deep" in problem
    assert problem.endswith("\nlists and mappings are nested more than 100 levels deep")


def test_alias_bomb() -> None:
    """Aliases that stand for too much are refused before anything is built of them."""
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)]

    (problem,) = problems_of("a0: &a0 [x, x, x]\n" + "".join(levels))

    assert problem.endswith(f" yaml-aliases-too-large\na5[2]\nthe aliases stand for more than {MAX_ALIASED} values")


@pytest.mark.parametrize(
    ("piece", "times"), [("- aaaaaaaa\n", 1_000_000), ("a", 10_000_000), ("é", MAX_BYTES // 2 + 1)]
)
def test_large_texts(piece: str, times: int) -> None:
    """A text beyond the bound is refused unread; it is bytes that count."""
    assert problems_of(piece * times) == ["1:1 text-too-large\n\nthe text is too large (allowed: up to 8388608 bytes)"]
