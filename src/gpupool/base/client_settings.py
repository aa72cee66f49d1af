"""Reads from the environment which pool a client talks to.

Every `gpupool run` imports this module, so it imports `os` alone: no dataclasses (they import
inspect), no pathlib. `base.settings` exports these names too.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Path = str | os.PathLike[str]

#: State of the machine's own pool, which root starts.
SYSTEM_STATE_DIR_TEXT = "/var/lib/gpupool"
#: In /run, which a boot empties: no socket of a pool that is gone.
SYSTEM_SOCKET_TEXT = "/run/gpupool/gpupool.sock"
SOCKET_NAME = "gpupool.sock"


class ClientSettings:
    """Which pool a client talks to.

    The first that is set decides: state directory, URL, saved login, own pool, system pool.
    """

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
        self.state_dir = state_dir
        self.url = url
        self.token = token
        self.own_state_dir = own_state_dir
        self.ca_file = ca_file
        self.login_file = login_file


def client_settings(
    environ: Mapping[str, str] = os.environ, *, state_dir: str | None = None, uid: int | None = None
) -> ClientSettings:
    """Read GPUPOOL_STATE_DIR, GPUPOOL_URL, GPUPOOL_TOKEN and GPUPOOL_CA_FILE.

    Args:
        environ: The environment.
        state_dir: A state directory from the command line; it overrides the environment.
        uid: The account; None is the process's own.
    """
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
    """Find the state directory of an account's own pool.

    It is /var/lib/gpupool for root, else gpupool below XDG_STATE_HOME (~/.local/state).
    """
    if (os.getuid() if uid is None else uid) == 0:
        return SYSTEM_STATE_DIR_TEXT
    return _below(environ, "XDG_STATE_HOME", ".local/state", "gpupool")


def login_file(environ: Mapping[str, str] = os.environ) -> str:
    """Find the file of `gpupool login`, with the pool and the token.

    It is gpupool/login.json below XDG_CONFIG_HOME (~/.config), mode 0600.
    """
    return _below(environ, "XDG_CONFIG_HOME", ".config", "gpupool/login.json")


def _below(environ: Mapping[str, str], variable: str, default: str, name: str) -> str:
    base = environ.get(variable) or os.path.join(environ.get("HOME", "/"), default)
    return os.path.join(base, name)
