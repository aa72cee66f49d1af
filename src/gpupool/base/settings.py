"""Settings: frozen dataclasses built once at an entry point. The only reader of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SYSTEM_STATE_DIR = Path("/var/lib/gpupool")
SYSTEM_SOCKET = Path("/run/gpupool/gpupool.sock")
SOCKET_NAME = "gpupool.sock"


@dataclass(frozen=True)
class ClientSettings:
    """Which pool a client talks to, in this order: URL, state directory, own pool, system pool."""

    state_dir: Path | None
    url: str | None
    token: str | None
    own_state_dir: Path
    ca_file: str | None = None


def client_settings(
    environ: Mapping[str, str] = os.environ, *, state_dir: str | None = None, uid: int | None = None
) -> ClientSettings:
    """Read GPUPOOL_STATE_DIR, GPUPOOL_URL, GPUPOOL_TOKEN, GPUPOOL_CA_FILE; an argument wins over them."""
    chosen = state_dir or environ.get("GPUPOOL_STATE_DIR")
    return ClientSettings(
        state_dir=Path(os.path.abspath(chosen)) if chosen else None,
        url=None if state_dir else environ.get("GPUPOOL_URL"),
        token=environ.get("GPUPOOL_TOKEN"),
        own_state_dir=default_state_dir(environ, uid),
        ca_file=environ.get("GPUPOOL_CA_FILE"),
    )


def default_state_dir(environ: Mapping[str, str] = os.environ, uid: int | None = None) -> Path:
    """/var/lib/gpupool for root, else gpupool below XDG_STATE_HOME (~/.local/state)."""
    if (os.getuid() if uid is None else uid) == 0:
        return SYSTEM_STATE_DIR
    base = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME", "/"), ".local", "state")
    return Path(base) / "gpupool"


@dataclass(frozen=True)
class PoolPaths:
    """Where everything of one pool lies below its state directory."""

    root: Path

    @property
    def socket(self) -> Path:
        return self.root / SOCKET_NAME

    @property
    def lock(self) -> Path:
        return self.root / "pool.lock"

    @property
    def marker(self) -> Path:
        """`pool.json`: layout version, how the pool was started (cards, store, listeners)."""
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
