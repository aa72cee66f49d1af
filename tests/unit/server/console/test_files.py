"""The console's files and pages: what is answered without a login, with which headers."""

from __future__ import annotations

import asyncio
import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from gpupool.server.console.files import ConsoleFiles, accepts_gzip, find_static

ROUTES = ("/healthz", "/metrics", "/sso/callback", "/api/v1/jobs")
INDEX = (
    '<!doctype html><html><head><meta charset="utf-8">'
    '<meta name="csp-nonce" content="__NONCE__" /></head><body></body></html>'
)
SCRIPT = "console.log('gpupool');\n" * 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "favicon.svg").write_text("<svg/>")
    (tmp_path / "assets" / "main-1a2b.js").write_text(SCRIPT)
    (tmp_path.parent / "secret.txt").write_text("secret")
    return tmp_path


class Asked:
    """One request to the layer: what it answered, or that it handed the request on."""

    def __init__(
        self,
        folder: Path | None,
        path: str,
        *,
        method: str = "GET",
        scheme: str = "http",
        layer: ConsoleFiles | None = None,
        **headers: str,
    ) -> None:
        self.handed_on = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        sent = {"accept": "text/html,*/*;q=0.8"} | {
            name.replace("_", "-"): text for name, text in headers.items()
        }
        scope = {
            "type": "http",
            "method": method,
            "scheme": scheme,
            "path": path,
            "headers": [(name.encode(), text.encode()) for name, text in sent.items()],
        }
        layer = layer or ConsoleFiles(self._inner, folder, ROUTES)
        asyncio.run(layer(scope, self._receive, self._send))

    async def _inner(self, *_: Any) -> None:
        self.handed_on = True

    async def _receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            self.body += message.get("body", b"")


def nonce_of(asked: Asked) -> str:
    found = re.search(rb'<meta name="csp-nonce" content="([\w-]{22})">', asked.body)
    assert found is not None
    return found.group(1).decode()


