"""What NVML's accounting mode says of processes that have ended. Changes no setting of a card.

NVML keeps, for each process, the time of its context in milliseconds and the percent of it in which a kernel ran, in
a ring that new processes overwrite. Its documentation calls the percent exact beside other processes from the
generation after Kepler on; that was not measured here, so what it says is an account to warn by. Documentation:
nvmlAccountingStats_t of the NVML API reference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, Final

from gpupool.probes.contract import EndedProcess, EndedTimes, Probe, TimesEnded

#: Percent points that a whole number may be too high.
ROUNDING_PERCENT: Final = 1
#: NVML_VALUE_NOT_AVAILABLE in a field of 32 bits.
NOT_AVAILABLE: Final = 0xFFFFFFFF
ACCOUNTING_IS_OFF: Final = "accounting mode is off"

Try = Callable[..., tuple[Any, int | None]]
"""Asks the driver: the answer and None, or None and its error number."""


def ended_times(nvml: Any, ask: Try, handle: Any, pids: Collection[int]) -> EndedTimes:
    """Of one card. Asks once for each pid, so that the ring's length costs nothing."""
    mode, error = ask(nvml.nvmlDeviceGetAccountingMode, handle)
    if error is not None:
        return EndedTimes(reason="its driver has no accounting mode for this card")
    if mode != nvml.NVML_FEATURE_ENABLED:
        return EndedTimes(reason=ACCOUNTING_IS_OFF)
    boot_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    stats = [(pid, ask(nvml.nvmlDeviceGetAccountingStats, handle, pid)[0]) for pid in sorted(pids)]
    told = [_ended(pid, one, boot_ns) for pid, one in stats if one is not None]
    return EndedTimes(tuple(one for one in told if one is not None))


def accounting_off(probe: Probe, uuids: Collection[str]) -> str:
    """What an operator gains by turning accounting mode on where it is off, and how; empty where it is on or absent."""
    told = probe.ended_times(uuids, ()) if isinstance(probe, TimesEnded) else {}
    off = [uuid for uuid, times in told.items() if times.reason == ACCOUNTING_IS_OFF]
    if not off:
        return ""
    said = f"off on {len(off)} of {len(uuids)} cards: GPU time of processes shorter than 0.4 s is not audited"
    return f"{said}; `nvidia-smi -am 1` turns it on (gpupool changes no card's setting)"


def _ended(pid: int, stats: Any, boot_ns: int) -> EndedProcess | None:
    """None for a process that runs, and where the card does not measure its use."""
    if stats.isRunning or stats.gpuUtilization == NOT_AVAILABLE:
        return None
    percent = min(max(0, int(stats.gpuUtilization) - ROUNDING_PERCENT), 100)
    gpu_ns = int(stats.time) * 1_000_000 * percent // 100
    return EndedProcess(pid, int(stats.startTime) * 1000 - boot_ns, gpu_ns)
