"""Asks ixsmi for the fields of Iluvatar's GPUs, as CSV. Pure."""

from __future__ import annotations

from functools import partial
from typing import Final

from gpupool.probes.common.vendor_tool import ToolPlace
from gpupool.probes.vendors.query_csv import parse_query
from gpupool.probes.vendors.tool_report import ToolFormat, ToolQuery

_BASE: Final = (
    *("index", "name", "uuid", "pci.bus_id"),
    *("memory.total", "memory.used", "utilization.gpu", "temperature.gpu"),
)
#: Name of the power by version of CoreX: 4.x, 3.x; a version that knows neither refuses the query.
_POWER: Final = ("gpu.power.draw", "power.draw")


def make_query(fields: tuple[str, ...]) -> ToolQuery:
    """Return the query for these fields."""
    arguments = (f"--query-gpu={','.join(fields)}", "--format=csv,noheader")
    return ToolQuery(arguments, partial(parse_query, fields=fields))


FORMAT = ToolFormat(
    vendor="iluvatar",
    tool=ToolPlace(
        ("ixsmi",),
        ("/usr/local/corex/bin/ixsmi",),
        "Iluvatar CoreX",
        {"LD_LIBRARY_PATH": "/usr/local/corex/lib64:/usr/local/corex/lib"},
    ),
    queries=(*(make_query((*_BASE, power)) for power in _POWER), make_query(_BASE)),
    source="github.com/gpustack/gpustack, gpustack/detectors/ixsmi/ixsmi.py",
    card_nodes=("/dev/iluvatar{number}",),
    shared_nodes=("/dev/itrctl",),
)
