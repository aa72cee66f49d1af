"""deploy/Containerfile, built for real: on a base of Debian's packages, since a registry is not
everywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.root]

ROOT = Path(__file__).parents[2]
PACKAGES = "python3,python3-pip,python-is-python3,ca-certificates"
LIMIT_SECONDS = 1800
SAYS = """
import importlib.metadata, json, os, subprocess, gpupool_native
versions = {one.metadata["Name"].lower().replace("_", "-"): one.version for one in importlib.metadata.distributions()}
usage = subprocess.run([gpupool_native.hook_path()], capture_output=True, text=True).stderr
fence = os.listdir(gpupool_native.fence_dir())
print(json.dumps({"uid": os.getuid(), "versions": versions, "usage": usage, "fence": fence}))
"""


class Builder:
    """buildah with a store of its own; no daemon, no registry, and no namespaces that a container
    would not give."""

    def __init__(self, place: Path) -> None:
        self._words = ("buildah", "--root", str(place / "store"), "--runroot", str(place / "run"))

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            (*self._words, *words),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_SECONDS,
        )
        assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    if missing := [name for name in ("buildah", "mmdebstrap") if shutil.which(name) is None]:
        pytest.skip(f"here is no {' and no '.join(missing)}")
    place = tmp_path_factory.mktemp("builder")
    made = Builder(place)
    yield made
    made("rm", "--all")
    made("rmi", "--all", "--force")


@pytest.fixture(scope="module")
def base(builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Like python:3.12-slim: Debian, its C library, and a Python whose pip may install."""
    context = tmp_path_factory.mktemp("base")
    words = (
        "mmdebstrap",
        "--quiet",
        "--variant=apt",
        f"--include={PACKAGES}",
        "bookworm",
        str(context / "base.tar"),
    )
    subprocess.run(words, check=True, timeout=LIMIT_SECONDS)
    (context / "Containerfile").write_text(
        "FROM scratch\nADD base.tar /\nRUN rm /usr/lib/python3*/EXTERNALLY-MANAGED\n"
    )
    builder("bud", "--isolation", "chroot", "--tag", "localhost/base", str(context))
    return "localhost/base"


def test_the_containerfile_makes_an_image_of_what_is_locked(builder: Builder, base: str) -> None:
    words = [
        "bud",
        "--isolation",
        "chroot",
        "--network",
        "host",
        "--pull=never",
        "--build-arg",
        f"PYTHON={base}",
    ]
    if certificates := os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE"):
        words += [
            "--build-arg",
            f"PIP_CERT={certificates}",
            "--volume",
            f"{certificates}:{certificates}:ro",
        ]
    if index := os.environ.get("PIP_INDEX_URL"):
        words += ["--build-arg", f"PIP_INDEX_URL={index}"]
    builder(*words, "--file", "deploy/Containerfile", "--tag", "localhost/gpupool", ".")

    container = builder("from", "--pull=never", "localhost/gpupool").strip()
    run = ("run", "--isolation", "chroot", container, "--", "python")
    assert "usage: python -m gpupool.kubernetes" in builder(
        *run, "-m", "gpupool.kubernetes", "--help"
    )
    told = json.loads(builder(*run, "-c", SAYS))
    assert told["uid"] == 65532
    assert told["usage"].startswith("usage: gpupool-hook")
    assert {"libcuda.so.1", "libnvidia-ml.so.1"} <= set(told["fence"])
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    locked = {
        (one["name"], one["version"]) for one in packages if "version" in one
    }  # some in one for each Python
    there = {pair for pair in told["versions"].items() if pair[0] in {name for name, _ in locked}}
    assert len(there) > 20
    assert there - locked == set()
