"""The files of the page: their media types, and no inline code or external resources."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from support.server_fixtures import client
from ugm.server.page_files import PageFiles, minified

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


def test_page_is_small() -> None:
    """All files together take less than 155 kB, and compressed less than 60 kB."""
    page = PageFiles()
    found = [file for path in sorted(page.paths) if (file := page.find(path))]
    assert [len(found), sum(len(file.content) for file in found) < 155_000] == [len(FILES), True]
    assert sum(len(file.compressed) for file in found) < 60_000


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith((".js", ".css"))])
def test_lines_can_be_prepared_alone(name: str) -> None:
    """No string, template or comment makes the removal of comments and indentation change the code."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    code = minified(name, text)
    for mark in ("`", '"', "/*", "*/"):
        for line in code.splitlines():
            assert line.count(mark) % 2 == 0 if mark in '`"' else mark not in line, line
    assert not re.search(r"^[^\"`]*//", code, re.MULTILINE)


def test_files_are_sent_once() -> None:
    """A browser that has a file gets no content again, and others get it compressed if they can read that."""
    one = client()
    first = one.get("/js/dom.js", headers={"accept-encoding": "gzip"})
    plain = one.get("/js/dom.js", headers={"accept-encoding": "identity"})
    refused = one.get("/js/dom.js", headers={"accept-encoding": "gzip;q=0"})
    assert (first.headers["content-encoding"], first.text) == ("gzip", plain.text)
    assert "content-encoding" not in plain.headers | refused.headers
    again = one.get("/js/dom.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = one.get("/js/dom.js", headers={"if-none-match": '"other"'})
    assert (other.status_code, other.text) == (200, plain.text)


@pytest.mark.parametrize("path", ["js", "js/none.js", "../app.py", "js/../../app.py", "%2e%2e/app.py", "index.html/"])
def test_other_files_do_not_exist(path: str) -> None:
    """Only files of the page are sent."""
    assert client().get(f"/{path}").status_code == 404


def test_modules_are_loaded_together() -> None:
    """The page links every module that its first one imports."""
    text = client().get("/").text
    linked = re.findall(r'<link rel="modulepreload" href="js/(.*)">', text)
    assert {"dom.js", "format.js", "queues.js"} <= set(linked)
    assert len(linked) == len(set(linked))
    assert "main.js" not in linked
