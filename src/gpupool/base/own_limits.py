"""Finds the hard resource limits that this process cannot raise, nor give to its children.

Raising one needs CAP_SYS_RESOURCE of the first user namespace (setrlimit(2)), which a container
withholds even from root. The capability of an inner namespace reads the same, so the limit is found
by trying.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: Numbers of Linux by the names of a job's limits; 10 is RLIMIT_LOCKS, which Python does not name.
_NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "as": resource.RLIMIT_AS,
        "core": resource.RLIMIT_CORE,
        "cpu": resource.RLIMIT_CPU,
        "data": resource.RLIMIT_DATA,
        "fsize": resource.RLIMIT_FSIZE,
        "locks": 10,
        "memlock": resource.RLIMIT_MEMLOCK,
        "msgqueue": resource.RLIMIT_MSGQUEUE,
        "nice": resource.RLIMIT_NICE,
        "nofile": resource.RLIMIT_NOFILE,
        "nproc": resource.RLIMIT_NPROC,
        "rss": resource.RLIMIT_RSS,
        "rtprio": resource.RLIMIT_RTPRIO,
        "rttime": resource.RLIMIT_RTTIME,
        "sigpending": resource.RLIMIT_SIGPENDING,
        "stack": resource.RLIMIT_STACK,
    }
)


def fixed_hard_limits() -> dict[str, int]:
    """Find each hard limit that cannot be raised, by name.

    It raises each limit by 1 and puts it back, so call it before threads start.
    """
    found: dict[str, int] = {}
    for name, number in _NUMBERS.items():
        soft, hard = resource.getrlimit(number)
        if hard != resource.RLIM_INFINITY and not _may_raise(number, soft, hard):
            found[name] = hard
    return found


def _may_raise(number: int, soft: int, hard: int) -> bool:
    try:
        resource.setrlimit(number, (soft, hard + 1))
    except (ValueError, OSError):  # Python's word for EPERM is a ValueError
        return False
    resource.setrlimit(number, (soft, hard))
    return True
