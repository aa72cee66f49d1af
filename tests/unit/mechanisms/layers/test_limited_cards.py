"""Which cards NVIDIA's driver could limit by cgroup; `test_memgroup` has the other reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.mechanisms.contract import AllocationView, GrantedDevice
from gpupool.mechanisms.layers.limited_cards import explain_unlimited
from gpupool.probes.simulated import parse_sim

(CARD,) = parse_sim("1xL40S")[0].devices


@pytest.mark.parametrize(
    ("release", "simulated", "reason"),
    [
        ("615.71.09", False, ""),
        ("615.71.09", True, ""),
        ("580.95.05", False, "driver 580.95.05 has no limits"),
        (None, False, ""),
        (None, True, "driver of unknown release has no limits"),
    ],
)
def test_release_of_the_driver_decides(release: str | None, simulated: bool, reason: str) -> None:
    """A real driver of unknown release is asked; a simulated one must name a later one."""
    card = replace(CARD, driver_version=release, simulated=simulated)
    grant = GrantedDevice(card, 300, 1 << 30)
    view = AllocationView("p", "a", 1, "j", "t", "fixed", (grant,), (card,))
    found = explain_unlimited(view)
    assert found.startswith(reason)
    assert bool(found) == bool(reason)
