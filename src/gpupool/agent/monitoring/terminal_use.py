"""Measures since when no byte went through the terminal of a job, by the times of its device.

The terminal of `gpupool run` is between the job and its client: no byte of it passes the server. The
kernel notes in the device when the job read and wrote last, as for w(1), so bytes cost nothing more.
The job's user can set these times. A false one makes its own job look busy, or idle.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gpupool.base.units import NANOS_PER_MILLISECOND, NANOS_PER_SECOND

#: Major number of the devices in /dev/pts (UNIX98_PTY_SLAVE_MAJOR of linux/major.h).
_PTS_MAJOR: Final = 136
#: The times stay as they are for up to 8 s, so that they tell of no key (`tty_update_time` of Linux).
_STEP_NS: Final = 8 * NANOS_PER_SECOND


def measure_terminal_rest(device: int, now_ns: int, folder: Path = Path("/dev/pts")) -> int | None:
    """Return the milliseconds since the last byte, at the least; None: no terminal, or not known.

    Args:
        device: Number of the controlling terminal, as in /proc/PID/stat; 0 for none.
        now_ns: The time now in nanoseconds since 1970.
        folder: Where the terminals of the agent's machine are.
    """
    major = device >> 8 & 0xFFF
    minor = device & 0xFF | device >> 12 & 0xFFF00
    if major != _PTS_MAJOR:
        return None
    try:
        found = os.stat(folder / str(minor))
    except OSError:
        return None
    if found.st_rdev != os.makedev(major, minor):
        return None
    rest_ns = now_ns - max(found.st_atime_ns, found.st_mtime_ns) - _STEP_NS
    return max(0, rest_ns) // NANOS_PER_MILLISECOND
