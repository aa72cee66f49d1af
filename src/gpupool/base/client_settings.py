"""Which pool a client talks to, read from the environment once.

Every `gpupool run` pays for what this module imports, so it stays with `os` and plain classes:
no dataclasses (they import inspect), no pathlib. `base.settings` hands these names on.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Path = str | os.PathLike[str]

SYSTEM_STATE_DIR_TEXT = "/var/lib/gpupool"
SYSTEM_SOCKET_TEXT = "/run/gpupool/gpupool.sock"
SOCKET_NAME = "gpupool.sock"


class ClientSettings:
    """Which pool a client talks to, in this order: state directory, URL, saved login, own pool, system pool."""

    __slots__ = ("ca_file", "login_file", "own_state_dir", "state_dir", "token", "url")

    def __init__(
        self,
        state_dir: Path | None = None,
        url: str | None = None,
        token: str | None = None,
        own_state_dir: Path = SYSTEM_STATE_DIR_TEXT,
        ca_file: str | None = None,
        login_file: Path | None = None,
    ) -> None:
        self.state_dir, self.url, self.token = state_dir, url, token
        self.own_state_dir, self.ca_file, self.login_file = own_state_dir, ca_file, login_file


def client_settings(
    environ: Mapping[str, str] = os.environ, *, state_dir: str | None = None, uid: int | None = None
) -> ClientSettings:
    """Read GPUPOOL_STATE_DIR, GPUPOOL_URL, GPUPOOL_TOKEN, GPUPOOL_CA_FILE; an argument wins over them."""
    chosen = state_dir or environ.get("GPUPOOL_STATE_DIR")
    return ClientSettings(
        state_dir=os.path.abspath(chosen) if chosen else None,
        url=None if state_dir else environ.get("GPUPOOL_URL") or None,
        token=environ.get("GPUPOOL_TOKEN") or None,
        own_state_dir=own_state_dir(environ, uid),
        ca_file=environ.get("GPUPOOL_CA_FILE") or None,
        login_file=login_file(environ),
    )


def own_state_dir(environ: Mapping[str, str] = os.environ, uid: int | None = None) -> str:
    """/var/lib/gpupool for root, else gpupool below XDG_STATE_HOME (~/.local/state)."""
    if (os.getuid() if uid is None else uid) == 0:
        return SYSTEM_STATE_DIR_TEXT
    return _below(environ, "XDG_STATE_HOME", ".local/state", "gpupool")


def login_file(environ: Mapping[str, str] = os.environ) -> str:
    """Where `gpupool login` keeps which pool and which token: ~/.config/gpupool/login.json, mode 0600."""
    return _below(environ, "XDG_CONFIG_HOME", ".config", "gpupool/login.json")


def _below(environ: Mapping[str, str], variable: str, default: str, name: str) -> str:
    base = environ.get(variable) or os.path.join(environ.get("HOME", "/"), default)
    return os.path.join(base, name)
