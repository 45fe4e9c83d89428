"""Every code block of the README and the documentation is executed, or covered by a named test.

Sybil runs the blocks in Python. The tests below run or check the others.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

from support import doc_examples
from support.commands import run
from support.places import DOCS, EXAMPLES, ROOT
from ugm import Resource, UserGroup, parse_config
from ugm.store import open_partition

PAGES: Final = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("*/*.md")])
#: Blocks that Sphinx reads; the build of the documentation covers them.
DIRECTIVES: Final = frozenset(
    ("{eval-rst}", "{toctree}", "{include}", "{literalinclude}", "{image}", "{glossary}", "{ugm-table}")
)
#: Blocks that a test of their page executes.
COVERED: Final = {
    "console": {
        "cli.md": "tests/docs/test_cli_page.py",
        "any-language.md": "tests/system/integrations/test_rest_clients.py",
        "kubernetes-webhook.md": "tests/system/integrations/test_kubernetes_example.py",
    }
}


class Block(NamedTuple):
    """A code block of a page."""

    page: Path
    line: int
    language: str
    text: str


def blocks() -> list[Block]:
    """Return all code blocks of all pages."""
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, match[2], match[3])
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for match in re.finditer(r"^(`{3,})([^\n]*)\n(.*?)^\1$", text, re.MULTILINE | re.DOTALL)
    ]


BLOCKS: Final = blocks()


def of(*languages: str) -> list[Block]:
    """Return the blocks in some languages."""
    return [block for block in BLOCKS if block.language in languages]


def statements(block: Block) -> list[int]:
    """Return the lines where the examples of a block in Python begin: each prompt, or the block."""
    lines = enumerate(block.text.splitlines(), block.line + 1)
    return [number for number, line in lines if line.startswith(">>> ")] or [block.line]


def place(value: object) -> str | None:
    """Name a block in the output of pytest."""
    return f"{value.page.name}:{value.line}" if isinstance(value, Block) else None


def test_languages_are_known() -> None:
    """Each block is in a language that is executed or checked."""
    checked = {"python", "sh", "yaml", "json", *COVERED}

    assert [
        block for block in BLOCKS if block.language not in checked and block.language.split()[0] not in DIRECTIVES
    ] == []


def test_python_blocks_are_examples() -> None:
    """Sybil finds every block in Python, and no page skips one."""
    for page in PAGES:
        executed = {example.line for example in doc_examples.PAGES.parse(page).examples()}
        expected = {line for block in of("python") if block.page == page for line in statements(block)}

        assert expected <= executed, page.name
        assert not re.search(r"<!--+ *skip", page.read_text(encoding="utf-8")), page.name


def test_covered_blocks_are_where_their_tests_expect_them() -> None:
    """Blocks with tests of their own stand on the pages that these tests read."""
    for language, pages in COVERED.items():
        assert {block.page.name for block in of(language)} == set(pages)
        for page, test in pages.items():
            assert page in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("block", of("yaml"), ids=place)
def test_yaml_blocks_are_configurations(block: Block) -> None:
    """A block in YAML is a configuration or a part of a partition, except the example with problems."""
    given = yaml.safe_load(block.text)
    if "maxaplications" in block.text:
        return
    if "partitions" not in given:
        given = {"partitions": [{"queues": [], **given}]}

    assert parse_config(yaml.safe_dump(given)).partitions


@pytest.mark.parametrize("block", of("json"), ids=place)
def test_json_blocks_are_objects(block: Block) -> None:
    """A block in JSON has one object per line."""
    assert all(isinstance(json.loads(line), dict) for line in block.text.splitlines())


#: A page whose commands are requests, which `test_rest_operations.py` sends.
_REQUESTS: Final = "rest-operations.md"
COMMANDS: Final = [
    (block, line) for block in of("sh") if block.page.name != _REQUESTS for line in block.text.splitlines()
]
#: The lines of the bundled workload that the commands replay.
_LINES: Final = 500


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the examples, of which the workload is shortened, and a store."""
    folder = tmp_path_factory.mktemp("commands")
    shutil.copytree(EXAMPLES, folder / "examples")
    with gzip.open(EXAMPLES / "grid.swf.gz") as workload:
        (folder / "examples/grid.swf.gz").write_bytes(gzip.compress(b"".join(itertools.islice(workload, _LINES))))
    with open_partition(str(folder / "quota.db")) as partition:
        partition.adopt_application("app-1", UserGroup("ana"), "root.batch")
        partition.allocate("app-1-0", "app-1", Resource(vcore=1000))
    return folder


@pytest.mark.parametrize(("block", "command"), COMMANDS, ids=place)
def test_commands(block: Block, command: str, folder: Path) -> None:
    """A command of `ugm` succeeds; the others name scripts and extras that exist, or are those that `.ci/run` runs."""
    program, *arguments = command.split()
    if program == "ugm":
        with contextlib.chdir(folder):
            result = run(*arguments)
        assert result.exit_code == 0, result.output
    elif program == "python":
        assert (ROOT / arguments[0]).is_file()
    elif program.startswith((".venv/bin/", ".ci/")):
        assert program in (".venv/bin/pytest", ".venv/bin/pip", ".venv/bin/python", ".ci/run")
    else:
        assert program in ("python3", "pip"), f"{block.page.name}: unknown command {command!r}"
        extras = re.findall(r"\[([a-z,]+)\]", command)
        known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
        assert {extra for part in extras for extra in part.split(",")} <= set(known)


def test_commands_of_the_readme_run_in_ci() -> None:
    """`.ci/run` executes the two commands of the README."""
    commands = [command for block, command in COMMANDS if block.page.name == "README.md"]

    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv") for command in commands)
    assert "grep -E '^python3 -m venv' README.md" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
