"""Serves the console's static files, without a login: they say nothing of the pool.

`/assets/` has files that are named by their content. Every other page of the console is its
`index.html`, which looks at the address itself; so a link into the console answers it too. Paths
of the server's own routes, and everything below /api, are none of its pages.

A build or an upgrade may replace the files while the server runs: a page, and an asset that is not
known, look whether the folder has changed. Assets of the build before stay in memory for the pages
that are open.
"""

from __future__ import annotations

import gzip
import html
import importlib.util
import mimetypes
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool.base.errors import RouteNotFound
from gpupool.server.console.headers import make_file_headers, make_page_headers, new_nonce
from gpupool.server.console.languages import choose_language
from gpupool.server.http.problems import problem_response, shorten_text

PACKAGE: Final = "gpupool_console"
#: Where `make console` builds it, if this is a source tree.
_SOURCE_TREE: Final = Path(__file__).parents[4] / "console" / PACKAGE
ASSETS: Final = "assets"
_INDEX: Final = "index.html"
_NONCE_META: Final = re.compile(r'<meta\s+name="csp-nonce"[^>]*>')
_FOREVER: Final = "public, max-age=31536000, immutable"
#: Types that shrink; fonts and pictures are compressed already.
_TEXTS: Final = ("text/", "application/javascript", "application/json", "image/svg+xml")
_SMALLEST_BYTES: Final = 1024
#: Assets of builds before that stay in memory at most, those that were read last: two builds or so.
_KEPT_BYTES: Final = 16 * 2**20

_ABSENT: Final[Mapping[str, tuple[str, str]]] = {
    "en": (
        "console not built: make console",
        (
            "The pool runs; its command line and its REST API work. The web console is a package of "
            "its own: install gpupool-console, or build it in a source tree with make console, then "
            "restart the pool."
        ),
    ),
    "zh": (
        "控制台尚未构建：make console",
        (
            "资源池正在运行，命令行和 REST API 均可使用。网页控制台是独立的软件包：请安装 gpupool-console，"
            "或在源码目录中执行 make console 构建，然后重启资源池。"
        ),
    ),
}


@dataclass(frozen=True)
class _StaticFile:
    """One file in memory, as it is and compressed where that helps."""

    body: bytes
    compressed: bytes | None
    media_type: str


@dataclass(frozen=True)
class _Folder:
    """The console's files at one time. `mark` is another one once they are replaced."""

    mark: tuple[object, ...]
    paths: Mapping[str, Path]


def find_static() -> Path | None:
    """Return the folder of the console's files: of the package, else as the source tree built them.

    None where there are none.
    """
    spec = importlib.util.find_spec(PACKAGE)
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    for package in (*map(Path, places), _SOURCE_TREE):
        folder = package / "static"
        if (folder / _INDEX).is_file():
            return folder
    return None


class ConsoleFiles:
    """ASGI layer that answers the console's files and pages, and hands on every other request.

    Args:
        app: What answers the others.
        folder: The console's files; None: it is not built, and its pages say so.
        routes: Paths of the app's routes that answer GET. Their first parts are no pages.
    """

    def __init__(self, app: ASGIApp, folder: Path | None, routes: Iterable[str]) -> None:
        self._app = app
        self._folder = folder
        self._reserved = {path.split("/")[1] for path in routes} | {"api"}
        # Looked up by their whole path: no request names a file that is not among them.
        self._found = _Folder((), {}) if folder is None else _list_folder(folder)
        self._files: dict[str, _StaticFile] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._find_answer(scope) if scope["type"] == "http" else None
        if response is None:
            await self._app(scope, receive, send)
            return
        await response(scope, receive, send)

    async def _find_answer(self, scope: Scope) -> Response | None:
        if scope["method"] not in ("GET", "HEAD"):
            return None
        path = str(scope["path"])
        first = path.split("/")[1] if path.startswith("/") else ""
        if path != f"/{_INDEX}":
            if first == ASSETS and path not in self._files and path not in self._found.paths:
                await self._look_again()
            found = await self._load_file(path)
            if found is not None:
                return _answer_file(scope, path, found)
        if first == ASSETS:
            # Never index.html: a page of an older build would run it as a script.
            missing = RouteNotFound(
                f"the console has no {shorten_text(path)}", hint="load its page again"
            )
            return problem_response(missing)
        if first in self._reserved or not (path == "/" or _wants_page(scope)):
            return None
        return await self._answer_page(scope)

    async def _look_again(self) -> None:
        """List the folder again if its files were replaced."""
        if self._folder is None:
            return
        found = await run_in_threadpool(_list_changed, self._folder, self._found)
        if found is self._found:
            return
        self._found = found
        files = dict[str, _StaticFile]()
        room = _KEPT_BYTES
        for path, file in reversed(self._files.items()):
            room -= 0 if path in found.paths else len(file.body)
            # Files that are not assets have one name in every build, and are read again.
            if path.startswith(f"/{ASSETS}/") and room >= 0:
                files[path] = file
        self._files = dict(reversed(files.items()))

    async def _load_file(self, path: str) -> _StaticFile | None:
        found = self._files.get(path)
        place = self._found.paths.get(path)
        if found is not None or place is None:
            return found
        try:
            found = await run_in_threadpool(_read_file, place)
        except FileNotFoundError:
            # Replaced since the folder was listed.
            return None
        self._files[path] = found
        return found

    async def _answer_page(self, scope: Scope) -> Response:
        nonce = new_nonce()
        await self._look_again()
        index = None if self._folder is None else await run_in_threadpool(_read_index, self._folder)
        text = _format_absent(choose_language(scope)) if index is None else _set_nonce(index, nonce)
        headers = make_page_headers(nonce, secure=scope.get("scheme") == "https")
        headers["Vary"] = "Accept, Accept-Language"
        return Response(text, 200, headers, "text/html; charset=utf-8")


