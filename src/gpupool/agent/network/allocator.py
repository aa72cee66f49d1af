"""Finds the memory allocator that a daemon is started with, where the machine has a faster one.

docs/decisions/0085-an-allocator-for-ovn.md has what it saves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

#: jemalloc, of Debian's package `libjemalloc2`. ovn-northd makes and frees all of its flows for each
#: change; more than a quarter of its time is glibc's allocator. It is so with the databases too.
_LIBRARY: Final = "libjemalloc.so.2"
#: Where libraries of the system are (ld.so(8)), by the conventions of Debian and of Fedora. Root alone
#: writes there: what is preloaded runs with the rights of the daemon.
_PLACES: Final = (Path("/usr/lib"), Path("/usr/lib64"))


def choose_allocator(places: Sequence[Path] = _PLACES) -> Mapping[str, str]:
    """Return the environment of a daemon that allocates much; empty where there is no better one."""
    for place in places:
        # Debian has a directory for each kind of processor: x86_64-linux-gnu.
        for found in (place / _LIBRARY, *sorted(place.glob(f"*-linux-gnu/{_LIBRARY}"))):
            if found.is_file():
                return {"LD_PRELOAD": str(found)}
    return {}
