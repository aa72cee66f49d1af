"""Passthrough: a whole card, with all its functions, goes to one virtual machine.

The VM has the hardware alone behind the IOMMU, so the levels are hard in every dimension.
"""

from gpupool.mechanisms.passthrough.mechanism import PassthroughMechanism
from gpupool.mechanisms.passthrough.mode_switch import PassthroughSwitch

__all__ = ["PassthroughMechanism", "PassthroughSwitch"]
