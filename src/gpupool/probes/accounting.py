"""Reads what NVML's accounting mode reports of ended processes. Changes no setting of a card.

NVML keeps, for each process, the time of its context in milliseconds and the percent of it in which
a kernel ran, in a ring that new processes overwrite. Its documentation calls the percent exact
beside other processes from the generation after Kepler on; that was not measured here, so what it
says is an account to warn by. Documentation: nvmlAccountingStats_t of the NVML API reference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, Final

from gpupool.probes.contract import EndedProcess, EndedTimeProbe, EndedTimes, Probe

#: Percentage points by which a rounded percent may be too high; taken off in favour of the job.
ROUNDING_PERCENT: Final = 1
#: NVML_VALUE_NOT_AVAILABLE in a field of 32 bits.
NOT_AVAILABLE: Final = 0xFFFFFFFF
ACCOUNTING_IS_OFF: Final = "accounting mode is off"

#: Asks the driver: the answer and None, or None and its error number.
Try = Callable[..., tuple[Any, int | None]]


def read_ended_times(nvml: Any, ask: Try, handle: Any, pids: Collection[int]) -> EndedTimes:
    """Return the ended processes of one card with these pids."""
    mode, error = ask(nvml.nvmlDeviceGetAccountingMode, handle)
    if error is not None:
        return EndedTimes(reason="its driver has no accounting mode for this card")
    if mode != nvml.NVML_FEATURE_ENABLED:
        return EndedTimes(reason=ACCOUNTING_IS_OFF)
    boot_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    processes = []
    # One call for each pid rather than for all of the ring, whose length an operator sets.
    for pid in sorted(pids):
        stats, _ = ask(nvml.nvmlDeviceGetAccountingStats, handle, pid)
        process = None if stats is None else _parse_ended(pid, stats, boot_ns)
        if process is not None:
            processes.append(process)
    return EndedTimes(tuple(processes))


def explain_accounting_off(probe: Probe, uuids: Collection[str]) -> str:
    """Return what an operator gains by turning accounting mode on, and how; "" if it is on."""
    told = probe.ended_times(uuids, ()) if isinstance(probe, EndedTimeProbe) else {}
    off = [uuid for uuid, times in told.items() if times.reason == ACCOUNTING_IS_OFF]
    if not off:
        return ""
    return (
        f"off on {len(off)} of {len(uuids)} cards: "
        "GPU time of processes shorter than 0.4 s is not audited; "
        "`nvidia-smi -am 1` turns it on (gpupool changes no card's setting)"
    )


def _parse_ended(pid: int, stats: Any, boot_ns: int) -> EndedProcess | None:
    """Return an ended process; None for one that runs, and where its use was not measured."""
    if stats.isRunning or stats.gpuUtilization == NOT_AVAILABLE:
        return None
    percent = min(max(0, int(stats.gpuUtilization) - ROUNDING_PERCENT), 100)
    gpu_ns = int(stats.time) * 1_000_000 * percent // 100
    return EndedProcess(pid, int(stats.startTime) * 1000 - boot_ns, gpu_ns)
