"""Hard resource limits that this process cannot raise, and so cannot give to what it starts (setrlimit(2)).

Root needs CAP_SYS_RESOURCE of the first user namespace for that, which a container withholds; what the kernel lets this
process do is found by trying, because the capability of an inner namespace reads the same.
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
    """By name each hard limit that cannot be raised. Raises each one by 1 and puts it back, so call it at start."""
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
