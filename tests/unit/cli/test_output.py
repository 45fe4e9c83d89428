"""The output of commands: text from files is literal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from ugm.cli.output import section, table


def test_a_section_is_literal() -> None:
    """Neither its heading nor the headings and cells of its table are markup or control sequences."""
    found = StringIO()
    text = "[/x] \x1b[31m"

    section(Console(file=found, width=80), f"Compared to {text}", table(text, "b", rows=[(f"cell {text}", "")]))

    assert [line.strip() for line in found.getvalue().splitlines()] == [
        "",
        r"Compared to [/x] \x1b[31m",
        r"[/x] \x1b[31m       b",
        r"cell [/x] \x1b[31m",
    ]
