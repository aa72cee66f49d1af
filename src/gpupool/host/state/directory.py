"""Keeps the state directory: its lock, its layout, and the marker that starts its pool again."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gpupool.base import instance
from gpupool.base.durable import write_durably
from gpupool.base.errors import BadOption, PoolAlreadyRunning, StateNewer, StateUnusable
from gpupool.base.files.trees import remove_tree
from gpupool.base.room import check_room_for_new_pool, state_error
from gpupool.base.settings import PoolPaths
from gpupool.model.container import ContainerPolicy, parse_container_policy

#: 2 since 0.2.0: 0.1.0 would write the marker again without what it does not know, so without TLS.
LAYOUT = 2


@dataclass(frozen=True)
class PoolMarker:
    """`pool.json`: what a start without options has to know."""

    pool_id: str
    layout: int = LAYOUT
    sim: str | None = None
    node_name: str = "node-1"
    #: Database URL; None is SQLite in the state directory.
    store: str | None = None
    listeners: tuple[str, ...] = ()
    #: Certificate chain of every TCP listener; a start without options is never weaker than the one
    #: before.
    tls_cert: str | None = None
    tls_key: str | None = None
    #: Plain HTTP beyond loopback was allowed, for these listeners.
    insecure_http: bool = False
    #: What befalls a fenced job that has more than its share; None: as suits the pool.
    fence_reaction: str | None = None
    #: Of its nodes, as they were given: `rack=r1`, `sim-1:rack=r2`.
    labels: tuple[str, ...] = ()
    #: What jobs may have of their nodes beside cards, as it was given: `nofile=1024:65536`.
    job_limits: tuple[str, ...] = ()
    #: Images and directories that containers may have, as they were given.
    allow_images: tuple[str, ...] = ()
    allow_volumes: tuple[str, ...] = ()
    #: One of two servers on a PostgreSQL database: it waits while another leads, and has no agent
    #: of its own.
    standby: bool = False
    pid: int | None = None
    #: The database was there once: one that is missing is a loss, never a fresh start.
    begun: bool = False

    def read_container_policy(self, *, own_pool: bool) -> ContainerPolicy:
        """Return what containers may have. Raises BadOption."""
        try:
            return parse_container_policy(self.allow_images, self.allow_volumes, own_pool=own_pool)
        except ValueError as error:
            raise BadOption(f"--allow-image or --allow-volume: {error}") from None


_LISTS = ("listeners", "labels", "job_limits", "allow_images", "allow_volumes")


class StateDir:
    """A state directory that this process has locked."""

    def __init__(self, root: Path) -> None:
        self.paths = PoolPaths(root)
        self._lock: int | None = None
        self.instance: instance.PoolInstance | None = None
        self._made_root = self._is_new = False

    def open(self) -> PoolMarker | None:
        """Create or check the directory, and take its lock.

        Returns:
            The marker of an existing pool, None of a new one.

        Raises:
            PoolAlreadyRunning: another process has the lock.
        """
        root = self.paths.root
        try:
            if not self.paths.marker.exists():
                check_room_for_new_pool(str(root))
            self._made_root = not root.exists()
            root.mkdir(mode=0o711 if os.getuid() == 0 else 0o700, parents=True, exist_ok=True)
            self._check_ours(root)
            self._take_lock()
            self._is_new = not self.paths.marker.exists()
            self.paths.secrets.mkdir(mode=0o700, exist_ok=True)
            self.paths.agent.mkdir(mode=0o711, exist_ok=True)
            marker = read_marker(self.paths)
            self.instance = instance.claim_directory(root)
        except OSError as error:
            raise state_error(str(root), error) from error
        return marker

    def _check_ours(self, root: Path) -> None:
        found = os.stat(root)
        if not stat.S_ISDIR(found.st_mode):
            raise StateUnusable(f"{root} is no directory", hint="choose another --state-dir")
        if found.st_uid != os.getuid():
            raise StateUnusable(
                f"{root} belongs to uid {found.st_uid}, not to uid {os.getuid()}",
                hint="choose another --state-dir",
            )
        if not self.paths.marker.exists() and _has_foreign_files(root):
            raise StateUnusable(
                f"{root} holds files and is no state directory of gpupool",
                hint="choose an empty directory with --state-dir",
            )

    def _take_lock(self) -> None:
        fd = os.open(self.paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 32).decode(errors="replace").strip() or "?"
            os.close(fd)
            raise PoolAlreadyRunning(
                f"a pool is already running on {self.paths.root} (pid {holder})",
                hint="gpupool ps  talks to it;  gpupool down  ends it",
                pid=holder,
            ) from None
        self._lock = fd
        # The pid is for people; a purge on a full disk must work without it.
        with suppress(OSError):
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)

    def write_marker(self, marker: PoolMarker) -> None:
        """Replace the marker atomically; it is on disk when this returns."""
        write_durably(self.paths.marker, json.dumps(asdict(marker), indent=1).encode() + b"\n")
        if marker.begun:
            self._is_new = False

    def abandon_new_pool(self) -> None:
        """Remove the files of a new pool that could not start; keeps an older pool's files."""
        if self._lock is None or not self._is_new:
            return
        _remove_files(self.paths)
        if self._made_root:
            _remove_empty(self.paths.root)

    def close(self) -> None:
        """Release the directory; nothing is removed."""
        if self._lock is not None:
            marker = read_marker(self.paths)
            if marker is not None and marker.pid == os.getpid():
                # On a full disk the old pid stays; the free lock tells that it is stale.
                with suppress(OSError):
                    self.write_marker(replace(marker, pid=None))
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None


