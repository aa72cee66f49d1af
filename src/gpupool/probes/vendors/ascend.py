"""Reads `npu-smi info` of Huawei's Ascend NPUs. Pure.

The table has two lines for each chip. The layout differs by driver: the second line begins with the
chip's number, or with that and the number of its device file; cards with HBM show its use after
that of the processor's memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpupool.model.device import DeviceHealth, DeviceProcess
from gpupool.probes.common.vendor_tool import ToolPlace
from gpupool.probes.vendors.tool_report import (
    ToolCard,
    ToolFormat,
    ToolQuery,
    ToolReport,
    parse_address,
    parse_mib,
    parse_whole,
    split_cells,
)

#: Words of the column Health.
_HEALTH: Final = {
    "OK": DeviceHealth.OK,
    "WARNING": DeviceHealth.WARNING,
    "ALARM": DeviceHealth.FAILED,
    "CRITICAL": DeviceHealth.FAILED,
}


def parse_info(text: str) -> ToolReport:
    """Return the chips in the order of the table, each with its processes."""
    chips: list[ToolCard] = []
    places: list[tuple[str, str]] = []
    above: list[str] = []
    processes: dict[tuple[str, str], list[DeviceProcess]] = {}
    lists_processes = False
    for line in text.splitlines():
        cells = split_cells(line)
        lists_processes = lists_processes or "Process id" in line
        if len(cells) == 3 and parse_address(cells[1]) and len(above) == 3:
            chips.append(_read_chip(len(chips), above, cells))
            places.append((above[0].split()[0], cells[0].split()[0]))
        elif lists_processes and len(cells) == 4 and cells[1].isdigit():
            npu, chip = [*cells[0].split(), "", ""][:2]
            process = DeviceProcess(int(cells[1]), memory_bytes=parse_mib(cells[3]))
            processes.setdefault((npu, chip), []).append(process)
        above = cells
    cards = []
    for card, place in zip(chips, places, strict=True):
        uses = tuple(processes.get(place, ())) if lists_processes else None
        cards.append(replace(card, processes=uses))
    return ToolReport(tuple(cards), _find_version(text))


def _read_chip(position: int, upper: list[str], lower: list[str]) -> ToolCard:
    name = upper[0].split(maxsplit=1)
    numbers = lower[0].split()
    uses = lower[2].replace("/", " / ").split()
    slash = len(uses) - 1 - uses[::-1].index("/") if "/" in uses else 0
    figures = upper[2].split()
    health = _HEALTH.get(upper[1].upper(), DeviceHealth.UNKNOWN)
    return ToolCard(
        number=int(numbers[1]) if len(numbers) > 1 and numbers[1].isdigit() else position,
        product=f"Ascend {name[-1]}" if len(name) > 1 else "Ascend",
        memory_bytes=parse_mib(uses[slash + 1]) if 0 < slash < len(uses) - 1 else None,
        address=parse_address(lower[1]),
        used_bytes=parse_mib(uses[slash - 1]) if slash else None,
        utilization_percent=parse_whole(uses[0]) if uses else None,
        power_watts=parse_whole(figures[0]) if figures else None,
        temperature_celsius=parse_whole(figures[1]) if len(figures) > 1 else None,
        health=health,
        health_reason="" if health is DeviceHealth.OK else f"npu-smi says {upper[1]}",
    )


def _find_version(text: str) -> str | None:
    for line in text.splitlines():
        if "Version:" in line:
            words = line.partition("Version:")[2].strip(" |").split()
            return words[0] if words else None
    return None


FORMAT = ToolFormat(
    vendor="ascend",
    tool=ToolPlace(
        ("npu-smi",), ("/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi"), "the Ascend driver"
    ),
    queries=(ToolQuery(("info",), parse_info),),
    source="Huawei EDOC1100388860 and EDOC1100115618, as kept in github.com/gpustack/gpustack, "
    "tests/detectors/npu_smi/data",
    card_nodes=("/dev/davinci{number}",),
    shared_nodes=("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
)
