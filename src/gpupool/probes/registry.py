"""The probes for real cards, in the order they are asked; simulated machines are asked for by name instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from gpupool.probes.contract import Availability, Probe
from gpupool.probes.nvml import NvmlProbe

PROBES: Mapping[str, Callable[[], Probe]] = MappingProxyType({"nvml": NvmlProbe})


def first_available() -> tuple[Probe | None, Mapping[str, Availability]]:
    """The first probe that finds cards here, and what each probe said; the others are closed again."""
    answers: dict[str, Availability] = {}
    for name, make in PROBES.items():
        probe = make()
        answers[name] = probe.available()
        if answers[name].ok:
            return probe, answers
        probe.close()
    return None, answers
