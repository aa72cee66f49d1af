"""Probes Intel's discrete cards of this host.

The base is sysfs: cards, their NUMA node, power, temperature and processes. xpu-smi adds what no
file shows: names, utilization, used memory and error counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.model.catalogue import canonical_model
from gpupool.model.device import RUNTIME_ID, Device, DeviceProcess, DeviceUsage
from gpupool.probes.common.card_probe import (
    CardProbe,
    CardReading,
    HostReading,
    MachineIdentity,
)
from gpupool.probes.common.drm_clients import DrmClients
from gpupool.probes.common.hwmon import HardwareMonitor
from gpupool.probes.common.pci_paths import list_drm_nodes
from gpupool.probes.common.sysfs import read_text
from gpupool.probes.common.vendor_tool import ToolPlace, VendorTool
from gpupool.probes.intel.memory import read_card_memory
from gpupool.probes.intel.xpu_smi import (
    XpuCard,
    XpuStatistics,
    parse_detail,
    parse_discovery,
    parse_statistics,
)
from gpupool.probes.pci import PciCard, scan_pci
from gpupool.probes.processes import ProcessTable

XPU_SMI: Final = ToolPlace(("xpu-smi",), package="Intel XPU Manager (xpu-smi)")
#: Where every processor's own graphics are.
INTEGRATED: Final = "0000:00:02.0"
#: The graphics of a processor has no memory of its own.
LEAST_MEMORY: Final = 1 << 30


@dataclass(frozen=True)
class _Sources:
    """What was read once for all cards."""

    known: Mapping[str, XpuCard]
    clients: Mapping[str, Mapping[int, int]]
    numbers: Mapping[str, int]


class IntelProbe(CardProbe):
    """Cards with drivers xe and i915.

    Args:
        root: file system with `sys`, `proc` and `etc/machine-id`.
        search_path: where xpu-smi is looked for; None is the PATH.
    """

    name = "intel"
    vendor = "intel"

    def __init__(self, root: Path = Path("/"), search_path: str | None = None) -> None:
        super().__init__(root / "sys")
        self._proc = root / "proc"
        self._processes = ProcessTable(self._proc)
        self._tool = VendorTool(XPU_SMI, root, search_path)
        self._sensors = HardwareMonitor()
        self._identity = MachineIdentity(root)

    def read_host(self) -> HostReading:
        bound = [c for c in scan_pci(self._sys) if c.vendor == "intel" and not c.problem]
        found = [card for card in bound if self._is_discrete(card)]
        if not found:
            return HostReading(problem="the drivers xe and i915 have no discrete card")
        discovery = self._tool.run(("discovery", "-j"))
        known = {card.address: card for card in parse_discovery(discovery.text)}
        # Level Zero counts integrated graphics and virtual functions too.
        numbers = {card.address: number for number, card in enumerate(bound)}
        sources = _Sources(known, DrmClients(self._proc).sum_memory(), numbers)
        cards: list[CardReading] = []
        for card in found:
            reading = self._read_card(len(cards), card, sources)
            if reading is not None:
                cards.append(reading)
        if cards:
            return HostReading(tuple(cards), driver_version=cards[0].device.driver_version)
        why = discovery.problem or "xpu-smi does not tell it"
        return HostReading(
            problem=f"the memory of {len(found)} cards is unknown: {why}, or use Linux 6.14 or newer"
        )

    @staticmethod
    def _is_discrete(card: PciCard) -> bool:
        return not card.virtual_function and card.address != INTEGRATED

    def _read_card(self, index: int, card: PciCard, sources: _Sources) -> CardReading | None:
        """Return a card; None where its memory is unknown, for then nothing can be granted of it."""
        listed = sources.known.get(card.address)
        memory = read_card_memory(card.address, self._sys)
        if listed is not None:
            answer = self._tool.run(("discovery", "-d", card.address, "-j"))
            listed = parse_detail(answer.text) or listed
            memory = memory or listed.memory_bytes
        if not memory or memory < LEAST_MEMORY:
            return None
        statistics = self._read_statistics(card.address, listed)
        health, reason = statistics.judge_health()
        product = listed.product if listed else ""
        model = canonical_model(product, card.pci_id)
        uuid = listed.uuid if listed else ""
        device = Device(
            uuid=uuid or self._identity.make_uuid("intel", card.address),
            index=index,
            vendor="intel",
            product=product or f"Intel {card.pci_id}",
            model=card.pci_id if model == "UNKNOWN" else model,
            memory_bytes=memory,
            pci_address=card.address,
            numa_node=card.numa_node,
            device_paths=list_drm_nodes(card.address, self._sys),
            health=health,
            health_reason=reason,
            # By the order on the bus, as ZE_ENABLE_PCI_ID_DEVICE_ORDER demands.
            labels={RUNTIME_ID: str(sources.numbers[card.address])},
            driver_version=self._read_driver(card, listed),
        )
        clients = sources.clients.get(card.address, {})
        return CardReading(device, self._read_usage(card, statistics, clients))

    def _read_statistics(self, address: str, listed: XpuCard | None) -> XpuStatistics:
        if listed is None:
            return XpuStatistics()
        return parse_statistics(self._tool.run(("stats", "-d", address, "-r", "-j")).text)

    def _read_driver(self, card: PciCard, listed: XpuCard | None) -> str | None:
        if listed is not None and listed.driver_version:
            return listed.driver_version
        return read_text(self._sys / f"module/{card.driver}/version")

    def _read_usage(
        self, card: PciCard, statistics: XpuStatistics, clients: Mapping[int, int]
    ) -> DeviceUsage:
        folder = self._sys / "bus/pci/devices" / card.address
        power = statistics.power_watts
        temperature = statistics.temperature_celsius
        processes: list[DeviceProcess] = []
        for pid in sorted(clients):
            processes.append(self._processes.describe_process(pid, clients[pid]))
        return DeviceUsage(
            utilization_percent=statistics.utilization_percent,
            memory_used_bytes=statistics.memory_used_bytes,
            power_watts=self._sensors.read_power(folder) if power is None else power,
            temperature_celsius=(
                self._sensors.read_temperature(folder) if temperature is None else temperature
            ),
            processes=tuple(processes),
        )
