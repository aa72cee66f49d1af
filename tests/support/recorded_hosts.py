"""Builds the files of hosts with cards of AMD, Intel and ten more makers, from recorded facts.

KFD trees: github.com/ROCm/k8s-device-plugin, testdata/topo-mi210-xgmi-pcie and topo-mi300-cpx
(properties as recorded, links that matter). What the driver shows of a card: names and units of
https://docs.kernel.org/gpu/amdgpu, sizes of the catalogue. Tools print what
`tests/support/tool_outputs.py` has.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from gpupool.probes.amd import AmdProbe
from gpupool.probes.contract import Probe
from gpupool.probes.intel import IntelProbe
from gpupool.probes.vendors import FORMATS, CommandProbe
from tests.support import tool_outputs

MI210_PROPERTIES = (
    "cpu_cores_count 0\nsimd_count 416\nmem_banks_count 1\nsimd_per_cu 4\n"
    "gfx_target_version 90010\nvendor_id 4098\ndevice_id 29711\nlocation_id {location}\n"
    "domain 0\ndrm_render_minor {minor}\nhive_id 12609507387757274807\nlocal_mem_size 0\n"
    "unique_id {unique}\nnum_xcc 1\n"
)
#: Location, render minor and unique id of nodes 2 to 5.
MI210_NODES = (
    (25344, 128, 1801979520617338022),
    (17152, 129, 5847760019078012339),
    (768, 130, 10645161697164847644),
    (9728, 131, 4847253685048710349),
)
MI300_PROPERTIES = (
    "cpu_cores_count 0\nsimd_count 152\nmem_banks_count 1\nsimd_per_cu 4\n"
    "gfx_target_version 90402\nvendor_id 4098\ndevice_id 29857\nlocation_id {location}\n"
    "domain 0\ndrm_render_minor {minor}\nhive_id 15188982192727901047\nlocal_mem_size 0\n"
    "unique_id {unique}\nnum_xcc 1\n"
)
#: First location, first node, first render minor and unique id of two cards of eight partitions.
MI300_CARDS = ((1280, 2, 128, 16404946649897475633), (9984, 10, 136, 2472748907779728154))
CPU_PROPERTIES = "cpu_cores_count 64\nsimd_count 0\nvendor_id 0\nlocation_id 0\n"


def write(path: Path, text: object) -> None:
    """Write a file of a tree, with its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")


