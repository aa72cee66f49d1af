"""The wheels that a machine without a network needs: chosen from uv.lock, fetched by their sums.

A wheel is chosen for each Python and for glibc 2.28 or newer on x86-64, whatever machine builds.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

#: Oldest first in pip's order of preference; 2.28 is that of RHEL 8, Debian 10 has it too.
PLATFORMS: Final = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)),
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
    "linux_x86_64",
)
MACHINE: Final = "x86_64"
#: Of the files in wheels that are built here: 1980-01-01, the first time that a zip can hold.
_BUILD_EPOCH: Final = 315_532_800
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class BundleFault(Exception):
    """What is missing for a bundle, and what to type next."""


@dataclass
class LockedWheel:
    """One wheel, and the versions of Python that it is for.

    Attributes:
        is_source: The lock has no wheel, only this archive of sources; `fetch_wheels` builds the
            wheel and puts its name and sum here.
    """

    name: str
    version: str
    file: str
    sha256: str
    pythons: list[str] = field(default_factory=list)
    is_source: bool = False


def choose_wheels(exported: str, lock: dict[str, Any], pythons: Sequence[str]) -> list[LockedWheel]:
    """Choose the best wheel of each requirement for each Python.

    Args:
        exported: Requirements with sums, as `uv export` writes them.
        lock: The content of uv.lock.
        pythons: Versions like `3.12`.

    Returns:
        The wheels by file name.

    Raises:
        BundleFault: A package has no wheel for one of the Pythons.
    """
    files = _map_files(lock)
    with_wheels = {(one["name"], one["version"]) for one in lock["package"] if one.get("wheels")}
    chosen: dict[str, LockedWheel] = {}
    for python in pythons:
        ranks = {tag: rank for rank, tag in enumerate(_list_tags(python))}
        for requirement, sums in _read_requirements(exported):
            if requirement.marker and not requirement.marker.evaluate(_make_environment(python)):
                continue
            wheel = _choose_wheel(requirement, sums, files, ranks)
            if wheel is None and (requirement.name, _get_version(requirement)) not in with_wheels:
                wheel = _choose_source(requirement, sums)
            if wheel is None:
                raise BundleFault(
                    f"{requirement.name}{requirement.specifier} has no wheel for Python {python}, "
                    f"x86-64, glibc 2.28; leave out its extra: EXTRAS=…, or this Python: PYTHONS=…"
                )
            chosen.setdefault(wheel.file, wheel).pythons.append(python)
    return [chosen[file] for file in sorted(chosen)]


def _choose_wheel(
    requirement: Requirement, sums: Sequence[str], files: dict[str, str], ranks: dict[Tag, int]
) -> LockedWheel | None:
    best: tuple[int, str, str] | None = None
    for one in sums:
        file = files.get(one)
        if file is None:  # an archive of sources
            continue
        fitting = [ranks[tag] for tag in parse_wheel_filename(file)[3] if tag in ranks]
        if fitting and (best is None or (min(fitting), file) < best[:2]):
            best = (min(fitting), file, one)
    if best is None:
        return None
    _, file, sha256 = best
    name, version, _, _ = parse_wheel_filename(file)
    return LockedWheel(canonicalize_name(requirement.name) or name, str(version), file, sha256)


def _choose_source(requirement: Requirement, sums: Sequence[str]) -> LockedWheel:
    name = canonicalize_name(requirement.name)
    version = _get_version(requirement)
    return LockedWheel(name, version, f"{name}-{version}.tar.gz", sums[0], is_source=True)


def _get_version(requirement: Requirement) -> str:
    (exact,) = requirement.specifier
    return exact.version


def _map_files(lock: dict[str, Any]) -> dict[str, str]:
    """Map the sums of all wheels in the lock to their file names."""
    files = {}
    for package in lock["package"]:
        for wheel in package.get("wheels", ()):
            name = wheel.get("filename") or wheel["url"].rpartition("/")[2]
            files[wheel["hash"].removeprefix("sha256:")] = name.replace("%2B", "+")
    return files


def _read_requirements(exported: str) -> Iterator[tuple[Requirement, list[str]]]:
    for line in exported.replace("\\\n", " ").splitlines():
        line = line.strip()
        if line and not line.startswith(("#", "-")):
            yield Requirement(_HASH.sub("", line).strip()), _HASH.findall(line)


def _list_tags(python: str) -> Iterator[Tag]:
    version = tuple(map(int, python.split(".")))
    interpreter = f"cp{''.join(map(str, version))}"
    yield from cpython_tags(version, platforms=PLATFORMS)
    yield from compatible_tags(version, interpreter, platforms=PLATFORMS)


def _make_environment(python: str) -> dict[str, str]:
    """Make the values of PEP 508's markers there, not those of this machine."""
    return {
        "implementation_name": "cpython",
        # Some markers of the lock are about patch releases; the newest ones are meant.
        "implementation_version": f"{python}.99",
        "os_name": "posix",
        "platform_machine": MACHINE,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.99",
        "python_version": python,
        "sys_platform": "linux",
        "extra": "",
    }


