"""Computes which cards a job sees: variables for the vendors' libraries, and device nodes.

The variables are advice to the program. The device cgroup closes nodes, where the supervisor may
set one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpupool.mechanisms.contract import AllocationView
from gpupool.model.device import RUNTIME_ID, Device

#: By vendor: variables that take a list of cards, and their value for "no card"; None where no
#: value is documented to mean that. CUDA: an empty list hides all cards. NVIDIA's container runtime:
#: `void` means no card and no driver files. Sources: AMD, rocm.docs.amd.com, "GPU isolation
#: techniques"; Intel, the Level Zero specification, "Affinity Mask"; the others,
#: github.com/gpustack/runtime, gpustack_runtime/envs.py, github.com/FlagOpen/FlagPerf (kunlunxin),
#: github.com/EnflameTechnology's vLLM platform (enflame), github.com/BIRENSUPA/torch-supa (biren).
_VARIABLES: Mapping[str, tuple[tuple[str, str | None], ...]] = {
    "nvidia": (("CUDA_VISIBLE_DEVICES", ""), ("NVIDIA_VISIBLE_DEVICES", "void")),
    "amd": (("ROCR_VISIBLE_DEVICES", ""),),
    "ascend": (("ASCEND_RT_VISIBLE_DEVICES", None),),
    "biren": (("SUPA_VISIBLE_DEVICES", None),),
    "cambricon": (("MLU_VISIBLE_DEVICES", None),),
    "enflame": (("TOPS_VISIBLE_DEVICES", None),),
    "hygon": (("HIP_VISIBLE_DEVICES", None),),
    "iluvatar": (("CUDA_VISIBLE_DEVICES", None),),
    "intel": (("ZE_AFFINITY_MASK", None),),
    "kunlunxin": (("XPU_VISIBLE_DEVICES", None), ("CUDA_VISIBLE_DEVICES", None)),
    "metax": (("CUDA_VISIBLE_DEVICES", None),),
    "mthreads": (("MUSA_VISIBLE_DEVICES", None),),
    "thead": (("CUDA_VISIBLE_DEVICES", None),),
}
#: Variables that make a runtime count in the order on the bus. CUDA's default order puts the fastest
#: card first, so an index would mean another card than in nvidia-smi.
_ORDER: Mapping[str, Mapping[str, str]] = {
    "nvidia": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    "intel": {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"},
}


def build_environment(view: AllocationView) -> dict[str, str]:
    """Return variables that show the granted cards in the order granted, and hide all others.

    A vendor without a card on the node gets no variable: its libraries find nothing anyway.
    """
    env: dict[str, str] = {}
    granted = [grant.device for grant in view.granted]
    for vendor in sorted({device.vendor for device in (*view.node_devices, *granted)}):
        own = [device for device in granted if device.vendor == vendor]
        shown = name_cards(own, alone=view.seat.container)
        for variable, hidden in _VARIABLES.get(vendor, ()):
            value = shown or hidden
            if value is not None:
                env[variable] = value
        env.update(_ORDER.get(vendor, {}))
    return env


def name_cards(cards: Sequence[Device], *, alone: bool) -> str:
    """Return the cards as their maker's runtime takes them: uuids, or numbers.

    Args:
        alone: the job sees no device file of another card, so the runtime counts from 0.
    """
    ids: list[str] = []
    for device in cards:
        ids += device.labels.get(RUNTIME_ID, device.uuid).split(",")
    if alone and all(RUNTIME_ID in device.labels for device in cards):
        ids = [str(number) for number in range(len(ids))]
    return ",".join(ids)


def list_device_nodes(view: AllocationView) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the device nodes to open and to close.

    A node that a granted card shares with another card stays open. So do the nodes of cards beside
    a granted one that its runtime names by number: it would count anew without them, and the number
    would name another card or none.
    """
    granted = {grant.device.uuid for grant in view.granted}
    opened = _list_paths(grant.device for grant in view.granted)
    counted = {g.device.vendor for g in view.granted if RUNTIME_ID in g.device.labels}
    others = [device for device in view.node_devices if device.uuid not in granted]
    closed = _list_paths(
        device for device in others if view.seat.container or device.vendor not in counted
    )
    return opened, tuple(path for path in closed if path not in opened)


def _list_paths(devices: Iterable[Device]) -> tuple[str, ...]:
    return tuple(sorted({path for device in devices for path in device.device_paths}))
