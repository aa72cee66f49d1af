"""A real bundle in a network namespace without a route: install, run, upgrade under jobs, go back, remove.

Builds our wheels, and fetches those of others where the cache of `make bundle` lacks them: minutes, so
`make test-nightly`. Needs root for the namespace.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
#: Of one command; wheels are compiled and installed at the load of a full run.
SECONDS = 1200
PORT = 8470
#: Asks for a page and for every file that it names, and prints the sizes.
READ_PAGE = """
import re, urllib.request
def read(path):
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}") as answer:
        return answer.read().decode("utf-8", "replace")
page = read("/")
names = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page)
print(len(page), *(len(read(name)) for name in names))
print(re.findall(r'(?:src|href)="(https?://[^"]+)"', page))
""".replace("{PORT}", str(PORT))

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root"),
    pytest.mark.skipif(shutil.which("nsenter") is None, reason="needs nsenter (util-linux)"),
]


def run(*words: str | Path, **settings: Any) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        **{"capture_output": True, "text": True, "timeout": SECONDS, "check": False, **settings},
    )
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return str(done.stdout)


def build_wheels(tree: Path, into: Path) -> None:
    uv = run(sys.executable, "-I", "-S", ROOT / "tools/get_uv.py", cwd=ROOT).split()[-1]
    run(uv, "build", "-q", "--wheel", "--out-dir", into, cwd=tree)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bundle")


@pytest.fixture(scope="module")
def own(place: Path) -> tuple[Path, Path]:
    """Our wheels of this tree, and the same with a newer version of gpupool."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import make_bundle
    finally:
        sys.path.remove(str(ROOT / "tools"))
    if not (ROOT / "console/gpupool_console/static/index.html").exists():
        run(sys.executable, ROOT / "tools/make_console.py", "build", cwd=ROOT)
    first = make_bundle.build_own_wheels(place / "own", 1_700_000_000)
    tree = place / "tree"
    for name in ("src/gpupool", "tests/machines"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    version = tree / "src/gpupool/__init__.py"
    version.write_text(re.sub(r'(__version__ = "[^"]+)"', r'\1.post1"', version.read_text()))
    second = place / "newer"
    build_wheels(tree, second)
    for wheel in first.glob("gpupool_*.whl"):
        shutil.copy(wheel, second)
    return first, second


def make(own: Path, out: Path, key: Path | None = None) -> Path:
    words = ["--own-wheels", own, "--out-dir", out, "--extras", "sso", "--pythons", PYTHON]
    words += ["--image", "/nonexistent", "--font", "/nonexistent"]
    if key is not None:
        words += ["--signing-key", key]
    run(sys.executable, ROOT / "tools/make_bundle.py", *words, cwd=ROOT)
    (made,) = out.glob("gpupool-*.tar.*")
    return made


class Island:
    """A network namespace with loopback alone, and a home directory of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.environ = {
            "PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(place),
            "GPUPOOL_STATE_DIR": str(place / "pool"),
            # An index that a setting names must not be asked.
            "PIP_INDEX_URL": "http://203.0.113.1/simple",
        }
        self._holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])

    def run(self, *words: str | Path, code: int = 0) -> str:
        done = subprocess.run(
            ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", *map(str, words)],
            env=self.environ,
            cwd=self.place,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout + done.stderr

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()


@pytest.fixture
def island(tmp_path: Path) -> Iterator[Island]:
    made = Island(tmp_path)
    try:
        # The holder has its own namespace a moment after it was started.
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{made._holder.pid}/ns/net") == own:
            os.sched_yield()
        made.run("ip", "link", "set", "lo", "up")
        assert made.run("ip", "route") == ""
        yield made
    finally:
        made.close()


def test_a_bundle_installs_runs_upgrades_and_goes_back_without_a_network(
    place: Path, own: tuple[Path, Path], island: Island
) -> None:
    key = place / "maker.pem"
    public = place / "maker.pub"
    run("openssl", "genpkey", "-algorithm", "ed25519", "-out", key)
    run("openssl", "pkey", "-in", key, "-pubout", "-out", public)
    old = make(own[0], place / "old", key)
    assert make(own[0], place / "again", key).read_bytes() == old.read_bytes()
    new = make(own[1], place / "new", key)

    prefix = island.place / "opt"
    gpupool = prefix / "bin" / "gpupool"
    options = ("--prefix", prefix, "--link", "none", "--key", public)
    folders = []
    for archive in (old, new):
        into = island.place / archive.parent.name
        into.mkdir()
        island.run("tar", "-xf", archive, "-C", into)
        (folder,) = into.iterdir()
        folders.append(folder)

    assert "signature: of" in island.run("sh", folders[0] / "install.sh", *options)
    version = island.run(gpupool, "--version")
    with _pool(island, gpupool):
        said = island.run(gpupool, "run", "--gpu", "0.5", "--memory", "1GiB", "--", "echo", "here")
        assert "here\n" in said
        island.run(gpupool, "submit", "--gpu", "0.2", "--name", "goes-on", "--", "sleep", "3000")
        _read_console(island)

        island.run("sh", folders[1] / "install.sh", *options)
        assert island.run(gpupool, "--version") == version.replace("\n", ".post1\n")
        assert _server(island, gpupool)["version"] in version
        island.run(gpupool, "restart")
        assert _server(island, gpupool)["version"].endswith(".post1")
        assert _state(island, gpupool, "goes-on") == "running"
        _read_console(island)
        assert "keeps" not in island.run("sh", folders[1] / "install.sh", *options)

        island.run("sh", prefix / "install.sh", "--rollback")
        assert island.run(gpupool, "--version") == version
        island.run(gpupool, "restart")
        assert _server(island, gpupool)["version"] in version
        assert _state(island, gpupool, "goes-on") == "running"
        refused = island.run("sh", prefix / "install.sh", "--uninstall", code=1)
        assert re.search(r"process \d+ uses", refused)
    island.run("sh", prefix / "install.sh", "--uninstall")
    assert not prefix.exists()

    _refuse_damaged(island, folders[0], options)
    assert not prefix.exists()


@contextlib.contextmanager
def _pool(island: Island, gpupool: Path) -> Iterator[None]:
    island.run(gpupool, "up", "-d", "--sim", "1xT4", "--listen", f"127.0.0.1:{PORT}")
    try:
        yield
    finally:
        island.run(gpupool, "down", "--purge", "--yes", "--grace", "1s")


def _server(island: Island, gpupool: Path) -> dict[str, Any]:
    text = island.run("sh", "-c", f"{gpupool} doctor -o json 2>/dev/null || true")
    found: dict[str, Any] = json.loads(text)["server"]
    return found


def _state(island: Island, gpupool: Path, name: str) -> str:
    (job,) = (
        one for one in json.loads(island.run(gpupool, "ps", "-o", "json")) if one["name"] == name
    )
    return str(job["state"])


def _read_console(island: Island) -> None:
    sizes, foreign = island.run(
        sys.base_prefix + f"/bin/python{PYTHON}", "-c", READ_PAGE
    ).splitlines()
    assert len(sizes.split()) > 2
    assert all(int(size) for size in sizes.split())
    assert foreign == "[]"


def _refuse_damaged(island: Island, folder: Path, options: tuple[Any, ...]) -> None:
    wheel = next((folder / "wheels").glob("gpupool_native-*.whl"))
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 1
    wheel.write_bytes(content)
    refused = island.run("sh", folder / "install.sh", *options, code=1)
    assert f"wheels/{wheel.name}: FAILED" in refused
    assert "GP-1090" in refused
