"""Probes the cards of one maker by asking its management tool."""

from __future__ import annotations

from pathlib import Path

from gpupool.model.catalogue import canonical_model
from gpupool.model.device import RUNTIME_ID, Device, DeviceProcess, DeviceUsage
from gpupool.probes.common.card_probe import (
    CardProbe,
    CardReading,
    HostReading,
    MachineIdentity,
)
from gpupool.probes.common.pci_paths import list_drm_nodes
from gpupool.probes.common.sysfs import read_number
from gpupool.probes.common.vendor_tool import VendorTool
from gpupool.probes.processes import ProcessTable
from gpupool.probes.vendors.tool_report import ToolCard, ToolFormat, ToolReport


class CommandProbe(CardProbe):
    """Cards as a tool lists them; it is run anew for each question.

    Args:
        root: file system with `sys`, `proc`, `dev` and the maker's paths.
        search_path: where the tool is looked for first; None is the PATH.
    """

    def __init__(
        self, form: ToolFormat, root: Path = Path("/"), search_path: str | None = None
    ) -> None:
        super().__init__(root / "sys")
        self.name = form.vendor
        self.vendor = form.vendor
        self._form = form
        self._root = root
        self._tool = VendorTool(form.tool, root, search_path)
        self._processes = ProcessTable(root / "proc")
        self._identity = MachineIdentity(root)

    def read_host(self) -> HostReading:
        report, problem = self._ask()
        cards: list[CardReading] = []
        for card in report.cards:
            # Nothing can be granted of a card whose memory is unknown.
            if card.memory_bytes:
                device = self._make_device(len(cards), card, report.driver_version)
                cards.append(CardReading(device, self._make_usage(card)))
        if not cards and not problem:
            problem = f"{self._form.tool.names[0]} lists no card with memory"
        return HostReading(tuple(cards), "" if cards else problem, report.driver_version)

    def _ask(self) -> tuple[ToolReport, str]:
        """Return the first answer with cards, and why there is none."""
        problem = ""
        for query in self._form.queries:
            answer = self._tool.run(query.arguments)
            report = query.parse(answer.text)
            if report.cards:
                return report, ""
            problem = answer.problem
        return ToolReport(), problem

    def _make_device(self, index: int, card: ToolCard, driver_version: str | None) -> Device:
        place = card.address or str(card.number)
        return Device(
            uuid=card.uuid or self._identity.make_uuid(self.vendor, place),
            index=index,
            vendor=self.vendor,
            product=card.product,
            model=canonical_model(card.product),
            memory_bytes=card.memory_bytes or 0,
            pci_address=card.address,
            numa_node=self._read_numa_node(card.address),
            device_paths=self._list_nodes(card),
            health=card.health,
            health_reason=card.health_reason,
            labels={RUNTIME_ID: str(card.number)},
            driver_version=driver_version,
        )

    def _make_usage(self, card: ToolCard) -> DeviceUsage:
        processes: list[DeviceProcess] = []
        for process in card.processes or ():
            described = self._processes.describe_process(process.pid, process.memory_bytes)
            processes.append(described)
        return DeviceUsage(
            utilization_percent=card.utilization_percent,
            memory_used_bytes=card.used_bytes,
            power_watts=card.power_watts,
            temperature_celsius=card.temperature_celsius,
            processes=None if card.processes is None else tuple(processes),
        )

    def _read_numa_node(self, address: str | None) -> int | None:
        if address is None:
            return None
        node = read_number(self._sys / "bus/pci/devices" / address / "numa_node")
        return node if node is not None and node >= 0 else None

    def _list_nodes(self, card: ToolCard) -> tuple[str, ...]:
        """Return the device files of a card that this host has."""
        paths = [path.format(number=card.number) for path in self._form.card_nodes]
        present = []
        for path in (*paths, *self._form.shared_nodes):
            if (self._root / path.lstrip("/")).exists():
                present.append(path)
        graphics = list_drm_nodes(card.address, self._sys) if self._form.has_drm else ()
        return tuple(sorted({*present, *graphics}))