def _answer_file(scope: Scope, path: str, found: _StaticFile) -> Response:
    headers = make_file_headers()
    named_by_content = path.startswith(f"/{ASSETS}/")
    headers["Cache-Control"] = _FOREVER if named_by_content else "no-cache"
    body = found.body
    if found.compressed is not None:
        headers["Vary"] = "Accept-Encoding"
        if accepts_gzip(scope):
            headers["Content-Encoding"] = "gzip"
            body = found.compressed
    return Response(body, 200, headers, found.media_type)


def accepts_gzip(scope: Scope) -> bool:
    """Return whether the caller takes an answer that is compressed with gzip."""
    for name, value in scope["headers"]:
        if name == b"accept-encoding":
            for part in value.decode("latin-1").lower().split(","):
                coding, _, quality = part.partition(";")
                if coding.strip() in ("gzip", "*") and quality.replace(" ", "") not in (
                    "q=0",
                    "q=0.0",
                ):
                    return True
    return False


def _wants_page(scope: Scope) -> bool:
    """Whether a browser navigates. A program that misspells a path gets an error, not a page."""
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def _set_nonce(text: str, nonce: str) -> str:
    meta = f'<meta name="csp-nonce" content="{nonce}">'
    replaced, count = _NONCE_META.subn(meta, text, count=1)
    return replaced if count else text.replace("<head>", f"<head>{meta}", 1)


def _format_absent(language: str) -> str:
    title, text = (html.escape(part) for part in _ABSENT[language])
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>gpupool</title></head>'
        f"<body><h1>gpupool</h1><p><strong>{title}</strong></p><p>{text}</p></body></html>\n"
    )


def _list_folder(folder: Path) -> _Folder:
    mark = _mark_folder(folder)
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return _Folder(mark, {f"/{path.relative_to(folder).as_posix()}": path for path in files})


def _list_changed(folder: Path, before: _Folder) -> _Folder:
    return before if _mark_folder(folder) == before.mark else _list_folder(folder)


def _mark_folder(folder: Path) -> tuple[object, ...]:
    """Return what differs once a build has written its index or an asset."""
    # Names, not the time of the folder: two files within one tick of the clock leave it the same.
    try:
        found = (folder / _INDEX).stat()
        names = frozenset(path.name for path in (folder / ASSETS).iterdir())
    except FileNotFoundError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, names


def _read_index(folder: Path) -> str | None:
    try:
        return (folder / _INDEX).read_text("utf-8")
    except FileNotFoundError:
        # A build is being replaced.
        return None


def _read_file(path: Path) -> _StaticFile:
    body = path.read_bytes()
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if media_type == "text/javascript":
        media_type = "text/javascript; charset=utf-8"
    shrinks = media_type.startswith(_TEXTS) and len(body) >= _SMALLEST_BYTES
    # Level 9 once a file and server.
    return _StaticFile(body, gzip.compress(body, 9, mtime=0) if shrinks else None, media_type)
