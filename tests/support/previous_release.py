"""The release before this one, built from its commit into a cache: what a pool is upgraded from."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
RELEASE = "v0.1.0"
COMMIT = "48bd9b7c17ee6adcdf401fac1e982ccbc2b9edbd"
CACHE_VARIABLE = "GPUPOOL_RELEASE_CACHE"


class HistoryMissingError(Exception):
    """This tree has no history that holds the release's commit (a tarball, or a shallow clone)."""


def previous_gpupool() -> Path:
    """The release's `gpupool`; builds it the first time (30 s). Raises HistoryMissingError."""
    root = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "gpupool" / "releases")
    place = root / COMMIT
    program = place / ".venv" / "bin" / "gpupool"
    if not (place / "built").exists():
        root.mkdir(parents=True, exist_ok=True)
        _build(place)
        (place / "built").touch()
    return program


def _build(place: Path) -> None:
    """In its final place, as scripts of a virtual environment name it; begun again where a build
    was cut off."""
    with tempfile.TemporaryDirectory(dir=place.parent) as unpacked:
        with tarfile.open(fileobj=io.BytesIO(_archive())) as tree:
            tree.extractall(unpacked, filter="data")
        place.mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", f"{unpacked}/.", str(place)], check=True)
    uv = subprocess.run(
        [sys.executable, "-I", "-S", str(REPOSITORY / "tools" / "get_uv.py")],
        cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout.strip()  # fmt: skip
    environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    environment |= {"UV_PYTHON": sys._base_executable, "UV_PYTHON_DOWNLOADS": "never"}  # type: ignore[attr-defined]
    if "PIP_CERT" in environment:
        environment.setdefault("SSL_CERT_FILE", environment["PIP_CERT"])
    subprocess.run(
        [uv, "sync", "--frozen", "--quiet", "--no-dev"], cwd=place, env=environment, check=True
    )


def _archive() -> bytes:
    done = subprocess.run(
        ["git", "archive", COMMIT], cwd=REPOSITORY, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise HistoryMissingError(
            f"no commit {COMMIT[:12]} ({RELEASE}) here: {done.stderr.decode().strip()}"
        )
    return done.stdout
