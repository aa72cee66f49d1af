"""Probes the cards of ten makers through the output of their management tools."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpupool.probes.vendors import (
    ascend,
    biren,
    cambricon,
    enflame,
    hygon,
    iluvatar,
    kunlunxin,
    metax,
    mthreads,
    thead,
)
from gpupool.probes.vendors.command_probe import CommandProbe
from gpupool.probes.vendors.tool_report import ToolFormat

__all__ = ["FORMATS", "CommandProbe", "ToolFormat"]

_MODULES = (
    ascend,
    biren,
    cambricon,
    enflame,
    hygon,
    iluvatar,
    kunlunxin,
    metax,
    mthreads,
    thead,
)

#: By maker, as catalogue and limits know it.
FORMATS: Mapping[str, ToolFormat] = MappingProxyType(
    {module.FORMAT.vendor: module.FORMAT for module in _MODULES}
)
