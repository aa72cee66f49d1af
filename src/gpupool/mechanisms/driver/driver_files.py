"""Makes the driver libraries that a job finds: the host's, simulated ones, or stand-ins.

A library named `libcuda.so.1` is found in every way that a program can look for it. Where the host
has such a file, the stand-in is bound over it for the job alone; the driver's file stays reachable
below the job's base directory. For simulated cards a private loader cache names the libraries. All
files lie below `<state>/fence/<key>/`, made once for each driver and readable by all users, because
jobs run as other users:

    lib/        the stand-ins for libcuda.so.1 and libnvidia-ml.so.1
    driver/     the simulated driver's libraries; of a real one only the mount points
    direct/     stand-ins that depend on the driver at its ordinary place, for jobs without mounts
    runtime/    the simulated card's CUDA runtimes
    fenced.cache, bare.cache    loader caches that name lib/ or driver/ before everything else

Imports no allocation.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gpupool.base.errors import NativeMissing
from gpupool.mechanisms.contract import HostMount
from gpupool.mechanisms.driver.installed_driver import (
    CUDA,
    LOADER_CACHE,
    NAMES,
    DriverFiles,
    find_installed_driver,
)
from gpupool.mechanisms.driver.standin import list_unclassified, make_standin

_VERSION: Final = 1
LDCONFIG: Final = ("/sbin/ldconfig", "/usr/sbin/ldconfig")
_MAKING = threading.Lock()


@dataclass(frozen=True)
class LibraryMounts:
    """What makes a job find certain libraries.

    Attributes:
        library_path: directories to search first, where nothing can be mounted.
    """

    mounts: tuple[HostMount, ...]
    library_path: tuple[str, ...]
    #: How the names are taken, in words for a person.
    way: str
    #: Functions of a driver newer than the fence's table: they pass it unseen.
    unclassified: tuple[str, ...] = ()


def find_templates() -> Path | None:
    """Return the directory of gpupool-native's stand-ins; None where it has none."""
    try:
        from gpupool_native import fence_dir
    except ImportError:
        return None
    place = fence_dir()
    return place if (place / CUDA).is_file() else None


def find_simulated_libraries() -> Path | None:
    """Return the directory of the simulated driver; None where gpupool-native has none."""
    try:
        from gpupool_native import simgpu_dir
    except ImportError:
        return None
    place = simgpu_dir()
    return place if (place / CUDA).is_file() else None


