"""Which CUDA driver and NVML a job finds: this host's, the simulated one, or a stand-in that has the name of either.

A library that is `libcuda.so.1` is found by every way a program has of looking for it. Where the host has such a
file, ours is bound over it for the job alone; the driver's own file stays reachable below the job's base directory. For
simulated cards, where there is none, a private loader cache names ours. Everything needed lies below
`<state>/fence/<key>/`, made once for each driver and readable by all, because jobs run as other users:

    lib/        the stand-ins for libcuda.so.1 and libnvidia-ml.so.1
    driver/     the simulated driver's libraries; of a real one only the mount points
    direct/     stand-ins that depend on the driver at its ordinary place, for jobs without mounts
    runtime/    the simulated card's CUDA runtimes
    fenced.cache, bare.cache    loader caches that name lib/ or driver/ before everything else

Knows no allocation.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gpupool.base.errors import NativeMissing
from gpupool.mechanisms.contract import Mount
from gpupool.mechanisms.standin import make_standin, unclassified

CUDA, NVML = "libcuda.so.1", "libnvidia-ml.so.1"
NAMES: Final = (CUDA, NVML)
LOADER_CACHE: Final = Path("/etc/ld.so.cache")
_VERSION: Final = 1
_PLACES: Final = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib64/nvidia",
    "/usr/lib/nvidia",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/opt/nvidia/lib64",
    "/run/opengl-driver/lib",
)
LDCONFIG: Final = ("/sbin/ldconfig", "/usr/sbin/ldconfig")
_MAKING = threading.Lock()


@dataclass(frozen=True)
class Driver:
    """The files behind each name, the one to use first. A name without a file is absent."""

    files: Mapping[str, tuple[Path, ...]]


@dataclass(frozen=True)
class Sight:
    """What makes a job see certain libraries: mounts and, where nothing can be mounted, directories to search first."""

    mounts: tuple[Mount, ...]
    library_path: tuple[str, ...]
    way: str
    """How the names are taken, in words for a person."""
    unclassified: tuple[str, ...] = ()
    """Functions of a driver newer than the fence's table: they pass it unseen."""


def installed_driver(
    places: Iterable[str] = _PLACES, cache: Path | None = LOADER_CACHE, root: Path = Path("/")
) -> Driver:
    """This host's driver: every file of our architecture behind its names, in the loader's directories. `root` is
    where its root filesystem is, for who looks at it from a container.
    """
    known = root / cache.relative_to("/") if cache is not None and cache.is_absolute() else cache
    directories = [root / one.lstrip("/") for one in (*(str(Path(one).parent) for one in _cached(known)), *places)]
    found = {name: _real_files(directory / name for directory in directories) for name in NAMES}
    return Driver({name: files for name, files in found.items() if files})


def _cached(cache: Path | None) -> list[str]:
    """Paths with our names that the loader's cache holds: its strings are NUL-terminated (ldconfig(8))."""
    try:
        content = cache.read_bytes() if cache else b""
    except OSError:
        return []
    texts = content.split(b"\0")
    names = [os.fsencode(name) for name in NAMES]
    return [os.fsdecode(one) for one in texts if one.startswith(b"/") and one.rpartition(b"/")[2] in names]


def _real_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    real = (path.resolve() for path in paths if path.exists())
    return tuple(dict.fromkeys(path for path in real if path.is_file() and _is_our_kind(path)))


def _is_our_kind(path: Path) -> bool:
    """A 64-bit ELF file for this machine (elf(5): class at byte 4, machine at 18): no other can be covered by ours."""
    with open("/proc/self/exe", "rb") as own, path.open("rb") as file:
        return _elf_kind(own.read(20)) == _elf_kind(file.read(20)) != b""


def _elf_kind(head: bytes) -> bytes:
    return head[4:6] + head[18:20] if head[:4] == b"\x7fELF" else b""


def templates() -> Path | None:
    """Where the stand-ins of gpupool-native lie; None where it has none."""
    try:
        from gpupool_native import fence_dir
    except ImportError:
        return None
    place = fence_dir()
    return place if (place / CUDA).is_file() else None


def simulated_libraries() -> Path | None:
    """Where the simulated card's libraries lie; None where gpupool-native has none."""
    try:
        from gpupool_native import simgpu_dir
    except ImportError:
        return None
    place = simgpu_dir()
    return place if (place / CUDA).is_file() else None


