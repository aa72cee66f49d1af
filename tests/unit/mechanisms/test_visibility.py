"""What a job sees of the cards, by variables and by device nodes."""

from dataclasses import replace

import pytest

from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat
from gpupool.mechanisms.visibility import build_environment, list_device_nodes
from gpupool.model.device import RUNTIME_ID, Device
from gpupool.probes.pci import VENDORS
from gpupool.probes.simulated import parse_sim


def cards(spec: str) -> tuple[Device, ...]:
    """Cards with device nodes as real ones have them."""
    found = parse_sim(spec)[0].devices
    return tuple(
        replace(d, device_paths=(f"/dev/nvidia{d.index}", f"/dev/dri/renderD{128 + d.index}"))
        for d in found
    )


def view(devices: tuple[Device, ...], *shown: int) -> AllocationView:
    granted = tuple(GrantedDevice(devices[i], 500, 1 << 30) for i in shown)
    return AllocationView("pool", "al-1", 1, "job", "team", "fixed", granted, devices)


def test_the_granted_cards_are_named_by_uuid_in_the_order_granted() -> None:
    devices = cards("4xL40S")
    env = build_environment(view(devices, 3, 1))
    assert env["CUDA_VISIBLE_DEVICES"] == f"{devices[3].uuid},{devices[1].uuid}"
    assert env["NVIDIA_VISIBLE_DEVICES"] == env["CUDA_VISIBLE_DEVICES"]
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "ROCR_VISIBLE_DEVICES" not in env


def test_cards_of_another_vendor_on_the_node_are_hidden() -> None:
    devices = cards("2xT4+1xMI210")
    assert build_environment(view(devices, 0))["ROCR_VISIBLE_DEVICES"] == ""
    amd = build_environment(view(devices, 2))
    assert (amd["CUDA_VISIBLE_DEVICES"], amd["NVIDIA_VISIBLE_DEVICES"]) == ("", "void")
    assert amd["ROCR_VISIBLE_DEVICES"] == devices[2].uuid


def test_every_node_of_the_other_cards_is_closed() -> None:
    opened, closed = list_device_nodes(view(cards("4xL40S"), 2))
    assert opened == ("/dev/dri/renderD130", "/dev/nvidia2")
    assert closed == tuple(
        sorted(
            f"/dev/{kind}{n}"
            for i in (0, 1, 3)
            for kind, n in (("nvidia", i), ("dri/renderD", 128 + i))
        )
    )


def test_a_node_that_a_granted_card_shares_with_another_stays_open() -> None:
    devices = tuple(replace(d, device_paths=("/dev/kfd", *d.device_paths)) for d in cards("2xT4"))
    opened, closed = list_device_nodes(view(devices, 0))
    assert "/dev/kfd" in opened
    assert "/dev/kfd" not in closed


def test_simulated_cards_have_no_nodes_to_open_or_close() -> None:
    assert list_device_nodes(view(parse_sim("2xT4")[0].devices, 0)) == ((), ())


def numbered_cards(vendor: str, count: int) -> tuple[Device, ...]:
    """Cards that their maker's runtime names by number, beginning with 1."""
    made = parse_sim(f"{count}xT4")[0].devices
    cards = []
    for number, card in enumerate(made, start=1):
        labels = {RUNTIME_ID: str(number)}
        paths = ("/dev/shared", f"/dev/card{number}")
        cards.append(replace(card, vendor=vendor, labels=labels, device_paths=paths))
    return tuple(cards)


def move_to_container(view: AllocationView) -> AllocationView:
    return replace(view, seat=JobSeat(container=True))


@pytest.mark.parametrize("vendor", sorted(set(VENDORS.values()) - {"nvidia"}))
def test_every_maker_has_a_variable_that_names_the_granted_cards(vendor: str) -> None:
    cards = numbered_cards(vendor, 4)
    env = build_environment(view(cards, 2, 0))
    shown = [value for name, value in env.items() if name.endswith(("_DEVICES", "_MASK"))]
    assert shown
    assert set(shown) == {"3,1"}


def test_cards_counted_by_number_keep_their_neighbours_files_open() -> None:
    cards = numbered_cards("ascend", 3)
    opened, closed = list_device_nodes(view(cards, 1))
    assert opened == ("/dev/card2", "/dev/shared")
    # Without them the runtime would count anew, and 2 would be another card or none.
    assert closed == ()


def test_in_a_container_cards_are_counted_from_0() -> None:
    cards = numbered_cards("ascend", 3)
    inside = move_to_container(view(cards, 2, 1))
    assert build_environment(inside)["ASCEND_RT_VISIBLE_DEVICES"] == "0,1"
    assert list_device_nodes(inside)[1] == ("/dev/card1",)


def test_a_job_without_a_card_of_a_maker_finds_its_files_closed() -> None:
    cards = numbered_cards("ascend", 2)
    nothing = view(cards)
    assert build_environment(nothing) == {}
    assert list_device_nodes(nothing) == ((), ("/dev/card1", "/dev/card2", "/dev/shared"))


def test_a_partitioned_card_is_all_its_agents() -> None:
    cards = tuple(
        replace(card, labels={RUNTIME_ID: ids})
        for card, ids in zip(numbered_cards("amd", 2), ("0,1,2", "3,4,5"), strict=True)
    )
    assert build_environment(view(cards, 1))["ROCR_VISIBLE_DEVICES"] == "3,4,5"
    inside = move_to_container(view(cards, 1))
    assert build_environment(inside)["ROCR_VISIBLE_DEVICES"] == "0,1,2"


def test_level_zero_counts_in_the_order_of_the_bus() -> None:
    env = build_environment(view(numbered_cards("intel", 2), 0))
    assert env == {"ZE_AFFINITY_MASK": "1", "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}
