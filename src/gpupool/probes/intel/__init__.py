"""Probes Intel's discrete cards through sysfs, and through xpu-smi where it is installed."""

from gpupool.probes.intel.probe import IntelProbe

__all__ = ["IntelProbe"]
