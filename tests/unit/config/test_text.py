"""Reading files and texts, reporting everything at once, and writing configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.config_cases import problems_of
from ugm._documents.loader import MAX_BYTES, MAX_PROBLEMS
from ugm.config import dump_config, load_config, parse_config
from ugm.errors import ConfigError, printable


def test_problem_text() -> None:
    """A problem reads like that of a compiler: file, line, column, path, sentence, code."""
    with pytest.raises(ConfigError) as caught:
        parse_config("partitions:\n- queues: [{name: a b}]\n", file="q.yaml")

    assert str(caught.value) == (
        "q.yaml:2:19: partitions[0].queues[0].name: 'a b' is not a valid queue name (allowed: "
        "1 to 64 letters, digits and characters of _:#/@-) [queue-name-invalid]\n"
        "    - queues: [{name: a b}]\n"
        "                      ^"
    )


@pytest.mark.parametrize(
    "text",
    [
        "[" + "!a b, " * 2000 + "]",
        "partitions: [" + "x, " * 2000 + "]",
        "partitions: [" + "{a: 1}, " * 2000 + "]",
        "partitions: [{queues: [{limits: [{users: [" + "[], " * 2000 + "]}]}]}]",
        "partitions: [{queues: [{limits: [" + "{maxapplications: x}, " * 2000 + "]}]}]",
        "partitions: [{queues: [{name: a, limits: [" + "{}, " * 2000 + "]}]}]",
        "[!a b, {<<: [c]" + ", []: d" * 2000 + "}]",
    ],
    ids=["tags", "shapes", "fields", "texts", "counts", "rules", "keys"],
)
def test_too_many_problems(text: str) -> None:
    """After a thousand problems no more are looked for in any step, and a last one says so."""
    problems = problems_of(text)

    assert len(problems) == MAX_PROBLEMS + 1 == 1001
    assert [problem for problem in problems if "too-many-problems" in problem] == problems[-1:]
    assert problems[-1].endswith(" too-many-problems\n\ntoo many problems; the rest of the text was not checked")
    assert problems[-1].split()[0] == problems[-2].split()[0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing.yaml", "No such file or directory"), (".", "Is a directory"), ("a\0b", "embedded null byte")],
)
def test_unreadable_files(tmp_path: Path, name: str, reason: str) -> None:
    """What cannot be read has one problem, which is at no line."""
    file = f"{tmp_path}/{name}"

    with pytest.raises(ConfigError) as caught:
        load_config(file)

    assert str(caught.value) == printable(f"{file}: the file cannot be read: {reason} [file-unreadable]")


TOO_LARGE = "the text is too large (allowed: up to 8388608 bytes) [text-too-large]"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a: b\nc: d\xe9\n", "2:5: the byte 0xE9 is not UTF-8 [text-invalid]"),
        (b"\xc3\xa9: \xff", "1:4: the byte 0xFF is not UTF-8 [text-invalid]"),
        (b"a\r\xc2\x85\r\nbc\xff", "4:3: the byte 0xFF is not UTF-8 [text-invalid]"),
        (b"\xff\xfea\0", "1:1: the byte 0xFF is not UTF-8 [text-invalid]"),
        (b"a: \0", "1:4: the character U+0000 is not allowed in a text [text-invalid]"),
        (b"x" * (MAX_BYTES + 1), f"1:1: {TOO_LARGE}"),
        (b"\xef\xbb\xbf" + b"#" * (MAX_BYTES - 2), f"1:1: {TOO_LARGE}"),
        (b"\xff" * (MAX_BYTES + 1), f"1:1: {TOO_LARGE}"),
    ],
    ids=[
        "latin-1",
        "after a letter of two bytes",
        "after other ends of lines",
        "utf-16",
        "NUL",
        "large",
        "large with a mark",
        "large and not UTF-8",
    ],
)
def test_files_that_are_no_text(tmp_path: Path, content: bytes, problem: str) -> None:
    """What is no text, or too large a one, is refused before it is parsed."""
    file = tmp_path / "queues.yaml"
    file.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        load_config(file)

    assert str(caught.value).split("\n")[0] == f"{file}:{problem}"


def test_dump_is_readable() -> None:
    """What is written has the names of the file, short quantities, and no defaults."""
    config = parse_config(
        "partitions: [{queues: [{name: a, limits: [{users: [yes], maxresources: {memory: 2048Mi}}]}]}]"
    )

    assert dump_config(config) == (
        "partitions:\n- queues:\n  - name: a\n    limits:\n"
        "    - users:\n      - 'yes'\n      maxresources:\n        memory: 2Gi\n"
    )
