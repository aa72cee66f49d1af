"""Settings as frozen dataclasses, built once at an entry point from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpupool.base.client_settings import (
    SOCKET_NAME,
    SYSTEM_SOCKET_TEXT,
    SYSTEM_STATE_DIR_TEXT,
    ClientSettings,
    client_settings,
    own_state_dir,
)

__all__ = [
    "SOCKET_NAME",
    "SYSTEM_SOCKET",
    "SYSTEM_STATE_DIR",
    "ClientSettings",
    "PoolPaths",
    "client_settings",
    "default_state_dir",
]

SYSTEM_STATE_DIR = Path(SYSTEM_STATE_DIR_TEXT)
SYSTEM_SOCKET = Path(SYSTEM_SOCKET_TEXT)


def default_state_dir(environ: Mapping[str, str] = os.environ, uid: int | None = None) -> Path:
    """Find the state directory of an account's own pool; see `own_state_dir`."""
    return Path(own_state_dir(environ, uid))


@dataclass(frozen=True)
class PoolPaths:
    """The paths of one pool, below its state directory."""

    root: Path

    @property
    def socket(self) -> Path:
        return self.root / SOCKET_NAME

    @property
    def lock(self) -> Path:
        return self.root / "pool.lock"

    @property
    def marker(self) -> Path:
        """The file `pool.json`: layout version, and how the pool was started."""
        return self.root / "pool.json"

    @property
    def database(self) -> Path:
        return self.root / "gpupool.db"

    @property
    def server_log(self) -> Path:
        return self.root / "server.log"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def agent(self) -> Path:
        return self.root / "agent"

    @property
    def jobs(self) -> Path:
        return self.agent / "jobs"

    @property
    def vms(self) -> Path:
        """The directories of virtual machines, which may outlive their jobs."""
        return self.agent / "vms"

    @property
    def images(self) -> Path:
        """The store of read-only disk images."""
        return self.root / "images"
