"""The files of the page: their media types, and no inline code or external resources."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from support.server_fixtures import client

FOLDER = Path(str(files("ugm.server") / "page"))
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", FILES)
def test_files_have_their_types(name: str) -> None:
    """Each file is served with its media type; a browser refuses a module of another type."""
    answer = client().get(f"/{name}")
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, TYPES[Path(name).suffix])
    assert "script-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_inline_or_from_elsewhere(name: str) -> None:
    """No file contains inline scripts or styles, or the address of another server."""
    text = (FOLDER / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert "http" not in re.sub(r"https?\b(?!:)", "", text)
    assert not re.search(r"<style|<script>|\sstyle=|\son[a-z]+=\"|innerHTML|eval\(", text)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_modules_import_existing_files(name: str) -> None:
    """Each module begins with a description, and imports existing files."""
    path = FOLDER / name
    text = path.read_text(encoding="utf-8")
    assert text.startswith("/**\n * ")
    for found in re.findall(r'^import .* from "(.*)";$', text, re.MULTILINE):
        assert (path.parent / found).is_file(), found
