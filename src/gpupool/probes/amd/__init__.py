"""Probes AMD cards through what the amdgpu driver and the KFD show in sysfs; needs no tool of ROCm."""

from gpupool.probes.amd.probe import AmdProbe

__all__ = ["AmdProbe"]
