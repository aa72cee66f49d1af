"""Probes AMD cards of this host.

A card that is cut into compute partitions stays one card: its partitions have one memory unless the
memory is cut too, and the kernel lets nothing but the permission of device files keep them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Final

from gpupool.model.catalogue import CATALOGUE, canonical_model
from gpupool.model.device import RUNTIME_ID, Device, DeviceProcess, DeviceUsage
from gpupool.model.topology import DeviceLink
from gpupool.probes.amd.card_files import AmdCard
from gpupool.probes.amd.kfd import KFD, KfdNode, read_nodes, read_processes
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
from gpupool.probes.pci import scan_pci
from gpupool.probes.processes import ProcessTable

#: Less memory is what the firmware lends to graphics within a processor.
LEAST_MEMORY: Final = 2 << 30
#: Every process that computes opens it; it serves all cards.
KFD_NODE: Final = "/dev/kfd"

#: Bytes by pid.
Uses = Mapping[int, int]


class AmdProbe(CardProbe):
    """Cards that ROCm can compute on.

    Args:
        root: file system with `sys`, `proc` and `etc/machine-id`.
    """

    name = "amd"
    vendor = "amd"

    def __init__(self, root: Path = Path("/"), processes: ProcessTable | None = None) -> None:
        super().__init__(root / "sys")
        self._proc = root / "proc"
        self._processes = processes or ProcessTable(self._proc)
        self._sensors = HardwareMonitor()
        self._identity = MachineIdentity(root)

    def read_host(self) -> HostReading:
        groups: dict[str, list[KfdNode]] = {}
        numbers: dict[int, int] = {}
        for node in read_nodes(self._sys):
            groups.setdefault(self._find_address(node), []).append(node)
            numbers[node.number] = len(numbers)
        compute = read_processes(self._sys)
        graphics = DrmClients(self._proc).sum_memory()
        cards: list[CardReading] = []
        uuids: dict[int, str] = {}
        for address, nodes in groups.items():
            device = self._read_device(len(cards), address, nodes)
            if len(nodes) > 1:
                # All partitions have the card's uuid, so they are told apart by number alone.
                ids = ",".join(str(numbers[node.number]) for node in nodes)
                device = replace(device, labels={**device.labels, RUNTIME_ID: ids})
            if device.memory_bytes >= LEAST_MEMORY:
                uses = _join_uses(nodes, compute, graphics.get(address, {}))
                cards.append(CardReading(device, self._read_usage(address, uses)))
                uuids.update({node.number: device.uuid for node in nodes})
        links = _list_links((node for nodes in groups.values() for node in nodes), uuids)
        problem = "" if cards else self._explain_absence(bool(groups))
        return HostReading(tuple(cards), problem, self._read_driver(), links)

    def _explain_absence(self, has_nodes: bool) -> str:
        if has_nodes:
            return "it found graphics within a processor only"
        bound = [c for c in scan_pci(self._sys) if c.vendor == "amd" and c.driver == "amdgpu"]
        if not bound:
            return "the driver amdgpu has no card"
        if not (self._sys / KFD).is_dir():
            return f"amdgpu has {len(bound)} cards, but this kernel has no KFD (CONFIG_HSA_AMD)"
        return f"amdgpu has {len(bound)} cards, and the KFD can compute on none of them"

    def _find_address(self, node: KfdNode) -> str:
        """Return the PCI address of the function that the node is a part of."""
        exact = node.address
        if (self._sys / "bus/pci/devices" / exact).exists():
            return exact
        return f"{exact[:-1]}0"

    def _read_driver(self) -> str | None:
        # The driver within the kernel has no version of its own.
        return read_text(self._sys / "module/amdgpu/version")

    def _read_device(self, index: int, address: str, nodes: list[KfdNode]) -> Device:
        card = AmdCard(self._sys / "bus/pci/devices" / address)
        first = nodes[0]
        pci_id = f"{first.properties['vendor_id']:04x}:{first.properties.get('device_id', 0):04x}"
        product = card.read_product() or first.product
        model = canonical_model(product, pci_id)
        known = CATALOGUE.get(model)
        number = card.read_uuid() or first.properties.get("unique_id", 0)
        health, reason = card.judge_health()
        labels = card.read_partition_labels()
        renders = [node.properties.get("drm_render_minor", 0) for node in nodes]
        paths = {KFD_NODE, *list_drm_nodes(address, self._sys)}
        paths.update(f"/dev/dri/renderD{minor}" for minor in renders if minor > 0)
        return Device(
            # As ROCr writes it: ROCR_VISIBLE_DEVICES takes it.
            uuid=f"GPU-{number:016x}" if number else self._identity.make_uuid("amd", address),
            index=index,
            vendor="amd",
            product=known.products[0] if known and not card.read_product() else product,
            model=model,
            memory_bytes=card.read_memory() or sum(node.memory_bytes for node in nodes),
            pci_address=address,
            numa_node=card.read_numa_node(),
            device_paths=tuple(sorted(paths)),
            health=health,
            health_reason=reason,
            labels=labels,
            architecture=known.architecture if known else first.target or None,
            multiprocessors=sum(node.compute_units for node in nodes) or None,
            driver_version=self._read_driver(),
        )

    def _read_usage(self, address: str, uses: Uses | None) -> DeviceUsage:
        card = AmdCard(self._sys / "bus/pci/devices" / address)
        processes: tuple[DeviceProcess, ...] | None = None
        if uses is not None:
            processes = tuple(
                self._processes.describe_process(pid, uses[pid]) for pid in sorted(uses)
            )
        return DeviceUsage(
            utilization_percent=card.read_utilization(),
            memory_used_bytes=card.read_used_memory(),
            power_watts=self._sensors.read_power(card.folder),
            temperature_celsius=self._sensors.read_temperature(card.folder),
            processes=processes,
        )


def _join_uses(
    nodes: Iterable[KfdNode], compute: Mapping[int, Uses] | None, graphics: Uses
) -> Uses | None:
    """Return bytes by pid of those that compute and those that draw; None where unknown."""
    if compute is None:
        return None
    joined: dict[int, int] = {}
    for node in nodes:
        for pid, memory_bytes in compute.get(node.gpu_id, {}).items():
            joined[pid] = joined.get(pid, 0) + memory_bytes
    # ROCm's memory may be in a graphics file as well, so the larger number is right.
    for pid, memory_bytes in graphics.items():
        joined[pid] = max(joined.get(pid, 0), memory_bytes)
    return joined


def _list_links(nodes: Iterable[KfdNode], uuids: Mapping[int, str]) -> tuple[DeviceLink, ...]:
    """Return the XGMI links between different cards; between partitions there are none."""
    counts: dict[frozenset[str], int] = {}
    for node in nodes:
        for end, count in node.links.items():
            pair = frozenset((uuids.get(node.number, ""), uuids.get(end, "")))
            counts[pair] = max(counts.get(pair, 0), count)
    links = []
    for a, b in combinations(sorted(set(uuids.values())), 2):
        if count := counts.get(frozenset((a, b)), 0):
            links.append(DeviceLink(a, b, count=count))
    return tuple(links)
