"""The two wheels, built from this tree and installed from a folder, give the same command."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def uv() -> str:
    found = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "tools/get_uv.py")],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return found.stdout.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with both wheels, installed without any index; their libraries are this
    environment's."""
    work = tmp_path_factory.mktemp("wheels")
    tool = uv()
    subprocess.run(
        [tool, "build", "-q", "--wheel", "--all-packages", "-o", str(work / "dist")],
        cwd=ROOT,
        check=True,
    )
    subprocess.run([tool, "venv", "-q", "--python", sys.executable, str(work / "env")], check=True)
    wheels = [str(path) for path in sorted((work / "dist").glob("*.whl"))]
    install = [
        tool,
        "pip",
        "install",
        "-q",
        "--offline",
        "--no-deps",
        "--python",
        str(work / "env/bin/python"),
        *wheels,
    ]
    subprocess.run(install, check=True)
    (next((work / "env/lib").glob("python*")) / "site-packages/libraries.pth").write_text(
        sysconfig.get_path("purelib")
    )
    return work / "env/bin/gpupool"


def test_the_installed_command_starts_a_pool_runs_a_job_and_leaves_nothing(
    installed: Path, tmp_path: Path
) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GPUPOOL_STATE_DIR": str(tmp_path / "pool"),
    }

    def gpupool(*words: str) -> str:
        done = subprocess.run(
            [str(installed), *words], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert gpupool("--version").startswith("gpupool ")
    gpupool("up", "-d", "--sim", "1xT4")
    try:
        assert (
            gpupool("run", "--gpu", "0.5", "--memory", "1GiB", "--", "echo", "from a wheel")
            == "from a wheel\n"
        )
    finally:
        gpupool("down", "--purge", "--yes")
    assert not (tmp_path / "pool").exists()
