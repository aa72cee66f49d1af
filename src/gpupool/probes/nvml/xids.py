"""Judges what an XID of the driver says about a card."""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.model.device import DeviceHealth

# XIDs a program causes itself; the card stays well. The same list as in NVIDIA's own device plugin.
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
# XIDs after which the card cannot be trusted before a reset or a repair.
FATAL_XIDS: Mapping[int, str] = {
    48: "uncorrectable memory error",
    62: "internal micro-controller halt",
    64: "a memory row could not be remapped",
    74: "NVLink error",
    79: "the card has fallen off the bus",
    95: "uncontained memory error",
    119: "the card's system processor does not answer",
    120: "the card's system processor failed",
    140: "unrecovered memory error",
}


def judge_xid(xid: int) -> tuple[DeviceHealth, str]:
    """Return what an XID says about the card. One that a program caused leaves it well.

    >>> judge_xid(79)
    (<DeviceHealth.FAILED: 'failed'>, 'the card has fallen off the bus (XID 79)')
    """
    if xid in APPLICATION_XIDS:
        return DeviceHealth.OK, f"a program's own error (XID {xid})"
    if xid in FATAL_XIDS:
        return DeviceHealth.FAILED, f"{FATAL_XIDS[xid]} (XID {xid})"
    return DeviceHealth.WARNING, f"driver error (XID {xid})"