@pytest.mark.parametrize("path", ["/", "/login", "/jobs/j-1", "/map", "/apiary"])
def test_every_address_of_the_console_is_its_page(folder: Path, path: str) -> None:
    asked = Asked(folder, path)
    assert (asked.status, asked.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert f"'nonce-{nonce_of(asked)}'" in asked.headers["content-security-policy"]
    assert b"__NONCE__" not in asked.body


def test_each_page_has_a_nonce_of_its_own(folder: Path) -> None:
    assert nonce_of(Asked(folder, "/")) != nonce_of(Asked(folder, "/"))


def test_a_page_may_load_from_its_own_origin_alone(folder: Path) -> None:
    headers = Asked(folder, "/").headers
    rules = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == rules["worker-src"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


def test_https_is_demanded_for_later_only_over_https(folder: Path) -> None:
    assert "strict-transport-security" not in Asked(folder, "/").headers
    secure = Asked(folder, "/", scheme="https").headers
    assert secure["strict-transport-security"] == "max-age=31536000"


def test_an_asset_is_stored_for_ever_and_compressed(folder: Path) -> None:
    plain = Asked(folder, "/assets/main-1a2b.js")
    assert plain.body.decode() == SCRIPT
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.headers["content-type"].startswith("text/javascript")
    packed = Asked(folder, "/assets/main-1a2b.js", accept_encoding="gzip, br")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert len(packed.body) < 200
    assert gzip.decompress(packed.body).decode() == SCRIPT


def test_a_file_that_is_not_named_by_its_content_is_asked_for_again(folder: Path) -> None:
    asked = Asked(folder, "/favicon.svg")
    assert (asked.body, asked.headers["cache-control"]) == (b"<svg/>", "no-cache")


@pytest.mark.parametrize(
    "path",
    ["/assets/main-old.js", "/assets/../index.html", "/assets/../../secret.txt", "/assets/"],
)
def test_an_asset_that_is_not_there_is_no_page(folder: Path, path: str) -> None:
    asked = Asked(folder, path)
    assert (asked.status, asked.headers["content-type"]) == (404, "application/problem+json")
    assert b"secret" not in asked.body.replace(b"secret.txt", b"")


@pytest.mark.parametrize(
    "path", ["/healthz", "/metrics", "/sso/callback", "/sso", "/api/v1/jobs", "/api", "/api/none"]
)
def test_paths_of_routes_are_no_pages(folder: Path, path: str) -> None:
    assert Asked(folder, path).handed_on


@pytest.mark.parametrize(("method", "path"), [("POST", "/login"), ("DELETE", "/"), ("PUT", "/x")])
def test_what_is_not_read_is_handed_on(folder: Path, method: str, path: str) -> None:
    assert Asked(folder, path, method=method).handed_on


def test_a_program_that_misspells_a_path_gets_no_page(folder: Path) -> None:
    assert Asked(folder, "/jobs", accept="application/json").handed_on
    assert Asked(folder, "/", accept="*/*").status == 200


def test_head_answers_without_a_body(folder: Path) -> None:
    asked = Asked(folder, "/", method="HEAD")
    assert asked.status == 200


@pytest.mark.parametrize(("language", "text"), [("en", "console not built"), ("zh-CN", "尚未构建")])
def test_without_its_package_a_page_says_how_to_get_it(language: str, text: str) -> None:
    asked = Asked(None, "/jobs", accept_language=language)
    assert asked.status == 200
    assert text in asked.body.decode()
    assert "make console" in asked.body.decode()
    assert "default-src 'none'" in asked.headers["content-security-policy"]
    assert Asked(None, "/assets/main.js").status == 404


def test_the_package_is_found_where_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "gpupool_console"
    (package / "static").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    tree = tmp_path / "tree"
    monkeypatch.setattr("gpupool.server.console.files._SOURCE_TREE", tree)
    monkeypatch.setattr("gpupool.server.console.files.PACKAGE", "gpupool_console_of_this_test")
    assert find_static() is None
    (tree / "static").mkdir(parents=True)
    (tree / "static" / "index.html").write_text(INDEX)
    assert find_static() == tree / "static", "a source tree needs no installed package"
    monkeypatch.setattr("gpupool.server.console.files.PACKAGE", "gpupool_console")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_static() == tree / "static", "an empty folder is no console"
    (package / "static" / "index.html").write_text(INDEX)
    assert find_static() == package / "static"


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        ("gzip", True),
        ("br, gzip;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("br", False),
        ("", False),
    ],
)
def test_gzip_is_sent_to_callers_that_take_it(header: str, answer: bool) -> None:
    assert accepts_gzip({"headers": [(b"accept-encoding", header.encode())]}) is answer


async def refuse(*_: Any) -> None:
    raise AssertionError("handed on")


def test_files_that_are_replaced_under_a_server_need_no_restart(folder: Path) -> None:
    layer = ConsoleFiles(refuse, folder, ROUTES)
    assets = folder / "assets"
    (assets / "chunk-3c4d.js").write_text("before")
    assert Asked(folder, "/assets/main-1a2b.js", layer=layer).status == 200
    assert Asked(folder, "/favicon.svg", layer=layer).body == b"<svg/>"

    # As a build: the old files go, the page comes before its last script.
    for path in (assets / "main-1a2b.js", assets / "chunk-3c4d.js"):
        path.unlink()
    (folder / "index.html").unlink()
    assert b"console not built" in Asked(folder, "/", layer=layer).body
    (folder / "index.html").write_text(INDEX.replace("<body>", '<body class="new">'))
    (folder / "favicon.svg").write_text("<svg id='2'/>")
    assert b'class="new"' in Asked(folder, "/", layer=layer).body
    assert Asked(folder, "/assets/main-5e6f.js", layer=layer).status == 404
    (assets / "main-5e6f.js").write_text("new")
    assert Asked(folder, "/assets/main-5e6f.js", layer=layer).body == b"new"
    assert Asked(folder, "/favicon.svg", layer=layer).body == b"<svg id='2'/>"
    # Pages of the build before still load what the server had read, and nothing else of it.
    assert Asked(folder, "/assets/main-1a2b.js", layer=layer).body.decode() == SCRIPT
    assert Asked(folder, "/assets/chunk-3c4d.js", layer=layer).status == 404
    assert Asked(folder, "/assets/../secret.txt", layer=layer).status == 404


def test_a_file_that_went_before_it_was_read_is_not_found(folder: Path) -> None:
    layer = ConsoleFiles(refuse, folder, ROUTES)
    (folder / "assets" / "main-1a2b.js").unlink()
    assert Asked(folder, "/assets/main-1a2b.js", layer=layer).status == 404
