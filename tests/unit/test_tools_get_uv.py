"""tools/get_uv.py against a real index on loopback: the first program of a fresh clone has nobody to lean on."""

import base64
import hashlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "get_uv.py"
Page = Callable[[str], tuple[str, bytes]]
NAME = "uv-9.9.9-py3-none-any.whl"
PROGRAM = b"#!/bin/sh\necho uv 9.9.9\n"


@dataclass
class Index:
    """What the index serves, by path, and the Authorization header it wants."""

    url: str = ""
    pages: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    login: str | None = None


@pytest.fixture
def index() -> Iterator[Index]:
    served = Index()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = served.pages.get(self.path, ("text/plain", b""))
            allowed = served.login in (None, self.headers.get("Authorization"))
            self.send_response(401 if not allowed else 200 if body else 404)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body if allowed else b"")

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Nothing: the test says what it expects."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        served.url = f"http://127.0.0.1:{server.server_port}/simple"
        yield served
        server.shutdown()


@pytest.fixture
def wheel() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("uv-9.9.9.data/scripts/uv", PROGRAM)
    return made.getvalue()


@pytest.fixture
def get_uv(wheel: bytes, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, pinned to a wheel this test can serve."""
    spec = importlib.util.spec_from_file_location("get_uv", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pinned = (NAME, hashlib.sha256(wheel).hexdigest())
    monkeypatch.setattr(module, "VERSION", "9.9.9")
    monkeypatch.setattr(module, "WHEELS", dict.fromkeys(module.WHEELS, pinned))
    return module


def html_page(link: str) -> tuple[str, bytes]:
    return "text/html", f'<a href="/files/uv-1.0.tar.gz">x</a><a href="{link}#sha256=00">{NAME}</a>'.encode()


def json_page(link: str) -> tuple[str, bytes]:
    files = [{"filename": "uv-1.0.tar.gz", "url": "/no"}, {"filename": NAME, "url": link, "hashes": {}}]
    return "application/vnd.pypi.simple.v1+json", json.dumps({"files": files}).encode()


@pytest.mark.parametrize("page", [html_page, json_page])
@pytest.mark.parametrize("variable", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"])
def test_uv_comes_from_the_index_that_the_environment_names(
    get_uv: ModuleType, index: Index, wheel: bytes, tmp_path: Path, variable: str, page: Page
) -> None:
    index.pages = {"/simple/uv/": page(f"../../files/{NAME}"), f"/files/{NAME}": ("application/zip", wheel)}
    program = get_uv.fetch(str(tmp_path), {variable: index.url})
    assert subprocess.check_output([program], text=True) == "uv 9.9.9\n"
    assert os.listdir(tmp_path) == ["uv"]


def test_a_private_index_gets_its_login_for_the_page_and_the_file(
    get_uv: ModuleType, index: Index, wheel: bytes, tmp_path: Path
) -> None:
    index.login = "Basic " + base64.b64encode(b"me:s@cret").decode()
    index.pages = {"/simple/uv/": html_page(f"/files/{NAME}"), f"/files/{NAME}": ("application/zip", wheel)}
    with_login = index.url.replace("://", "://me:s%40cret@")
    assert get_uv.fetch(str(tmp_path), {"UV_DEFAULT_INDEX": f"ours={with_login}"}) == str(tmp_path / "uv")


def test_a_wheel_with_another_sum_is_not_used(get_uv: ModuleType, index: Index, tmp_path: Path) -> None:
    index.pages = {"/simple/uv/": html_page(f"/files/{NAME}"), f"/files/{NAME}": ("application/zip", b"bad")}
    with pytest.raises(get_uv.NoUv, match=hashlib.sha256(b"bad").hexdigest()):
        get_uv.fetch(str(tmp_path), {"PIP_INDEX_URL": index.url})
    assert os.listdir(tmp_path) == []


def test_an_index_that_is_not_there_says_what_to_do_and_hides_the_login(get_uv: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(get_uv.NoUv, match="set UV_DEFAULT_INDEX to an index you can reach") as refusal:
        get_uv.fetch(str(tmp_path), {"UV_DEFAULT_INDEX": "http://me:secret@127.0.0.1:1/simple"})
    assert "secret" not in str(refusal.value)


def test_a_local_folder_of_wheels_needs_no_index(get_uv: ModuleType, wheel: bytes, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(wheel)
    nowhere = {"PIP_FIND_LINKS": f"/nonexistent {tmp_path}", "PIP_INDEX_URL": "http://127.0.0.1:1"}
    assert get_uv.fetch(str(tmp_path / "tools"), nowhere) == str(tmp_path / "tools" / "uv")


@pytest.mark.parametrize(("said", "taken"), [("uv 9.9.9 (x 2031-01-01)", True), ("uv 0.1.2", False), ("no", False)])
def test_a_uv_on_path_is_taken_only_when_it_is_recent_enough(
    get_uv: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, taken: bool
) -> None:
    program = tmp_path / "uv"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert get_uv.find(str(tmp_path / "empty")) == (str(program) if taken else None)


def test_it_starts_on_a_python_without_site_packages(tmp_path: Path) -> None:
    environment = {"PATH": "/nonexistent", "UV_DEFAULT_INDEX": "http://127.0.0.1:1/simple"}
    command = [sys.executable, "-I", "-S", str(SCRIPT), "--into", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("get_uv: could not fetch uv-")
