"""The files of the web page, prepared for browsers: without comments and indentation, compressed, and with an ETag.

The page is HTML, CSS and JavaScript modules without a build step. The server reads a file when it is first requested,
and keeps it in memory. Browsers revalidate it by its ETag, so a new version of the package is visible at once.

The preparation works on lines. A comment has lines of its own, except casts such as ``/** @type {Event} */``, and
no string or template contains a line break; tests check both.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple, final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ugm.server.representation import accepts_gzip

__all__ = ["PageFile", "PageFiles", "minified"]

_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_START: Final = "index.html"
#: The first module that the page loads.
_MAIN: Final = "js/main.js"
_CAST: Final = re.compile(r"/\*\* @(?:type|template) .*?\*/ ?")
#: Operators and punctuation of JavaScript and CSS that need no spaces around them.
_JS_SPACES: Final = re.compile(r" ?(=>|===|!==|&&|\|\||\?\?|[=?:,{}]) ?")
_CSS_SPACES: Final = re.compile(r"(?<=[:,]) +| +(?=\{)")
#: Line breaks that separate nothing, and semicolons before the end of a block.
_JS_BREAKS: Final = re.compile(r"(?<=[{(\[,;])\n|\n(?=[})\]])")
_CSS_BREAKS: Final = re.compile(r";?\n(?=\})|\n")
_TEXT: Final = re.compile(r'("(?:[^"\\]|\\.)*")')
_IMPORT: Final = re.compile(r'^(?:import|export) .*?"\./([^"]+)";$', re.MULTILINE)


class PageFile(NamedTuple):
    """A file as it is sent."""

    content: bytes
    #: The same, compressed with gzip.
    compressed: bytes
    media_type: str
    etag: str


@final
class PageFiles:
    """The files of the page by path; files outside their folder do not exist."""

    __slots__ = ("_folder", "_prepared", "paths")

    #: The paths of all files.
    paths: frozenset[str]
    #: The files that were requested so far.
    _prepared: dict[str, PageFile]

    def __init__(self) -> None:
        self._folder: Final = Path(str(files("ugm.server") / "page"))
        self.paths = frozenset(
            path.relative_to(self._folder).as_posix() for path in self._folder.rglob("*") if path.is_file()
        )
        self._prepared = {}

    def find(self, path: str) -> PageFile | None:
        """Return a file, or None if there is none; an empty path is the page itself."""
        path = path or _START
        if path not in self.paths:
            return None
        if path not in self._prepared:
            self._prepared[path] = self._prepare(path)
        return self._prepared[path]

    def _prepare(self, path: str) -> PageFile:
        text = minified(path, self._text(path))
        if path == _START:
            # A browser loads all modules at once, instead of each after the one that imports it.
            links = (f'<link rel="modulepreload" href="{name}">\n' for name in self._imported(_MAIN))
            text = text.replace("</head>", f"{''.join(links)}</head>")
        content = text.encode()
        etag = f'W/"{sha256(content).hexdigest()[:20]}"'
        return PageFile(content, gzip.compress(content, mtime=0), _MEDIA_TYPES[PurePosixPath(path).suffix], etag)

    def _imported(self, path: str) -> list[str]:
        """Return the modules that a module imports, directly or not, without those that it loads on demand."""
        found = [path]
        for one in found:
            names = (str(PurePosixPath(one).parent / name) for name in _IMPORT.findall(self._text(one)))
            found += [name for name in dict.fromkeys(names) if name not in found]
        return found[1:]

    def _text(self, path: str) -> str:
        return (self._folder / path).read_text(encoding="utf-8")

    async def endpoint(self, request: Request) -> Response:
        """Send a file.

        Raises:
            HTTPException: there is no such file.
        """
        found = self.find(request.path_params["path"])
        if found is None:
            raise HTTPException(404)
        headers = {"etag": found.etag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if found.etag in re.split(r"\s*,\s*", request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=headers)
        headers["content-type"] = found.media_type
        if not accepts_gzip(request.headers):
            return Response(found.content, headers=headers)
        return Response(found.compressed, headers={**headers, "content-encoding": "gzip"})


def minified(path: str, text: str) -> str:
    r"""Return a script or style without comments, indentation and needless line breaks, and other files unchanged.

    >>> minified("a.js", "/** Increment. */\nfunction f(/** @type {any} */ x) {\n  // By 1.\n  return x + 1;\n}\n")
    'function f(x){return x + 1;}\n'
    """
    if not path.endswith((".js", ".css")):
        return text
    spaces, breaks = (_JS_SPACES, _JS_BREAKS) if path.endswith(".js") else (_CSS_SPACES, _CSS_BREAKS)
    return breaks.sub("", "".join(f"{line}\n" for line in _code_lines(text, spaces)))


def _without_spaces(code: str, spaces: re.Pattern[str]) -> Iterator[str]:
    """Yield the texts in quotes as they are, and the code between them without spaces."""
    for number, part in enumerate(_TEXT.split(code)):
        yield part if number % 2 else spaces.sub(r"\1" if spaces.groups else "", part)


def _code_lines(text: str, spaces: re.Pattern[str]) -> Iterator[str]:
    in_comment = False
    for line in text.splitlines():
        code = _CAST.sub("", line).strip()
        in_comment = in_comment or code.startswith("/*")
        if not in_comment and code and not code.startswith("//"):
            yield code if "`" in code else "".join(_without_spaces(code, spaces))
        in_comment = in_comment and not code.endswith("*/")
