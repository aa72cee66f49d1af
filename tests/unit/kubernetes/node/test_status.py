"""An agent's report fits the definition of a GpuNode, however much has failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupool.base.units import GIB
from gpupool.kubernetes.node.status import build_status
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from gpupool.model.device import Device, DeviceHealth
from gpupool.model.sharing_default import SHARING_LABEL
from gpupool.model.topology import Topology


def build_devices(count: int = 2) -> list[Device]:
    devices = []
    for index in range(count):
        uuid = f"GPU-{index}"
        devices.append(Device(uuid, index, "nvidia", "NVIDIA L40S", "L40S", 48 * GIB))
    return devices


def report(
    devices: list[Device], *uses: SlotUse, labels: dict[str, str] | None = None
) -> dict[str, Any]:
    return build_status(devices, Topology(), uses, [], 8, 3, labels=labels or {})


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = (one for one in status["conditions"] if one["type"] == kind)
    return found


def test_report_is_read_back_as_it_was_made() -> None:
    devices = build_devices()
    use = SlotUse("u", "main", "s1", 2)
    made = {"metadata": {"name": "n0"}, "status": report(devices, use)}
    node = GpuNode.from_json(made)
    assert [card.uuid for card in node.cards] == [device.uuid for device in devices]
    assert (node.slots, node.slot_count, node.observed, node.ready) == ((use,), 8, 3, True)
    assert node.reads_text


def test_cards_that_failed_are_named_in_the_condition() -> None:
    well, failed = build_devices()
    assert condition(report([well, failed]), "CardsHealthy")["status"] == "True"
    failed = replace(failed, health=DeviceHealth.FAILED, health_reason="XID 79")
    warned = replace(well, health=DeviceHealth.WARNING, health_reason="hot")
    found = condition(report([warned, failed]), "CardsHealthy")
    assert (found["status"], found["reason"]) == ("False", "CardsFailed")
    assert found["message"] == f"card 1 ({failed.uuid}): XID 79"


def test_reasons_are_cut_to_what_the_definition_holds() -> None:
    devices = []
    for device in build_devices(8):
        devices.append(replace(device, health=DeviceHealth.FAILED, health_reason="x" * 300))
    made = report(devices)
    assert {len(card["healthReason"]) for card in made["cards"]} == {200}
    assert len(condition(made, "CardsHealthy")["message"]) == 1024


def test_default_of_sharing_follows_the_label() -> None:
    assert report(build_devices())["sharingDefault"] == "fixed"
    made = report(build_devices(), labels={SHARING_LABEL: "burst"})
    assert made["sharingDefault"] == "burst"
    assert [one["type"] for one in made["conditions"]] == ["Ready", "CardsHealthy"]


def test_label_that_names_no_default_is_reported_as_ignored() -> None:
    made = report(build_devices(), labels={SHARING_LABEL: "best-effort"})
    assert made["sharingDefault"] == "fixed"
    found = condition(made, "SharingDefault")
    assert (found["status"], found["reason"]) == ("False", "LabelIgnored")
    assert "gpupool.dev/sharing=best-effort is ignored" in found["message"]
    assert "fixed or burst" in found["message"]
