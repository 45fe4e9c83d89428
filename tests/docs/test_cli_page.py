"""The page on the command has the output that the commands print."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from support.commands import run
from support.places import DOCS, EXAMPLES

PAGE: Final = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
RECORDED: Final = re.findall(r"```console\n\$ ugm ([^\n]*)\n(.*?)```", PAGE, re.DOTALL)


def words(text: str) -> list[str]:
    """Return the words of a report without the speed of a replay."""
    return re.sub(r"in [0-9.]+ s, [0-9,]+ per second", "in - s, - per second", text).split()


#: The outputs as parameters of a test. A simulation takes long.
CASES: Final = [
    pytest.param(arguments, recorded, id=name, marks=pytest.mark.ci if name == "simulate" else ())
    for arguments, recorded in RECORDED
    for name in [arguments.split()[0]]
]


@pytest.mark.parametrize(("arguments", "recorded"), CASES)
def test_recorded_output(arguments: str, recorded: str, tmp_path: Path) -> None:
    """A command prints what the page shows, except for blanks and speed."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    for name, text in re.findall(r"File `([a-z.]+)`:\n\n```yaml\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(text, encoding="utf-8")
    with contextlib.chdir(tmp_path):
        printed = run(*arguments.split(), columns=80).output

    assert words(printed) == words(recorded)
