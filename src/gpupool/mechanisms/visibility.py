"""Which cards a job may see: the variables vendors' libraries heed, and the device nodes to open and to
close.

The variables are advice to the program. Nodes are closed by the device cgroup, where the supervisor may set
one.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.mechanisms.contract import AllocationView
from gpupool.model.device import Device

# vendor: (variables that take a list of uuids, their value for "no card")
# CUDA: an empty list hides all cards. NVIDIA's container runtime: `void` is "none and no driver files".
_VARIABLES = {
    "nvidia": (("CUDA_VISIBLE_DEVICES", ""), ("NVIDIA_VISIBLE_DEVICES", "void")),
    "amd": (("ROCR_VISIBLE_DEVICES", ""),),
}


def environment(view: AllocationView) -> dict[str, str]:
    """Variables that show the granted cards, in the order granted, and hide every other card of the node.

    A vendor of which the node has no card gets no variable: its libraries find nothing anyway.
    """
    env: dict[str, str] = {}
    granted = [grant.device for grant in view.granted]
    for vendor in sorted({device.vendor for device in (*view.node_devices, *granted)}):
        shown = ",".join(d.uuid for d in granted if d.vendor == vendor)
        env |= {variable: shown or hidden for variable, hidden in _VARIABLES.get(vendor, ())}
    if "CUDA_VISIBLE_DEVICES" in env:
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return env


def nodes(view: AllocationView) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The device nodes to open and to close. A node that a granted card shares with another stays open."""
    granted = {grant.device.uuid for grant in view.granted}
    opened = _paths(grant.device for grant in view.granted)
    closed = _paths(device for device in view.node_devices if device.uuid not in granted)
    return opened, tuple(path for path in closed if path not in opened)


def _paths(devices: Iterable[Device]) -> tuple[str, ...]:
    return tuple(sorted({path for device in devices for path in device.device_paths}))
