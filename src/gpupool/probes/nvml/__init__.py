"""Probes NVIDIA cards of this host through the driver's management library (NVML)."""

from gpupool.probes.nvml.driver import format_pci_address
from gpupool.probes.nvml.probe import NvmlProbe
from gpupool.probes.nvml.xids import judge_xid

__all__ = ["NvmlProbe", "format_pci_address", "judge_xid"]
