"""tools/get_uv.py with the machine's own pip, against a real index on loopback."""

import base64
import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "get_uv.py"
NAME = "uv-9.9.9-py3-none-any.whl"
PROGRAM = b"#!/bin/sh\necho uv 9.9.9\n"
METADATA = b"Metadata-Version: 2.1\nName: uv\nVersion: 9.9.9\n"
TAGS = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


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
            self.send_header("Content-Length", str(len(body) if allowed else 0))
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
        for name, text in (("METADATA", METADATA), ("WHEEL", TAGS), ("RECORD", b"")):
            archive.writestr(f"uv-9.9.9.dist-info/{name}", text)
    return made.getvalue()


@pytest.fixture
def get_uv(wheel: bytes, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, pinned to a wheel this test can serve."""
    spec = importlib.util.spec_from_file_location("get_uv", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "VERSION", "9.9.9")
    monkeypatch.setattr(
        module, "WHEELS", dict.fromkeys(module.WHEELS, hashlib.sha256(wheel).hexdigest())
    )
    return module


def environ(place: Path, **more: str) -> dict[str, str]:
    """A machine whose pip is set up by these variables alone."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_RETRIES": "0",
        **more,
    }


@pytest.fixture
def bare(get_uv: ModuleType, tmp_path: Path) -> dict[str, str]:
    """A machine with pip and nothing else; without one there is nothing to test."""
    found = environ(tmp_path)
    try:
        get_uv.pip(found)
    except get_uv.NoUv:
        pytest.skip("no pip on this machine")
    return found


def serve(index: Index, wheel: bytes) -> None:
    page = f'<a href="../../files/{NAME}">{NAME}</a>'.encode()
    index.pages = {"/simple/uv/": ("text/html", page), f"/files/{NAME}": ("application/zip", wheel)}


@pytest.mark.parametrize("variable", ["UV_DEFAULT_INDEX", "PIP_INDEX_URL"])
def test_uv_comes_from_where_the_machine_gets_packages(
    get_uv: ModuleType,
    index: Index,
    wheel: bytes,
    tmp_path: Path,
    bare: dict[str, str],
    variable: str,
) -> None:
    serve(index, wheel)
    program = get_uv.fetch(str(tmp_path / "tools"), {**bare, variable: index.url})
    assert subprocess.check_output([program], text=True) == "uv 9.9.9\n"
    assert os.listdir(tmp_path / "tools") == ["uv"]


def test_what_pip_is_configured_with_is_enough(
    get_uv: ModuleType, index: Index, wheel: bytes, tmp_path: Path, bare: dict[str, str]
) -> None:
    index.login = "Basic " + base64.b64encode(b"me:s@cret").decode()
    serve(index, wheel)
    file = tmp_path / "pip.conf"
    file.write_text(f"[global]\nindex-url = {index.url.replace('://', '://me:s%40cret@')}\n")
    assert get_uv.fetch(str(tmp_path), {**bare, "PIP_CONFIG_FILE": str(file)}) == str(
        tmp_path / "uv"
    )


def test_a_wheel_with_another_sum_is_not_used(
    get_uv: ModuleType, index: Index, wheel: bytes, tmp_path: Path, bare: dict[str, str]
) -> None:
    serve(index, wheel + b" ")
    with pytest.raises(get_uv.NoUv, match=r"pip could not get uv 9\.9\.9"):
        get_uv.fetch(str(tmp_path / "tools"), {**bare, "PIP_INDEX_URL": index.url})
    assert not (tmp_path / "tools").exists()


def test_an_index_that_is_not_there_says_what_to_do_and_hides_the_login(
    get_uv: ModuleType, tmp_path: Path, bare: dict[str, str]
) -> None:
    with pytest.raises(get_uv.NoUv, match=r"or have pip find it: `pip config set") as refusal:
        get_uv.fetch(
            str(tmp_path), {**bare, "UV_DEFAULT_INDEX": "ours=http://me:secret@127.0.0.1:1/simple"}
        )
    assert "secret" not in str(refusal.value)


def test_a_local_folder_of_wheels_needs_no_index(
    get_uv: ModuleType, wheel: bytes, tmp_path: Path, bare: dict[str, str]
) -> None:
    (tmp_path / NAME).write_bytes(wheel)
    nowhere = {**bare, "UV_FIND_LINKS": str(tmp_path), "PIP_NO_INDEX": "1"}
    assert get_uv.fetch(str(tmp_path / "tools"), nowhere) == str(tmp_path / "tools" / "uv")


def test_a_machine_without_pip_is_told_what_to_install(
    get_uv: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(get_uv.NoUv, match=r"no uv and no pip on this machine\ninstall uv"):
        get_uv.fetch(str(tmp_path), {"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("said", "taken"), [("uv 9.9.9 (x 2031-01-01)", True), ("uv 0.1.2", False), ("no", False)]
)
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
    assert done.stderr.startswith("get_uv: there is no uv and no pip on this machine")
