"""What a context and an allocation take of a card: measured in the card without a fence, and as the fence charges."""

from __future__ import annotations

from typing import Any, Final

from gpupool.base.units import MIB
from gpupool.verification.bench import Bench, Task

KEPT: Final = ("context_bytes", "granule_bytes", "driver_version")
_HALF: Final = 500


def figures(bench: Bench) -> dict[str, int]:
    """Of the bench's card, in a whole card of it: bytes, and the driver. Raises Refused, Unavailable."""
    said = _said(bench.submit("costs", ("--costs",), gpu_milli=1000, memory_bytes=None))
    return {name: int(said[name]) for name in KEPT}


def in_use(bench: Bench, card_memory_bytes: int) -> dict[str, int] | None:
    """What a bare context and an allocation take of a share; None where shares have no fence."""
    task = bench.submit("charged", ("--costs",), gpu_milli=_HALF, memory_bytes=card_memory_bytes // 2 // MIB * MIB)
    said = _said(task)
    if task.latest()["fence"] == "none":
        return None
    return {"context_bytes": int(said["visible_bytes"]), "granule_bytes": int(said["granule_bytes"])}


def _said(task: Task) -> dict[str, Any]:
    said: dict[str, Any] = task.until(lambda record: record.first("costs"), "its measurements")
    task.end()
    return said
