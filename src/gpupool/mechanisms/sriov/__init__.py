"""SR-IOV: one virtual function of a card, with its quotas, goes to one virtual machine."""

from gpupool.mechanisms.sriov.mechanism import SriovMechanism
from gpupool.mechanisms.sriov.mode_switch import SriovSwitch

__all__ = ["SriovMechanism", "SriovSwitch"]