def add_card(root: Path, address: str, driver: str, **attributes: object) -> Path:
    """Add a card to the PCI bus of a host and return its directory.

    The attribute `bridge` is the path of the bridges between the root of the bus and the card.
    """
    home = root / "sys/devices/pci0000:00" / str(attributes.pop("bridge", "")) / address
    home.mkdir(parents=True)
    entry = root / "sys/bus/pci/devices" / address
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.symlink_to(home)
    (root / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
    (home / "driver").symlink_to(root / "sys/bus/pci/drivers" / driver)
    for name, value in attributes.items():
        write(home / name, value)
    return home


def add_kfd_node(root: Path, number: int, properties: str, links: tuple[int, ...] = ()) -> None:
    """Add an agent with XGMI links to the nodes named."""
    node = root / "sys/class/kfd/kfd/topology/nodes" / str(number)
    write(node / "properties", properties.rstrip())
    write(node / "gpu_id", 1000 * number)
    write(node / "name", "ip discovery")
    write(node / "io_links/0/properties", "type 2\nnode_to 0\nweight 20")
    for position, end in enumerate(links, start=1):
        write(node / f"io_links/{position}/properties", f"type 11\nnode_to {end}\nweight 15")


def add_amd_card(root: Path, address: str, memory_bytes: int, minor: int, **more: object) -> Path:
    """Add a card with the attributes that amdgpu shows of every card."""
    home = add_card(
        root,
        address,
        "amdgpu",
        vendor="0x1002",
        mem_info_vram_total=memory_bytes,
        mem_info_vram_used=297 << 20,
        gpu_busy_percent=7,
        numa_node=0,
        **{"class": "0x120000", **more},
    )
    (home / f"drm/card{minor - 127}").mkdir(parents=True)
    (home / f"drm/renderD{minor}").mkdir()
    write(home / "hwmon/hwmon3/power1_average", 132_000_000)
    write(home / "hwmon/hwmon3/temp1_input", 39_000)
    write(home / "hwmon/hwmon3/temp1_label", "junction")
    write(home / "ras/umc_err_count", "ue: 0\nce: 1")
    return home


def record_mi210(root: Path) -> Probe:
    """Build four MI210, joined by XGMI; a process computes on the first."""
    for number in (0, 1):
        add_kfd_node(root, number, CPU_PROPERTIES)
    numbers = range(2, 6)
    for number, (location, minor, unique) in zip(numbers, MI210_NODES, strict=True):
        properties = MI210_PROPERTIES.format(location=location, minor=minor, unique=unique)
        ends = tuple(end for end in numbers if end != number)
        add_kfd_node(root, number, properties, ends)
        add_amd_card(root, f"0000:{location >> 8:02x}:00.0", 65520 << 20, minor, device="0x740f")
    process = root / "sys/class/kfd/kfd/proc/4711"
    for number in numbers:
        write(process / f"vram_{1000 * number}", (5 << 30) if number == 2 else 0)
    write(process / "queues/0/gpuid", 2000)
    (root / "proc").mkdir(exist_ok=True)
    return AmdProbe(root)


def record_mi300_cpx(root: Path) -> Probe:
    """Build two MI300X in mode CPX: eight agents each, with one memory."""
    add_kfd_node(root, 0, CPU_PROPERTIES)
    for location, first, minor, unique in MI300_CARDS:
        for part in range(8):
            properties = MI300_PROPERTIES.format(
                location=location + part, minor=minor + part, unique=unique
            )
            add_kfd_node(root, first + part, properties)
        add_amd_card(
            root,
            f"0000:{location >> 8:02x}:00.0",
            196592 << 20,
            minor,
            device="0x74a1",
            product_name="AMD Instinct MI300X OAM",
            unique_id=f"{unique:016x}",
            current_compute_partition="CPX",
            available_compute_partition="SPX, DPX, QPX, CPX",
            current_memory_partition="NPS1",
        )
    (root / "sys/class/kfd/kfd/proc").mkdir()
    (root / "proc").mkdir(exist_ok=True)
    return AmdProbe(root)


def add_intel_card(root: Path, address: str, minor: int, **more: object) -> Path:
    """Add a card of driver xe with the attributes that every card has."""
    home = add_card(
        root,
        address,
        "xe",
        vendor="0x8086",
        numa_node=-1,
        **{"class": "0x038000", "device": "0x020a", **more},
    )
    (home / f"drm/renderD{minor}").mkdir(parents=True)
    write(home / "hwmon/hwmon2/energy1_input", 5_000_000)
    return home


def record_intel(root: Path) -> Probe:
    """Build the card of Intel's guide beside integrated graphics, with xpu-smi."""
    add_intel_card(root, "0000:00:02.0", 128, **{"class": "0x030000"})
    add_intel_card(root, "0000:4d:00.0", 129)
    (root / "proc").mkdir(exist_ok=True)
    answers = {
        "discovery -j": tool_outputs.XPU_SMI_DISCOVERY,
        "discovery -d 0000:4d:00.0 -j": tool_outputs.XPU_SMI_DETAIL,
        "stats -d 0000:4d:00.0 -r -j": tool_outputs.XPU_SMI_STATS,
    }
    add_tool(root, "xpu-smi", answers)
    return IntelProbe(root, str(root / "bin"))


def add_tool(root: Path, name: str, answers: Mapping[str, str]) -> Path:
    """Add a program that prints an answer by its arguments and fails for all others.

    The arguments `*` stand for any.
    """
    path = root / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["#!/bin/sh", 'case "$*" in']
    for arguments, text in answers.items():
        pattern = "*" if arguments == "*" else shlex.quote(arguments)
        lines.append(f"{pattern}) printf %s {shlex.quote(text)} ;;")
    lines += ['*) echo "unknown option: $*" >&2; exit 2 ;;', "esac", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    path.chmod(0o755)
    return path


def _join_query(vendor: str, number: int) -> str:
    return " ".join(FORMATS[vendor].queries[number].arguments)


#: By maker: name of the tool and its answers by arguments.
TOOLS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ascend": ("npu-smi", {"info": tool_outputs.NPU_SMI}),
    "biren": ("brsmi", {"": tool_outputs.BRSMI}),
    "cambricon": ("cnmon", {"": tool_outputs.CNMON}),
    "enflame": ("efsmi", {"-q": tool_outputs.EFSMI}),
    "hygon": ("hy-smi", {"*": tool_outputs.HY_SMI}),
    "iluvatar": ("ixsmi", {_join_query("iluvatar", 2): tool_outputs.IXSMI}),
    "kunlunxin": ("xpu_smi", {"-m": tool_outputs.XPU_SMI_M}),
    "metax": ("mx-smi", {"": tool_outputs.MX_SMI}),
    "mthreads": ("mthreads-gmi", {"": tool_outputs.MTHREADS_GMI}),
    "thead": ("ppu-smi", {_join_query("thead", 1): tool_outputs.PPU_SMI}),
}


def record_tool_host(vendor: str, root: Path) -> Probe:
    """Build a host with the tool of a maker and the device files of two cards."""
    name, answers = TOOLS[vendor]
    add_tool(root, name, answers)
    form = FORMATS[vendor]
    nodes = [path.format(number=number) for path in form.card_nodes for number in (0, 1)]
    for node in (*nodes, *form.shared_nodes):
        write(root / node.lstrip("/"), "")
    return CommandProbe(form, root, str(root / "bin"))


def _make_recorder(vendor: str) -> Callable[[Path], Probe]:
    return lambda root: record_tool_host(vendor, root)


#: By name: builds a host below a directory, and returns the probe for it.
HOSTS: Mapping[str, Callable[[Path], Probe]] = {
    "mi210": record_mi210,
    "mi300-cpx": record_mi300_cpx,
    "intel": record_intel,
    **{vendor: _make_recorder(vendor) for vendor in TOOLS},
}
