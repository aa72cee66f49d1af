"""Probes NVIDIA cards of this host through the driver's management library (NVML)."""

from gpupool.probes.nvml.driver import format_pci_address
from gpupool.probes.nvml.probe import NvmlProbe

__all__ = ["NvmlProbe", "format_pci_address"]
