"""Any piece of a card by bookkeeping: the pool counts what it gave, and nothing stops a program from taking
more.

It carries shares until a fence does, and says so: `fence: none`.
"""

from __future__ import annotations

from gpupool.base.units import WHOLE
from gpupool.mechanisms.bookkeeping import Bookkeeping
from gpupool.mechanisms.contract import AllocationView, GrantedDevice


class Share(Bookkeeping):
    """Shares of any size; several on one card."""

    name = "share"

    def refuses(self, view: AllocationView) -> str:
        problems = (_problem(grant) for grant in view.granted)
        return next((problem for problem in problems if problem), "" if view.granted else "it has no card")


def _problem(grant: GrantedDevice) -> str:
    if not 0 <= grant.gpu_milli <= WHOLE:
        return f"{grant.gpu_milli} thousandths of a card is not a share"
    if not 0 < grant.memory_bytes <= grant.device.memory_bytes:
        have = grant.device.memory_bytes >> 20
        return f"{grant.memory_bytes >> 20} MiB of a card that has {have} MiB"
    return ""
