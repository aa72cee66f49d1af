"""What an agent reports is read as it was meant, also from agents that say less."""

from __future__ import annotations

import pytest

from gpupool.kubernetes.resources.gpu_node_status import (
    ForeignUsage,
    ReportedCard,
    ShareIsolation,
    SlotUse,
)
from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.kubernetes.resources.pod_constraints import HostPort
from gpupool.model.device import DeviceHealth
from gpupool.model.enforcement import FenceLevel


@pytest.mark.parametrize(
    ("model", "said", "vendor"),
    [
        ("L40S", None, "nvidia"),
        ("MI300X", None, "amd"),
        ("of-next-year", None, "nvidia"),
        ("L40S", "amd", "amd"),
    ],
)
def test_vendor_of_an_older_agents_card_is_that_of_its_model(
    model: str, said: str | None, vendor: str
) -> None:
    read = {"uuid": "GPU-0", "index": 0, "model": model, "memoryBytes": 1}
    found = ReportedCard.from_json(read if said is None else {**read, "vendor": said})
    assert (found.vendor, found.health) == (vendor, DeviceHealth.UNKNOWN)


def test_reason_of_a_card_is_written_where_there_is_one() -> None:
    well = ReportedCard("GPU-0", 0, "L40S", 1, health=DeviceHealth.OK)
    assert "healthReason" not in well.to_json()
    failed = ReportedCard("GPU-0", 0, "L40S", 1, "", DeviceHealth.FAILED, "XID 79")
    assert failed.to_json()["healthReason"] == "XID 79"
    for card in (well, failed):
        assert ReportedCard.from_json(card.to_json()) == card


def test_isolation_of_shares_is_read_back_and_its_reason_fits_the_definition() -> None:
    plain = ReportedCard("GPU-0", 0, "L40S", 1, share=ShareIsolation(FenceLevel.SOFT))
    assert plain.to_json()["share"] == {"fence": "soft"}
    without = ReportedCard("GPU-0", 0, "L40S", 1, share=ShareIsolation(FenceLevel.SOFT, "older"))
    assert without.to_json()["share"] == {"fence": "soft", "noMemoryLimit": "older"}
    for card in (plain, without, ReportedCard("GPU-0", 0, "L40S", 1)):
        assert ReportedCard.from_json(card.to_json()) == card
    assert len(ShareIsolation(FenceLevel.SOFT, "x" * 300).to_json()["noMemoryLimit"]) == 200


def test_slot_use_writes_what_is_known_alone() -> None:
    plain = SlotUse("u", "main", "s1", 3)
    assert set(plain.to_json()) == {"uid", "container", "slot", "generation"}
    over = SlotUse("u", "main", "s1", 3, released=True, spent=GpuTime(0))
    assert over.to_json() == {**plain.to_json(), "released": True, "gpuMs": 0}
    for use in (plain, over):
        assert SlotUse.from_json(use.to_json()) == use
        assert use.key == ("u", "main")


def test_foreign_usage_is_equal_whatever_the_order_of_its_resources() -> None:
    ports = [{"number": 80, "protocol": "TCP", "address": "0.0.0.0"}]
    one, other = (
        ForeignUsage.from_json({"resources": dict(items), "ports": ports})
        for items in ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)])
    )
    assert one == other
    assert one.ports == (HostPort(80),)
    assert ForeignUsage.from_json({}) == ForeignUsage()
