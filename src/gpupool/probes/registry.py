"""Lists the probes for real cards in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from gpupool.probes.amd import AmdProbe
from gpupool.probes.contract import Probe, ProbeAvailability
from gpupool.probes.intel import IntelProbe
from gpupool.probes.intel.probe import INTEGRATED
from gpupool.probes.nvml import NvmlProbe
from gpupool.probes.pci import scan_pci
from gpupool.probes.vendors import FORMATS, CommandProbe

#: By name, which is the maker's but for the first.
PROBES: Mapping[str, Callable[[], Probe]] = MappingProxyType(
    {
        "nvml": NvmlProbe,
        "amd": AmdProbe,
        "intel": IntelProbe,
        **{vendor: partial(CommandProbe, form) for vendor, form in FORMATS.items()},
    }
)


def list_probes(sys_root: Path = Path("/sys")) -> Mapping[str, Callable[[], Probe]]:
    """Return NVIDIA's probe, and those of each maker with a card on this host's bus."""
    # Where there is no card of a maker, nothing is gained by looking for its tool. Nearly every
    # processor of Intel has graphics, which are no card.
    present = {card.vendor for card in scan_pci(sys_root) if card.address != INTEGRATED}
    return {name: make for name, make in PROBES.items() if name == "nvml" or name in present}


def find_first_available() -> tuple[Probe | None, Mapping[str, ProbeAvailability]]:
    """Return the first probe that finds cards here, and the answer of each probe tried.

    The caller closes the returned probe; the others are closed.
    """
    answers: dict[str, ProbeAvailability] = {}
    for name, make in list_probes().items():
        probe = make()
        answers[name] = probe.available()
        if answers[name].ok:
            return probe, answers
        probe.close()
    return None, answers
