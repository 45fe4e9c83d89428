"""The examples of elastic quotas run and have the effects that they describe."""

from __future__ import annotations

import runpy

import pytest

from support.places import EXAMPLES


def said(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that an example prints."""
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_document(capsys: pytest.CaptureFixture[str]) -> None:
    """The worked example gives 5, 20, 35 and 40, and shows the rounds."""
    lines = said("elastic_sharing.py", capsys)

    assert lines[-2:] == [
        "round 2 divides 9 by a total weight of 130: {'C': 3, 'D': 6}",
        "runtimes: {'A': 5, 'B': 20, 'C': 35, 'D': 40}",
    ]


def test_departments(capsys: pytest.CaptureFixture[str]) -> None:
    """GPUs are borrowed at night and returned in the morning; a minimum that is not lent stays."""
    lines = said("elastic_departments.py", capsys)
    shown = [line.replace(",", "").split() for line in lines]

    assert [row[4] for row in shown if row[:1] == ["language"] and len(row) > 4] == ["26", "16", "16", "8"]
    assert [row[4] for row in shown if row[:1] == ["serving"]] == ["6", "6", "6", "3"]
    assert "training-1 waits; it fits its quota, but only 3 GPUs are free" in lines
    assert "language returns language-4, language-5." in lines
