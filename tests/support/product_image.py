"""The product's image as people build it without a network, on a base of this machine's Debian
packages.

The packages and the wheels are fetched once and kept beside the rig's programs; our own wheels are
of this tree.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.cluster.build import CACHE_VARIABLE

ROOT = Path(__file__).parents[2]
PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6")
PROGRAMS = ("apt-get", "dpkg-deb", "tar")


class CannotBuildError(Exception):
    """Something that only the machine can provide is not there; the text says what."""


def base() -> Path:
    """The root filesystem of a base as a tar, from Debian's packages and what they depend on."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise CannotBuildError(
            f"a base is made of Debian's packages, and here is no {', '.join(missing)}"
        )
    folder = _cache() / f"base-{hashlib.sha256(repr(PACKAGES).encode()).hexdigest()[:12]}"
    made = folder / "base.tar"
    if not made.exists():
        shutil.rmtree(folder, ignore_errors=True)
        for place in ("state/lists/partial", "cache/archives/partial"):
            (folder / place).mkdir(parents=True)
        (
            folder / "status"
        ).touch()  # of a machine on which nothing is installed: every dependency is fetched
        own = (
            f"Dir::State={folder}/state",
            f"Dir::State::status={folder}/status",
            f"Dir::Cache={folder}/cache",
        )
        flags = [
            word for option in (*own, "APT::Install-Recommends=false") for word in ("-o", option)
        ]
        _ran("apt-get", "-qq", *flags, "update")
        _ran("apt-get", "-qq", "-y", *flags, "--download-only", "install", *PACKAGES)
        for package in sorted((folder / "cache" / "archives").glob("*.deb")):
            _ran("dpkg-deb", "-x", str(package), str(folder / "rootfs"))
        new = folder / "base.tar.new"
        _ran("tar", "-C", str(folder / "rootfs"), "--owner=0", "--group=0", "-cf", str(new), ".")
        new.replace(made)
        for left in ("rootfs", "state", "cache"):
            shutil.rmtree(folder / left)
    return made


def image(name: str, place: Path) -> Path:
    """The image's archive in that folder. Raises CannotBuildError."""
    wheels, out = place / "wheels", place / "image.tar"
    shutil.copytree(_wheels(), wheels, copy_function=os.link)
    uv = subprocess.run(
        [sys.executable, "-I", "-S", "tools/get_uv.py"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split()[-1]
    for own in wheels.glob("gpupool*.whl"):
        own.unlink()
    _ran(uv, "build", "--quiet", "--wheel", "--all-packages", "--out-dir", str(wheels))
    words = ("--rootfs", str(base()), "--wheels", str(wheels), "--name", name, "--out", str(out))
    _ran(sys.executable, "tools/make_image.py", "make", *words)
    shutil.rmtree(wheels)
    return out


def _wheels() -> Path:
    """What `gather` leaves, once for each state of the lock."""
    lock = hashlib.sha256((ROOT / "uv.lock").read_bytes()).hexdigest()[:12]
    folder = _cache() / f"wheels-{lock}"
    if not folder.exists():
        new = folder.with_name(f"{folder.name}.{os.getpid()}")
        _ran(sys.executable, "tools/make_image.py", "gather", str(new))
        new.replace(folder)
    return folder


def _cache() -> Path:
    root = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "gpupool" / "cluster")
    root.mkdir(parents=True, exist_ok=True)
    return root


def _ran(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuildError(
            f"{' '.join(command[:4])}… ended with {done.returncode}: {done.stderr[-800:]}"
        )
