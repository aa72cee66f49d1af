"""Lists the probes for real cards in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from gpupool.probes.contract import Probe, ProbeAvailability
from gpupool.probes.nvml import NvmlProbe

PROBES: Mapping[str, Callable[[], Probe]] = MappingProxyType({"nvml": NvmlProbe})


def find_first_available() -> tuple[Probe | None, Mapping[str, ProbeAvailability]]:
    """Return the first probe that finds cards here, and the answer of each probe tried.

    The caller closes the returned probe; the others are closed.
    """
    answers: dict[str, ProbeAvailability] = {}
    for name, make in PROBES.items():
        probe = make()
        answers[name] = probe.available()
        if answers[name].ok:
            return probe, answers
        probe.close()
    return None, answers
