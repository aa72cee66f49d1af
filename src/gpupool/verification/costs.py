"""Measure what a context and an allocation take of a card, without a fence and as one charges."""

from __future__ import annotations

from typing import Any, Final

from gpupool.base.units import MIB
from gpupool.verification.bench import VerificationBench
from gpupool.verification.verification_job import VerificationJob

#: Figures of a measurement that are stored; the driver's version says when they are out of date.
KEPT: Final = ("context_bytes", "granule_bytes", "driver_version")
#: Thousandths of the card: a share with room for a context on any card.
_HALF: Final = 500


def measure_costs(bench: VerificationBench) -> dict[str, int]:
    """Measure costs on a whole card: bytes, and the driver's version. Blocks for one job.

    Raises:
        RequestRejection: if no whole card is free.
        ServiceUnavailable: if the job does not answer.
    """
    said = _read_costs(bench.submit_burn("costs", ("--costs",), gpu_milli=1000, memory_bytes=None))
    return {name: int(said[name]) for name in KEPT}


def measure_charges(bench: VerificationBench, card_memory_bytes: int) -> dict[str, int] | None:
    """Measure what a bare context and an allocation take of a share; None without a fence."""
    task = bench.submit_burn(
        "charged", ("--costs",), gpu_milli=_HALF, memory_bytes=card_memory_bytes // 2 // MIB * MIB
    )
    said = _read_costs(task)
    if task.fetch_job()["fence"] == "none":
        return None
    return {
        "context_bytes": int(said["visible_bytes"]),
        "granule_bytes": int(said["granule_bytes"]),
    }


def _read_costs(task: VerificationJob) -> dict[str, Any]:
    said: dict[str, Any] = task.await_line(
        lambda record: record.find_first("costs"), "its measurements"
    )
    task.await_end()
    return said
