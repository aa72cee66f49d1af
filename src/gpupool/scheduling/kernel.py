"""The compiled kernel of this process: where its library lies, whether it is of this version and takes these cards.

Whoever starts a process says where the library lies (`adopt`); without it the policies run in NumPy and decide the
same, only later: which of the two it is changes no decision, and so is no argument of one. What it is asked is in
`kernel_calls`; the two know its functions and structures (native/kernel/kernel.h), and nobody else does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpupool.scheduling.snapshot import Cards

ABI = 6
MAX_CARDS = 64
"""On one node; a pool with a wider node is rated in NumPy."""
_INT, _AT = ctypes.c_int64, ctypes.c_void_p


_FUNCTIONS: Sequence[tuple[str, Any, tuple[Any, ...]]] = (
    ("amounts_add", None, (_AT, _INT, _INT, _AT, _INT, _INT, _AT, _INT, _INT)),
    ("fit_look", _INT, (_AT, _AT, _INT, _INT)),
    ("rooms_count", None, (_AT, _INT, _INT, _AT, _INT, _INT)),
    ("fgd_open", _AT, (_AT, _AT, _AT, _AT)),
    ("fgd_close", None, (_AT,)),
    ("fgd_rate", None, (_AT, _AT, _AT, _INT, _AT)),
    ("fgd_choose", _INT, (_AT, _AT, _INT, _AT)),
    ("fgd_fragment", _INT, (_AT, _INT)),
    ("stream_open", _AT, (_AT, _AT, _AT, _AT)),
    ("stream_close", None, (_AT,)),
    ("stream_rate", None, (_AT, _AT, _INT, _AT, _AT, _INT, _AT)),
    ("stream_mend", None, (_AT, _AT, _INT, _AT, _AT, _AT, _INT)),
    ("scores_best", _INT, (_AT,)),
    ("stream_choose", _INT, (_AT, _AT, _AT, _INT, _AT)),
    ("stream_value", _INT, (_AT, _INT)),
    ("stream_computed", _INT, (_AT,)),
)


class Kernel:
    """The loaded library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, result, arguments in _FUNCTIONS:
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        self.calls = library

    def takes(self, cards: Cards) -> bool:
        """Whether there are cards, and no node has more of them than it can rate."""
        return len(cards) > 0 and int(np.bincount(cards.node).max()) <= MAX_CARDS


def load(path: Path | None) -> Kernel | None:
    """The library at that path; None when none is there, or one that does not belong to this version."""
    if path is None or not path.is_file():
        return None
    try:
        library = ctypes.CDLL(str(path))
        return Kernel(library) if library.kernel_abi() == ABI else None
    except (OSError, AttributeError):  # made for another kind of processor, or of another version
        return None


_adopted: list[tuple[Path, Kernel]] = []


def adopt(path: Path | None) -> bool:
    """From now on what is free in this process is looked at by the library at that path; whether there is a fit one."""
    kernel = load(path)
    _adopted.clear()
    if path is not None and kernel is not None:
        _adopted.append((path, kernel))
    return kernel is not None


def adopted() -> Path | None:
    """The path of the library in use: what a process that is started for a part of the work adopts too."""
    return _adopted[0][0] if _adopted else None


def kernel_for(cards: Cards, compiled: bool | None = None) -> Kernel | None:
    """The library, where these cards are looked at by it: `compiled` True asks for it, False for NumPy, None for what
    there is.

    Raises LookupError when it is asked for and there is none, or a node has too many cards.
    """
    kernel = _adopted[0][1] if _adopted and compiled is not False else None
    if kernel is not None and kernel.takes(cards):
        return kernel
    if compiled:
        raise LookupError("no compiled kernel: " + ("these cards are not for it" if kernel else "none was adopted"))
    return None
