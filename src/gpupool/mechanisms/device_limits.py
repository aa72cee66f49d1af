"""Computes what a fenced allocation may have of each card, as it stands on the limits page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gpupool.mechanisms.calibration import find_calibration
from gpupool.mechanisms.contract import AllocationView, GrantedDevice
from gpupool.mechanisms.regions import DeviceLimit

#: Thousandths of a card's period, which static parts divide without an arbiter.
PERIOD_MILLI: Final = 1000
#: A best-effort or offline share is promised nothing; without an arbiter it still gets this part of a period,
#: or its jobs would never end.
LEAST_DUTY_MILLI: Final = 10
#: Weight of a share without a promise. Others weigh what they were promised, so it counts as a tenth
#: of a card.
UNPROMISED_WEIGHT: Final = 100


def build_device_limit(
    grant: GrantedDevice, view: AllocationView, others: Iterable[DeviceLimit], state_dir: Path
) -> DeviceLimit:
    """Return the limits of one card's part, beside the parts of `others` on the same card."""
    known = find_calibration(grant.device, state_dir)
    part = max(grant.gpu_milli, LEAST_DUTY_MILLI)
    return DeviceLimit(
        grant.device.uuid,
        grant.memory_bytes,
        grant.device.memory_bytes,
        grant.context_bytes if grant.context_bytes is not None else known.context_bytes,
        grant.granule_bytes if grant.granule_bytes is not None else known.granule_bytes,
        grant.gpu_milli,
        view.sharing,
        grant.gpu_milli or UNPROMISED_WEIGHT,
        view.priority,
        _find_free_offset(part, [one for one in others if one.uuid == grant.device.uuid]),
    )


def _find_free_offset(part: int, others: Iterable[DeviceLimit]) -> int:
    """Return where in a period a share's part begins, while no arbiter divides the card's time.

    That is the first gap between the neighbours' parts that it fits into; 0 without one.
    """
    taken = sorted((one.duty_offset_milli, max(one.gpu_milli, LEAST_DUTY_MILLI)) for one in others)
    end = 0
    for offset, length in [*taken, (PERIOD_MILLI, 0)]:
        if end + part <= offset:
            return end
        end = max(end, offset + length)
    return 0
