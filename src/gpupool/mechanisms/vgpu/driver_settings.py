"""Reads how NVIDIA's host driver divides a card's time, and whether there is a licence for guests."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from gpupool.mechanisms.contract import EnforcementLevels, FenceLevel
from gpupool.probes.common.sysfs import read_text

#: Below the root: where the administrator puts the token for guests.
LICENCE_FOLDER = "etc/gpupool/vgpu-licence"
#: Name that NVIDIA's licence servers give a token.
TOKEN_PATTERN = "client_configuration_token_*.tok"
_POLICY = re.compile(r"RmPVMRL=(0x[0-9a-fA-F]+|\d+)")


class VgpuScheduler(StrEnum):
    """How the driver divides the time of a card among its virtual GPUs."""

    BEST_EFFORT = "best-effort"
    EQUAL_SHARE = "equal-share"
    FIXED_SHARE = "fixed-share"


def read_scheduler(root: Path) -> VgpuScheduler:
    """Return the policy that the driver's module was loaded with."""
    match = _POLICY.search(read_text(root / "proc/driver/nvidia/params") or "")
    # The low byte is the policy; the bits above it are the length of a slice.
    policy = 0 if match is None else int(match.group(1), 0) & 0xFF
    if policy == 0x01:
        return VgpuScheduler.EQUAL_SHARE
    return VgpuScheduler.FIXED_SHARE if policy == 0x11 else VgpuScheduler.BEST_EFFORT


def find_licence(root: Path) -> Path | None:
    """Return the token that guests need; None without one."""
    return next(iter(sorted((root / LICENCE_FOLDER).glob(TOKEN_PATTERN))), None)


def find_levels(*, mig: bool, gvt: bool, scheduler: VgpuScheduler) -> EnforcementLevels:
    """Return the levels of a virtual GPU.

    Args:
        mig: it has a MIG instance of its own.
        gvt: it is one of GVT-g.
    """
    if gvt:
        # Its engines are shared without any quota; memory is divided by the host's driver.
        return EnforcementLevels(memory=FenceLevel.HARD, fault=FenceLevel.SOFT)
    if mig:
        hard = FenceLevel.HARD
        return EnforcementLevels(memory=hard, compute=hard, bandwidth=hard, fault=hard)
    fair = scheduler is not VgpuScheduler.BEST_EFFORT
    compute = FenceLevel.HARD if fair else FenceLevel.NONE
    return EnforcementLevels(memory=FenceLevel.HARD, compute=compute, fault=FenceLevel.SOFT)
