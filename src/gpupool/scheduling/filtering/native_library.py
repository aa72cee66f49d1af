"""The native scheduler library of this process: its path, its version, the cards it serves.

An entry point loads it with `adopt_native_library`. Without it the policies run in NumPy and decide
the same, but slower. The choice changes no decision, so decisions do not take it as an argument.
Only this module and `native_abi` know the functions of native/scheduler/scheduler.h. See
docs/decisions/0006-compiled-kernel.md.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpupool.scheduling.snapshot.cards import CardTable

#: The layout of structures and functions in native/kernel/kernel.h. A library of another number is
#: not used: it would read other fields.
ABI = 8
#: On one node; a pool with a wider node is rated in NumPy.
MAX_CARDS = 64
_INT = ctypes.c_int64
_AT = ctypes.c_void_p

#: Name, result and arguments of each function in kernel.h. Without types ctypes would pass 64-bit
#: addresses as 32-bit integers.
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


class NativeLibrary:
    """The loaded library with the types of its functions."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, result, arguments in _FUNCTIONS:
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
        self.calls = library

    def can_serve(self, cards: CardTable) -> bool:
        """Return whether there are cards and no node has more than the library supports."""
        return len(cards) > 0 and int(np.bincount(cards.node).max()) <= MAX_CARDS


def load_native_library(path: Path | None) -> NativeLibrary | None:
    """Load the library from a path.

    Returns:
        The library; None if the file is missing, cannot be loaded or has another version.
    """
    if path is None or not path.is_file():
        return None
    try:
        library = ctypes.CDLL(str(path))
        return NativeLibrary(library) if library.kernel_abi() == ABI else None
    except (OSError, AttributeError):
        # Built for another processor, or so old that a function is missing. NumPy decides the same.
        return None


#: The library of this process, at most one. Module state and no argument, because the choice :
#: changes times and never a decision (decision 0006).
_adopted: list[tuple[Path, NativeLibrary]] = []


def adopt_native_library(path: Path | None) -> bool:
    """Use the library at that path in this process from now on.

    Returns:
        True if the library was loaded. If not, NumPy is used.
    """
    kernel = load_native_library(path)
    _adopted.clear()
    if path is not None and kernel is not None:
        _adopted.append((path, kernel))
    return kernel is not None


def get_native_library_path() -> Path | None:
    """Return the path of the library in use, so that a subprocess can adopt the same one."""
    return _adopted[0][0] if _adopted else None


def find_native_library(cards: CardTable, compiled: bool | None = None) -> NativeLibrary | None:
    """Return the library if it is to be used for these cards.

    Args:
        cards: The cards of the pool.
        compiled: True requires the library, False uses NumPy, None uses the library if present.

    Raises:
        LookupError: The library is required, but is missing or does not serve these cards.
    """
    kernel = _adopted[0][1] if _adopted and compiled is not False else None
    if kernel is not None and kernel.can_serve(cards):
        return kernel
    if compiled:
        raise LookupError(
            "no compiled kernel: "
            + ("these cards are not for it" if kernel else "none was adopted")
        )
    return None
