"""What cannot be suspended is refused with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.mechanisms.contract import AllocationView, GrantedDevice, HostKind, JobSeat
from gpupool.mechanisms.suspend.refusals import explain_host_shortage, explain_refusal
from gpupool.model.device import CardMode, Device
from gpupool.probes.simulated import parse_sim

CARD = parse_sim("1xH200")[0].devices[0]


def view(card: Device = CARD, **changes: object) -> AllocationView:
    granted = GrantedDevice(card, 300, 8 << 30)
    plain = AllocationView("p", "a-1", 1, "j-1", "t", "fixed", (granted,), (card,))
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["whole", "fence", "share"])
def test_jobs_with_cards_or_shares_can_be_suspended(mechanism: str) -> None:
    assert explain_refusal(mechanism, view()) == ""
    assert explain_refusal(mechanism, view(replace(CARD, driver_version="570.86.15"))) == ""


@pytest.mark.parametrize(
    ("mechanism", "about", "reason"),
    [
        ("mig", view(), "has its card by mig"),
        ("mps", view(), "has its card by mps"),
        ("whole", view(host=HostKind.VM), "virtual machine"),
        ("fence", view(host=HostKind.CONTAINER), "container"),
        ("fence", view(seat=JobSeat(container=True)), "container"),
        ("fence", view(replace(CARD, driver_version="565.57.01")), "driver is 565.57.01"),
        ("whole", view(replace(CARD, vendor="amd", product="MI300X")), "MI300X has no driver"),
        ("whole", view(replace(CARD, mode=CardMode.MIG)), "is in mode mig"),
    ],
)
def test_other_jobs_are_refused_with_the_reason(
    mechanism: str, about: AllocationView, reason: str
) -> None:
    assert reason in explain_refusal(mechanism, about)


def test_too_little_main_memory_is_told_in_numbers() -> None:
    assert explain_host_shortage(8 << 30, 8 << 30) == ""
    text = explain_host_shortage(8 << 30, 3 << 30)
    assert "8192 MiB of card memory" in text
    assert "3072 MiB more" in text