def export_requirements(root: Path, *words: str) -> str:
    """Return what `uv export` writes for the given options, without our own packages."""
    plain = ("--quiet", "--frozen", "--no-annotate", "--no-header", "--no-emit-workspace")
    done = subprocess.run(
        [find_uv(root), "export", *plain, *words],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BundleFault(f"uv export {' '.join(words)} ended with {done.returncode}")
    return done.stdout


def find_uv(root: Path) -> str:
    """Return the path of uv, fetched where the machine has none."""
    found = subprocess.run(
        [sys.executable, "-I", "-S", "tools/get_uv.py"],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return found.stdout.split()[-1]


def read_lock(root: Path) -> dict[str, Any]:
    """Read uv.lock."""
    return tomllib.loads((root / "uv.lock").read_text(encoding="utf-8"))


def fetch_wheels(root: Path, wheels: Iterable[LockedWheel], cache: Path) -> None:
    """Have every wheel in the cache, with the sum of the lock; only what lacks is fetched.

    Raises:
        BundleFault: A wheel cannot be fetched.
    """
    cache.mkdir(parents=True, exist_ok=True)
    locked = []
    for one in wheels:
        if one.is_source:
            _build_wheel(root, one, cache)
        else:
            locked.append(one)
    missing = [one for one in locked if not _is_whole(cache / one.file, one.sha256)]
    for python in sorted({one.pythons[0] for one in missing}):
        mine = [one for one in missing if one.pythons[0] == python]
        wanted = cache / f".wanted-{python}.txt"
        lines = [f"{one.name}=={one.version} --hash=sha256:{one.sha256}\n" for one in mine]
        wanted.write_text("".join(lines), encoding="utf-8")
        target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
        target += [f"--platform={platform}" for platform in PLATFORMS]
        words = ["tool", "run", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        words += [*target, "--requirement", str(wanted), "--dest", str(cache)]
        done = subprocess.run([find_uv(root), *words], cwd=root, check=False)
        wanted.unlink()
        if done.returncode:
            raise BundleFault(f"pip download for Python {python} ended with {done.returncode}")
    for one in missing:
        if not _is_whole(cache / one.file, one.sha256):
            raise BundleFault(f"{one.file} was not fetched with the sum that uv.lock has")


def _build_wheel(root: Path, source: LockedWheel, cache: Path) -> None:
    """Build the wheel of a package that publishes none; it must be for every Python."""
    folder = cache / f"built-{source.sha256[:16]}"
    if not list(folder.glob("*.whl")):
        new = cache / f".building-{source.sha256[:16]}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        wanted = new / "wanted.txt"
        line = f"{source.name}=={source.version} --hash=sha256:{source.sha256}\n"
        wanted.write_text(line, encoding="utf-8")
        words = ["tool", "run", "pip", "wheel", "--quiet", "--no-deps", "--no-binary=:all:"]
        words += ["--require-hashes", "--requirement", str(wanted), "--wheel-dir", str(new)]
        environ = {**os.environ, "SOURCE_DATE_EPOCH": str(_BUILD_EPOCH)}
        done = subprocess.run([find_uv(root), *words], cwd=root, env=environ, check=False)
        if done.returncode:
            raise BundleFault(f"pip wheel {line.strip()} ended with {done.returncode}")
        new.replace(folder)
    (wheel,) = folder.glob("*.whl")
    if not wheel.name.endswith("-none-any.whl"):
        raise BundleFault(f"{wheel.name} is for this machine alone; leave out its extra: EXTRAS=…")
    shutil.copyfile(wheel, cache / wheel.name)
    source.file = wheel.name
    source.sha256 = hash_file(wheel)


def _is_whole(path: Path, sha256: str) -> bool:
    return path.is_file() and hash_file(path) == sha256


def hash_file(path: Path) -> str:
    """Return the SHA-256 sum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
