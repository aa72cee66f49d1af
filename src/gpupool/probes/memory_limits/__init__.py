"""Reads and sets the memory limits of a card's driver by cgroup: of NVIDIA's, and of the simulated.

NVIDIA's driver has them since R615 (`nvmlDeviceSetMemoryLimits_v1`, nvml.h of CUDA 13.4). They hold
every program in the cgroup, whatever library it uses. This is the only code below `probes` that
changes something; it decides nothing.
"""

from gpupool.probes.memory_limits.driver_limits import DriverLimits
from gpupool.probes.memory_limits.limiter import NO_LIMIT, MemoryLimit, MemoryLimiter
from gpupool.probes.memory_limits.simulated_limits import SimulatedLimits

__all__ = ["NO_LIMIT", "DriverLimits", "MemoryLimit", "MemoryLimiter", "SimulatedLimits"]
