"""Virtual GPUs of NVIDIA cards, and Intel's GVT-g, for virtual machines."""

from gpupool.mechanisms.vgpu.mechanism import VgpuMechanism
from gpupool.mechanisms.vgpu.mode_switch import VgpuSwitch

__all__ = ["VgpuMechanism", "VgpuSwitch"]
