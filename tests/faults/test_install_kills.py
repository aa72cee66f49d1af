"""install.sh of a bundle is killed before each command that changes a file: what was installed works, and the next
run ends what was begun.

The bundle is small, and what does the work is real: sh, flock, venv, pip.
"""

from __future__ import annotations

import ensurepip
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
#: Programs of install.sh that change files.
CHANGING = ("cp", "ln", "mkdir", "mv", "rm", "rmdir", "sync")
#: Kills its process group, with install.sh in it, when its turn has come; else it is the program.
SHIM = """#!/bin/sh
echo >>"$KILL_COUNT"
[ "$(wc -l <"$KILL_COUNT")" != "$KILL_AT" ] || kill -9 0
exec {program} "$@"
"""
#: No action of install.sh has as many commands.
MOST_COMMANDS = 60
SECONDS = 120

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="bundles are for x86_64"),
]


class Bundles:
    """Bundles of two versions, and programs that kill install.sh on the way."""

    def __init__(self, place: Path, tool: ModuleType) -> None:
        self.place = place
        self.old, self.new = (_make_bundle(place, version, tool) for version in ("1.0", "2.0"))
        shims = place / "shims"
        shims.mkdir()
        for name in CHANGING:
            _write_shim(shims / name, str(shutil.which(name)))
        self._python = place / f"python{PYTHON}"
        _write_shim(self._python, str(Path(sys.base_prefix, "bin", f"python{PYTHON}")))
        self._path = f"{shims}:{os.environ['PATH']}"

    def run(self, prefix: Path, bundle: Path, *words: str, kill_at: int = 0) -> int:
        """Run an action; returns its exit status, negative where it was killed."""
        count = self.place / "count"
        count.write_text("")
        script = ["sh", str(bundle / "install.sh"), "--prefix", str(prefix)]
        options = ["--link", str(prefix.parent / "links"), "--python", str(self._python)]
        done = subprocess.run(
            [*script, *options, *words],
            env={
                **os.environ,
                "PATH": self._path,
                "KILL_COUNT": str(count),
                "KILL_AT": str(kill_at),
            },
            capture_output=True,
            text=True,
            timeout=SECONDS,
            start_new_session=True,
            check=False,
        )
        assert done.returncode in (0, -signal.SIGKILL), f"{words}: {done.stdout}{done.stderr}"
        return done.returncode


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bundles]:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import make_bundle

        yield Bundles(tmp_path_factory.mktemp("bundles"), make_bundle)
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def upgraded(bundles: Bundles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both versions were installed, the second as the current one."""
    prefix = tmp_path_factory.mktemp("upgraded") / "opt"
    assert bundles.run(prefix, bundles.old) == 0
    assert bundles.run(prefix, bundles.new) == 0
    return prefix


def test_an_installation_that_is_killed_is_ended_by_the_next(
    bundles: Bundles, tmp_path: Path
) -> None:
    whole = tmp_path / "whole" / "opt"
    assert bundles.run(whole, bundles.old) == 0
    prefix = tmp_path / "killed" / "opt"
    for _ in _kill_at_each(bundles, prefix, bundles.old):
        assert read_version(prefix) in (None, "1.0")
        assert bundles.run(prefix, bundles.old) == 0
        assert list_files(prefix) == list_files(whole)
        shutil.rmtree(prefix)


def test_through_a_killed_upgrade_there_is_always_a_version_that_works(
    bundles: Bundles, upgraded: Path, tmp_path: Path
) -> None:
    prefix, saved = tmp_path / "opt", tmp_path / "saved"
    assert bundles.run(prefix, bundles.old) == 0
    shutil.copytree(prefix, saved, symlinks=True)
    for _ in _kill_at_each(bundles, prefix, bundles.new):
        assert read_version(prefix) in ("1.0", "2.0")
        assert bundles.run(prefix, bundles.new) == 0
        assert read_version(prefix) == "2.0"
        assert list_files(prefix) == list_files(upgraded)
        _bring_back(saved, prefix)


def test_a_killed_rollback_goes_on_with_the_next_and_nowhere_else(
    bundles: Bundles, upgraded: Path
) -> None:
    current = "2.0"
    for _ in _kill_at_each(bundles, upgraded, bundles.old, "--rollback"):
        other = "1.0" if current == "2.0" else "2.0"
        before = read_version(upgraded)
        assert before in ("1.0", "2.0")
        assert bundles.run(upgraded, bundles.old, "--rollback") == 0
        assert read_version(upgraded) == other
        assert bundles.run(upgraded, bundles.old, "--rollback") == 0
        assert read_version(upgraded) == current


def test_a_killed_removal_leaves_nothing_after_the_next(bundles: Bundles, tmp_path: Path) -> None:
    home, saved = tmp_path / "home", tmp_path / "saved"
    prefix = home / "opt"
    assert bundles.run(prefix, bundles.old) == 0
    shutil.copytree(home, saved, symlinks=True)
    for _ in _kill_at_each(bundles, prefix, bundles.old, "--uninstall"):
        if prefix.exists():
            assert bundles.run(prefix, bundles.old, "--uninstall") == 0
        assert [path.name for path in home.rglob("*")] == ["links"]
        _bring_back(saved, home)


def _kill_at_each(bundles: Bundles, prefix: Path, bundle: Path, *words: str) -> Iterator[int]:
    """Run an action until no command is left to be killed at, each time killed one later."""
    for kill_at in range(1, MOST_COMMANDS):
        if bundles.run(prefix, bundle, *words, kill_at=kill_at) == 0:
            assert kill_at > 3
            return
        yield kill_at
    raise AssertionError(f"{words} has {MOST_COMMANDS} commands or more")


def _bring_back(saved: Path, place: Path) -> None:
    """Make a place what it was. Programs of Python name their own path, so it must not be another."""
    shutil.rmtree(place)
    shutil.copytree(saved, place, symlinks=True)


def read_version(prefix: Path) -> str | None:
    """Return what the installed program says of itself; none where there is none."""
    program = prefix / "bin" / "gpupool"
    if not program.exists():
        return None
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.strip()


def list_files(prefix: Path) -> list[str]:
    """List what is there but for what Python compiles; links with their targets."""
    return sorted(
        f"{path.relative_to(prefix)} -> {os.readlink(path) if path.is_symlink() else ''}"
        for path in prefix.rglob("*")
        if "__pycache__" not in path.parts
    )


def _make_bundle(place: Path, version: str, tool: ModuleType) -> Path:
    """Make a bundle with pip and one package, whose programs print its version."""
    made = place / f"gpupool-{version}-linux-x86_64"
    (made / "wheels").mkdir(parents=True)
    (made / "requirements").mkdir()
    (pip,) = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
    shutil.copy(pip, made / "wheels")
    wheel = _make_wheel(made / "wheels", version)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    text = f"# installed-kib: 1\ngpupool=={version} --hash=sha256:{digest}\n"
    (made / "requirements" / f"{PYTHON}.txt").write_text(text)
    manifest = {"version": version, "machine": "linux-x86_64"}
    (made / "manifest.json").write_text(json.dumps(manifest, indent=1))
    shutil.copy(ROOT / "tools" / "bundle" / "install.sh", made)
    tool.write_sums(made)
    return made


def _make_wheel(place: Path, version: str) -> Path:
    about = f"gpupool-{version}.dist-info"
    files = {
        "gpupool_small.py": f'def main():\n    print("{version}")\n',
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: gpupool\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[console_scripts]\ngpupool = gpupool_small:main\n"
        "kubectl-gpupool = gpupool_small:main\n",
    }
    record = f"{about}/RECORD"
    lines = "".join(f"{name},,\n" for name in (*files, record))
    wheel = place / f"gpupool-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, record: lines}.items():
            archive.writestr(name, text)
    return wheel


def _write_shim(path: Path, program: str) -> None:
    path.write_text(SHIM.format(program=program))
    path.chmod(0o755)
