"""Asks ppu-smi for the fields of T-Head's PPUs, as CSV. Pure."""

from __future__ import annotations

from functools import partial
from typing import Final

from gpupool.probes.common.vendor_tool import ToolPlace
from gpupool.probes.vendors.query_csv import parse_query
from gpupool.probes.vendors.tool_report import ToolFormat, ToolQuery

_BASE: Final = ("index", "name", "uuid", "pci.bus_id", "memory.total")
_USE: Final = ("memory.used", "utilization.ppu", "temperature.ppu", "power.draw")


def make_query(fields: tuple[str, ...]) -> ToolQuery:
    """Return the query for these fields."""
    arguments = (f"--query-ppu={','.join(fields)}", "--format=csv,noheader,nounits")
    return ToolQuery(arguments, partial(parse_query, fields=fields))


FORMAT = ToolFormat(
    vendor="thead",
    tool=ToolPlace(("ppu-smi",), ("/usr/local/bin/ppu-smi",), "T-Head's PPU SDK"),
    queries=(make_query((*_BASE, *_USE)), make_query(_BASE)),
    source="github.com/yunionio/cloudpods, pkg/hostman/isolated_device/container_device/"
    "thead_ppusmi_test.go",
    # By its number, not by the minor number of the file: that is one more.
    card_nodes=("/dev/alixpu_ppu{number}",),
    shared_nodes=("/dev/alixpu", "/dev/alixpu_ctl"),
)
