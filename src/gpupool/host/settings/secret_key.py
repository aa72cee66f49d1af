"""Reads from the environment where the key of the pool's secrets is (docs/decisions/0121)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpupool.base.errors import BadOption
from gpupool.base.settings import PoolPaths

NAME: Final = "GPUPOOL_SECRET_KEY_FILE"


def find_key_file(environ: Mapping[str, str], paths: PoolPaths) -> Path:
    """Return the file; in the state directory where nothing is set. Raises BadOption."""
    if not environ.get(NAME):
        return paths.secrets / "secret.key"
    path = Path(environ[NAME])
    if not path.is_absolute():
        # The server works in another directory.
        raise BadOption(
            f"{NAME}={path} is relative: got {str(path)!r}, expected a whole path",
            hint=f"{NAME}={path.absolute()} gpupool up",
        )
    return path
