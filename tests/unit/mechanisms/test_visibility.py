"""What a job sees of the cards, by variables and by device nodes."""

from dataclasses import replace

from gpupool.mechanisms.contract import AllocationView, GrantedDevice
from gpupool.mechanisms.visibility import build_environment, list_device_nodes
from gpupool.model.device import Device
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