#: Everything that gpupool puts into a state directory; the only names a purge removes.
OURS = frozenset(
    {
        "pool.lock",
        "pool.json",
        "pool.json.new",
        "pool.tmp",
        "identity",
        "identity.new",
        "gpupool.sock",
        "gpupool.db",
        "gpupool.db-wal",
        "gpupool.db-shm",
        "gpupool.db-journal",
        "gpupool.db.new",
        "gpupool.db.reserve",
        "gpupool.db.rescued",
        "gpupool.db.rescued.new",
        "gpupool.db.new-wal",
        "gpupool.db.new-shm",
        "gpupool.db.new-journal",
        "server.log",
        "server.log.1",
        "secrets",
        "agent",
        "images",
        "simulated",
    }
)


#: A socket that was being bound when the server was killed.
_BINDING = re.compile(r"\.\d+\.sock")


def _is_own_name(name: str) -> bool:
    return name in OURS or _BINDING.fullmatch(name) is not None


def _has_foreign_files(root: Path) -> bool:
    return any(not _is_own_name(name) for name in os.listdir(root))


def read_marker(paths: PoolPaths) -> PoolMarker | None:
    """Return the marker, None where there is none.

    Raises:
        StateNewer: a newer gpupool wrote it.
        StateUnusable: it cannot be read.
    """
    try:
        text = paths.marker.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        known: dict[str, Any] = json.loads(text)
        layout = int(known["layout"])
    except (ValueError, KeyError, TypeError) as error:
        raise StateUnusable(
            f"{paths.marker} cannot be read: {error}", hint="restore it, or purge the state"
        ) from error
    if layout > LAYOUT:
        raise StateNewer(
            f"{paths.root} was written by a newer gpupool (layout {layout}, this one knows {LAYOUT})",
            hint="install that version again, or choose another --state-dir",
        )
    return parse_marker(known)


def parse_marker(known: dict[str, Any]) -> PoolMarker:
    """Return a marker from its fields; fields that a later version has added are ignored."""
    fields = {name: known[name] for name in PoolMarker.__dataclass_fields__ if name in known}
    lists = {name: tuple(known.get(name, ())) for name in _LISTS}
    return PoolMarker(**{**fields, **lists})


def find_running_pid(paths: PoolPaths) -> int | None:
    """Return the pid of the pool that has locked the directory, None when it is free."""
    # The test takes the lock for a moment and releases it by closing the descriptor.
    try:
        fd = os.open(paths.lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(fd, 32).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(fd)
    return None


def remove_state(paths: PoolPaths) -> list[str]:
    """Remove gpupool's files from a state directory, and the directory if it is empty then.

    Returns:
        The removed paths.
    """
    if not paths.root.exists():
        return []
    if not paths.marker.exists() and _has_foreign_files(paths.root):
        raise StateUnusable(
            f"{paths.root} is no state directory of gpupool; nothing was removed",
            hint="check --state-dir",
        )
    removed = _remove_files(paths)
    if _remove_empty(paths.root):
        removed.append(str(paths.root))
    return removed


def _remove_files(paths: PoolPaths) -> list[str]:
    # Only a purge needs it, and every start of a server imports this module.
    from gpupool.vm.image_build import remove_store

    removed = []
    # The marker goes last, so that an interrupted purge can be repeated.
    for name in sorted(
        filter(_is_own_name, os.listdir(paths.root)), key=lambda name: (name == "pool.json", name)
    ):
        path = paths.root / name
        if path.is_dir() and not path.is_symlink():
            if path == paths.images:
                remove_store(path)
                if path.exists():
                    continue
            else:
                remove_tree(path)
        else:
            path.unlink()
        removed.append(str(path))
    return removed


def _remove_empty(root: Path) -> bool:
    """Remove an empty directory that is no mount point; returns whether it is gone."""
    if any(root.iterdir()):
        return False
    try:
        root.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True
