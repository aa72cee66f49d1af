"""The libraries of the extra `sso`, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gpupool.base.errors import SignonUnavailable


def import_library(name: str, purpose: str) -> Any:
    """Import a module of the extra `sso`.

    Raises:
        SignonUnavailable: the server lacks it.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise SignonUnavailable(
            f"{purpose} needs a library that this server lacks: {error}",
            hint="on the pool's machine: pip install 'gpupool[sso]', then gpupool restart",
        ) from error
