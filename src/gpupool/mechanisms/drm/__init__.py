"""Adds what the kernel and ROCm can limit on cards of AMD and Intel to shares that are only counted."""

from gpupool.mechanisms.drm.compute_mask import ComputeMask
from gpupool.mechanisms.drm.memory_limit import DeviceMemoryLimit

__all__ = ["ComputeMask", "DeviceMemoryLimit"]