class DriverLibraries:
    """The directory of one driver below an agent's state.

    Args:
        base: directory of the job's mounts, as the job sees it.
        host: the driver of this host.
        simulated: directory of the simulated driver's libraries; None for real cards.
    """

    def __init__(
        self, state_dir: Path, base: str, host: DriverFiles, simulated: Path | None
    ) -> None:
        self._base = base
        self._host = host
        self._simulated = simulated
        self._templates = find_templates()
        self.root = state_dir / "fence" / self._compute_key()

    def plan_fenced(self) -> LibraryMounts:
        """Return what makes a job find the stand-ins under the driver's names.

        Raises:
            NativeMissing: gpupool-native has no stand-ins.
        """
        self._ensure_directory()
        if self._templates is None:
            raise NativeMissing(
                "gpupool-native has no fence libraries", hint="reinstall gpupool-native"
            )
        unseen = tuple((self.root / "unclassified").read_text(encoding="utf-8").split())
        if self._simulated is not None:
            return replace(self._plan_by_cache("lib", "fenced.cache"), unclassified=unseen)
        mounts = [*self.list_behind(fenced=True), *self._list_covers("lib")]
        return LibraryMounts(
            tuple(mounts), (str(self.root / "direct"),), "bound over the driver's files", unseen
        )

    def plan_bare(self) -> LibraryMounts:
        """Return what makes a job find the driver itself; nothing for real cards."""
        if self._simulated is None:
            return LibraryMounts((), (), "the host's own driver")
        self._ensure_directory()
        return self._plan_by_cache("driver", "bare.cache")

    def list_shown(self, *, fenced: bool) -> Mapping[str, Path]:
        """Return the files that a container is to find, by name."""
        self._ensure_directory()
        shown: dict[str, Path] = {}
        parts: list[str] = []
        if self._simulated is None:
            for name, files in self._host.files.items():
                shown[name] = files[0]
            if fenced:
                parts = ["lib"]
        else:
            parts = ["runtime", "lib" if fenced else "driver"]
        for part in parts:
            for path in sorted((self.root / part).iterdir()):
                shown[path.name] = path
        return shown

    def list_behind(self, *, fenced: bool) -> tuple[HostMount, ...]:
        """Return the mounts by which the stand-ins of a container reach the driver."""
        if not fenced:
            return ()
        if self._simulated is not None:
            return (HostMount(self.root / "driver", str(self.root / "driver")),)
        mounts = [HostMount(self.root / "driver", f"{self._base}/driver")]
        for name in self._list_covered("lib"):
            mounts.append(HostMount(self._host.files[name][0], f"{self._base}/driver/{name}"))
        return tuple(mounts)

    def _plan_by_cache(self, libraries: str, cache: str) -> LibraryMounts:
        """Return mounts of a loader cache that names the libraries, and over a real driver."""
        searched = (str(self.root / libraries), str(self.root / "runtime"))
        if not (self.root / cache).exists() or not LOADER_CACHE.exists():
            return LibraryMounts(
                tuple(self._list_covers(libraries)),
                searched,
                "named by LD_LIBRARY_PATH alone: no ldconfig here",
            )
        mounts = (HostMount(self.root / cache, str(LOADER_CACHE)), *self._list_covers(libraries))
        return LibraryMounts(mounts, searched, "named by a private loader cache")

    def _list_covers(self, libraries: str) -> list[HostMount]:
        covers = []
        for name in self._list_covered(libraries):
            # Every file of that name: a program may open any of them by its path.
            for path in self._host.files[name]:
                covers.append(HostMount(self.root / libraries / name, str(path)))
        return covers

    def _list_covered(self, libraries: str) -> list[str]:
        """Return the driver's names for which there is a library to put there."""
        return [name for name in self._host.files if (self.root / libraries / name).exists()]

    def _compute_key(self) -> str:
        """Return a key that differs whenever other files would be made.

        That is after an update of the driver or of gpupool, or of the loader's cache: running jobs
        keep the files of the old key.
        """
        parts = [str(_VERSION), self._base, _format_stamp(LOADER_CACHE)]
        for name, paths in sorted(self._host.files.items()):
            parts += [f"{name}{path}{_format_stamp(path)}" for path in paths]
        for place in (self._templates, self._simulated):
            if place is None:
                parts.append("none")
            else:
                parts += [f"{path}{_format_stamp(path)}" for path in sorted(place.iterdir())]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def _ensure_directory(self) -> None:
        """Make the directory once. Finishes what a kill left; never replaces what jobs may use."""
        # Jobs start in several threads; `complete` is written last.
        with _MAKING:
            if (self.root / "complete").exists():
                return
            if not self.root.is_dir():
                self._make_directory()
            if self._simulated is not None:
                self._write_caches()
            (self.root / "complete").touch(0o644)

    def _make_directory(self) -> None:
        new = self.root.with_name(f"{self.root.name}.new")
        if new.is_dir():
            shutil.rmtree(new)
        for directory in (new.parent, new):
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            directory.chmod(0o755)
        self._fill_directory(new)
        os.replace(new, self.root)

    def _fill_directory(self, new: Path) -> None:
        for part in ("driver", "runtime", "lib", "direct"):
            (new / part).mkdir()
            (new / part).chmod(0o755)
        unseen: list[str] = []
        for name in NAMES:
            if self._simulated is None:
                (new / "driver" / name).touch(0o644)
            elif (self._simulated / name).exists():
                _copy_library(self._simulated / name, new / "driver" / name)
            unseen += self._make_stand_in(new, name)
        (new / "unclassified").write_text("".join(f"{one}\n" for one in unseen), encoding="utf-8")
        for path in sorted(self._simulated.glob("libcudart.so.*")) if self._simulated else ():
            _copy_library(path, new / "runtime" / path.name)

    def _make_stand_in(self, new: Path, name: str) -> tuple[str, ...]:
        """Make the stand-in for one name; returns the driver's functions that its table lacks."""
        template = self._templates / name if self._templates else None
        file = (
            self._simulated / name
            if self._simulated
            else next(iter(self._host.files.get(name, ())), None)
        )
        if template is None or file is None or not (template.exists() and file.exists()):
            return ()
        if self._simulated is not None:
            make_standin(template, self.root / "driver" / name, self._base, new / "lib" / name)
        else:
            make_standin(
                template, Path(self._base) / "driver" / name, self._base, new / "lib" / name
            )
            make_standin(template, file, self._base, new / "direct" / name)
        return list_unclassified(template, file)

    def _write_caches(self) -> None:
        # Loader caches hold final paths, so they are made in the final place. As with every run,
        # ldconfig also updates its own auxiliary cache on the host.
        ldconfig = next((path for path in LDCONFIG if os.access(path, os.X_OK)), None)
        for name, libraries in (
            (("fenced.cache", "lib"), ("bare.cache", "driver")) if ldconfig else ()
        ):
            configuration = self.root / f"{name}.conf"
            if (self.root / name).exists():
                continue
            configuration.write_text(
                f"{self.root / libraries}\n{self.root / 'runtime'}\ninclude /etc/ld.so.conf\n"
            )
            new = self.root / f"{name}.new"
            command = [str(ldconfig), "-X", "-C", str(new), "-f", str(configuration)]
            done = subprocess.run(command, capture_output=True, check=False, timeout=60)
            if done.returncode == 0 and new.exists():
                new.chmod(0o644)
                os.replace(new, self.root / name)


def list_known_drivers(state_dir: Path, root: Path = Path("/")) -> frozenset[int]:
    """Return the inodes of every libcuda that a job may have mapped.

    Those are gpupool's own, and the files of the driver below `root`.
    """
    ours = (state_dir / "fence").glob(f"*/*/{CUDA}")
    drivers = find_installed_driver(root=root).files.get(CUDA, ())
    found = set()
    for path in (*ours, *drivers):
        # Another thread may make a directory, which gets its name when it is whole.
        with suppress(FileNotFoundError):
            found.add(path.stat().st_ino)
    return frozenset(found)


def _copy_library(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o755)


def _format_stamp(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return "-"
    return f"{found.st_size}.{found.st_mtime_ns}"