class Libraries:
    """The directory of one driver below an agent's state. `simulated` is where its libraries come from, if it is."""

    def __init__(self, state_dir: Path, base: str, host: Driver, simulated: Path | None) -> None:
        self._base, self._host, self._simulated = base, host, simulated
        self._templates = templates()
        self.root = state_dir / "fence" / self._key()

    def fenced(self) -> Sight:
        """The stand-ins take the driver's names. Raises NativeMissing where there are none."""
        self._ensure()
        if self._templates is None:
            raise NativeMissing("gpupool-native has no fence libraries", hint="reinstall gpupool-native")
        unseen = tuple((self.root / "unclassified").read_text(encoding="utf-8").split())
        if self._simulated is not None:
            return replace(self._by_cache("lib", "fenced.cache"), unclassified=unseen)
        mounts = [*self.behind(fenced=True), *self._cover("lib")]
        return Sight(tuple(mounts), (str(self.root / "direct"),), "bound over the driver's files", unseen)

    def bare(self) -> Sight:
        """Simulated cards without a fence; for real ones there is nothing to show."""
        if self._simulated is None:
            return Sight((), (), "the host's own driver")
        self._ensure()
        return self._by_cache("driver", "bare.cache")

    def shown(self, *, fenced: bool) -> Mapping[str, Path]:
        """By name the file that a container is to find under it: ours before the driver's own."""
        self._ensure()
        parts = (
            ("runtime", "lib" if fenced else "driver") if self._simulated is not None else ("lib",) if fenced else ()
        )
        ours = {path.name: path for part in parts for path in sorted((self.root / part).iterdir())}
        return {**{name: files[0] for name, files in self._host.files.items() if self._simulated is None}, **ours}

    def behind(self, *, fenced: bool) -> tuple[Mount, ...]:
        """What the stand-ins of a container reach by their own paths: the driver."""
        if not fenced:
            return ()
        if self._simulated is not None:
            return (Mount(self.root / "driver", str(self.root / "driver")),)
        named = (Mount(self._host.files[name][0], f"{self._base}/driver/{name}") for name in self._covered("lib"))
        return (Mount(self.root / "driver", f"{self._base}/driver"), *named)

    def _by_cache(self, libraries: str, cache: str) -> Sight:
        """Simulated libraries are named by a cache, and cover a real driver where this host has one."""
        searched = (str(self.root / libraries), str(self.root / "runtime"))
        if not (self.root / cache).exists() or not LOADER_CACHE.exists():
            return Sight(tuple(self._cover(libraries)), searched, "named by LD_LIBRARY_PATH alone: no ldconfig here")
        mounts = (Mount(self.root / cache, str(LOADER_CACHE)), *self._cover(libraries))
        return Sight(mounts, searched, "named by a private loader cache")

    def _cover(self, libraries: str) -> list[Mount]:
        return [
            Mount(self.root / libraries / name, str(path))
            for name in self._covered(libraries)
            for path in self._host.files[name]
        ]

    def _covered(self, libraries: str) -> list[str]:
        """The driver's names for which we have a library of our own to put there."""
        return [name for name in self._host.files if (self.root / libraries / name).exists()]

    def _key(self) -> str:
        """Another key for whatever would make other files: a new driver, a new gpupool, libraries installed since."""
        parts = [str(_VERSION), self._base, _stamp(LOADER_CACHE)]
        parts += [f"{name}{path}{_stamp(path)}" for name, paths in sorted(self._host.files.items()) for path in paths]
        for place in (self._templates, self._simulated):
            parts += [f"{path}{_stamp(path)}" for path in sorted(place.iterdir())] if place else ["none"]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def _ensure(self) -> None:
        """Make the directory, once. What a kill left unfinished is finished; what jobs may use is never replaced."""
        with _MAKING:
            if (self.root / "complete").exists():
                return
            if not self.root.is_dir():
                self._make()
            if self._simulated is not None:
                self._write_caches()
            (self.root / "complete").touch(0o644)

    def _make(self) -> None:
        new = self.root.with_name(f"{self.root.name}.new")
        if new.is_dir():
            shutil.rmtree(new)
        for directory in (new.parent, new):
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            directory.chmod(0o755)
        self._fill(new)
        os.replace(new, self.root)

    def _fill(self, new: Path) -> None:
        for part in ("driver", "runtime", "lib", "direct"):
            (new / part).mkdir()
            (new / part).chmod(0o755)
        unseen: list[str] = []
        for name in NAMES:
            if self._simulated is None:
                (new / "driver" / name).touch(0o644)
            elif (self._simulated / name).exists():
                _copy(self._simulated / name, new / "driver" / name)
            unseen += self._stand_in(new, name)
        (new / "unclassified").write_text("".join(f"{one}\n" for one in unseen), encoding="utf-8")
        for path in sorted(self._simulated.glob("libcudart.so.*")) if self._simulated else ():
            _copy(path, new / "runtime" / path.name)

    def _stand_in(self, new: Path, name: str) -> tuple[str, ...]:
        """Ours for one name, where there is one and a driver for it; what that driver exports and our table lacks."""
        template = self._templates / name if self._templates else None
        file = self._simulated / name if self._simulated else next(iter(self._host.files.get(name, ())), None)
        if template is None or file is None or not (template.exists() and file.exists()):
            return ()
        if self._simulated is not None:
            make_standin(template, self.root / "driver" / name, self._base, new / "lib" / name)
        else:
            make_standin(template, Path(self._base) / "driver" / name, self._base, new / "lib" / name)
            make_standin(template, file, self._base, new / "direct" / name)
        return unclassified(template, file)

    def _write_caches(self) -> None:
        """Loader caches hold final paths, so they are made in the final place. (ldconfig notes what it read in its own
        auxiliary cache on the host, as with every run.)
        """
        ldconfig = next((path for path in LDCONFIG if os.access(path, os.X_OK)), None)
        for name, libraries in (("fenced.cache", "lib"), ("bare.cache", "driver")) if ldconfig else ():
            configuration = self.root / f"{name}.conf"
            if (self.root / name).exists():
                continue
            configuration.write_text(f"{self.root / libraries}\n{self.root / 'runtime'}\ninclude /etc/ld.so.conf\n")
            new = self.root / f"{name}.new"
            command = [str(ldconfig), "-X", "-C", str(new), "-f", str(configuration)]
            done = subprocess.run(command, capture_output=True, check=False, timeout=60)
            if done.returncode == 0 and new.exists():
                new.chmod(0o644)
                os.replace(new, self.root / name)


def known_drivers(state_dir: Path, root: Path = Path("/")) -> frozenset[int]:
    """Inodes of every libcuda that a job may have mapped: ours, and the driver's, whose files lie below `root`."""
    ours = (state_dir / "fence").glob(f"*/*/{CUDA}")
    return frozenset(path.stat().st_ino for path in (*ours, *installed_driver(root=root).files.get(CUDA, ())))


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o755)


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return "-"
    return f"{found.st_size}.{found.st_mtime_ns}"
