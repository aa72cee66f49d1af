"""Computes which cards a job sees: variables for the vendors' libraries, and device nodes.

The variables are advice to the program. The device cgroup closes nodes, where the supervisor may
set one.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.mechanisms.contract import AllocationView
from gpupool.model.device import Device

#: By vendor: variables that take a list of uuids, and their value for "no card". CUDA: an empty list
#: hides all cards. NVIDIA's container runtime: `void` means no card and no driver files.
_VARIABLES = {
    "nvidia": (("CUDA_VISIBLE_DEVICES", ""), ("NVIDIA_VISIBLE_DEVICES", "void")),
    "amd": (("ROCR_VISIBLE_DEVICES", ""),),
}


def build_environment(view: AllocationView) -> dict[str, str]:
    """Return variables that show the granted cards in the order granted, and hide all others.

    A vendor without a card on the node gets no variable: its libraries find nothing anyway.
    """
    env: dict[str, str] = {}
    granted = [grant.device for grant in view.granted]
    for vendor in sorted({device.vendor for device in (*view.node_devices, *granted)}):
        shown = ",".join(d.uuid for d in granted if d.vendor == vendor)
        for variable, hidden in _VARIABLES.get(vendor, ()):
            env[variable] = shown or hidden
    if "CUDA_VISIBLE_DEVICES" in env:
        # CUDA's default order puts the fastest card first, so an index would mean another card than
        # in nvidia-smi.
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return env


def list_device_nodes(view: AllocationView) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the device nodes to open and to close.

    A node that a granted card shares with another card stays open.
    """
    granted = {grant.device.uuid for grant in view.granted}
    opened = _list_paths(grant.device for grant in view.granted)
    closed = _list_paths(device for device in view.node_devices if device.uuid not in granted)
    return opened, tuple(path for path in closed if path not in opened)


def _list_paths(devices: Iterable[Device]) -> tuple[str, ...]:
    return tuple(sorted({path for device in devices for path in device.device_paths}))
