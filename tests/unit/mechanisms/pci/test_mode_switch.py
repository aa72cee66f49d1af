"""Switches of a card's mode: killed at any change they can be left, and the card is as before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import RequestRejection, WrongState
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.passthrough import PassthroughSwitch
from gpupool.mechanisms.pci.mode_switch import (
    OperationSwitch,
    iterate_records,
    mark_modes,
    read_record,
)
from gpupool.mechanisms.sriov import SriovSwitch
from gpupool.model.device import CardMode, Device, ModeNeed
from tests.support.handover_builders import (
    AUDIO,
    CARD,
    build_card_machine,
    make_device,
    read_tree,
)
from tests.support.pci_kernel import AMD, INTEL, FakeKernel, FunctionFacts, InlineRunner, build_tree

Case = tuple[FakeKernel, OperationSwitch, Device]


def make_passthrough(root: Path) -> Case:
    kernel = FakeKernel(build_card_machine(root))
    return kernel, PassthroughSwitch(root, InlineRunner(kernel)), make_device()


def make_sriov(root: Path) -> Case:
    facts = FunctionFacts(CARD, 10, INTEL, own_driver="xe", total=7)
    kernel = FakeKernel(build_tree(root, [facts]))
    device = make_device(vendor="intel", labels={"virtual-functions": "3"})
    return kernel, SriovSwitch(root, InlineRunner(kernel)), device


@pytest.fixture(params=[make_passthrough, make_sriov])
def make_case(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Case]:
    def make(name: str) -> Case:
        (tmp_path / name / "state").mkdir(parents=True)
        case: Case = request.param(tmp_path / name / "root")
        return case

    return make


def test_entering_and_leaving_twice_gives_the_card_before(
    make_case: Callable[[str], Case], tmp_path: Path
) -> None:
    kernel, switch, device = make_case("one")
    state = tmp_path / "one/state"
    before = read_tree(kernel.root)
    assert switch.enter(device, state) is None
    inside = read_tree(kernel.root)
    assert inside != before
    (record,) = iterate_records(state)
    assert (record.mode, record.step, record.address) == (switch.mode, "entered", CARD)
    assert record.card["memory_bytes"] == device.memory_bytes, "no probe finds the card now"
    assert switch.enter(device, state) is None
    assert read_tree(kernel.root) == inside
    for _ in range(2):
        assert switch.leave(device, state) is None
        assert read_tree(kernel.root) == before
    assert list((state / "modes").iterdir()) == []


def test_a_slow_step_answers_not_yet(make_case: Callable[[str], Case], tmp_path: Path) -> None:
    kernel, switch, device = make_case("one")
    switch.runner = InlineRunner(kernel, asks=1)
    assert isinstance(switch.enter(device, tmp_path / "one/state"), NotYet)
    assert switch.enter(device, tmp_path / "one/state") is None


def test_a_card_in_one_mode_cannot_enter_another(tmp_path: Path) -> None:
    kernel, switch, device = make_passthrough(tmp_path / "root")
    switch.enter(device, tmp_path)
    other = SriovSwitch(tmp_path / "root", InlineRunner(kernel))
    with pytest.raises(RequestRejection, match="is entered mode passthrough"):
        other.enter(device, tmp_path)
    with pytest.raises(RequestRejection, match="is in mode passthrough, not sriov"):
        other.leave(device, tmp_path)


def test_the_record_of_another_kind_of_switch_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "modes").mkdir()
    (tmp_path / "modes/GPU-1.json").write_text(json.dumps({"mode": "mig"}))
    assert list(iterate_records(tmp_path)) == []
    with pytest.raises(WrongState, match="another kind"):
        read_record("GPU-1", tmp_path)


def test_an_offer_says_what_is_in_the_way(tmp_path: Path) -> None:
    kernel, switch, device = make_passthrough(tmp_path / "root")
    offer = switch.describe_offer(device)
    assert offer is not None
    assert (offer.mode, offer.needs, offer.blocked_by) == (
        CardMode.PASSTHROUGH,
        ModeNeed.IDLE_CARD,
        "",
    )
    (kernel.root / "sys/bus/pci/devices" / CARD / "reset_method").unlink()
    offer = switch.describe_offer(device)
    assert offer is not None
    assert "no way to reset it" in offer.blocked_by
    assert switch.list_steps(device)[0].startswith("not possible: ")
    assert switch.describe_offer(replace(device, simulated=True)) is None


def test_steps_are_listed_without_a_change(tmp_path: Path) -> None:
    kernel, switch, device = make_passthrough(tmp_path / "root")
    before = read_tree(kernel.root)
    assert f"bind {CARD} vfio_pci" in switch.list_steps(device)
    assert read_tree(kernel.root) == before


def test_gim_cards_need_another_load_of_the_module(tmp_path: Path) -> None:
    facts = FunctionFacts(CARD, 10, AMD, own_driver="gim", total=8)
    root = build_tree(tmp_path / "root", [facts])
    switch = SriovSwitch(root, InlineRunner(FakeKernel(root)))
    offer = switch.describe_offer(make_device(vendor="amd", labels={"virtual-functions": "4"}))
    assert offer is not None
    assert offer.needs is ModeNeed.RELOAD
    assert "load it again with vf_num=4" in offer.blocked_by


@pytest.mark.parametrize("label", ["0", "many", "-1"])
def test_a_label_that_is_no_number_is_refused(tmp_path: Path, label: str) -> None:
    _, switch, device = make_sriov(tmp_path / "root")
    wrong = replace(device, labels={"virtual-functions": label})
    assert f"virtual-functions={label} is not a number" in switch.find_problem(wrong)


def test_an_entry_that_fails_is_undone_and_says_why(tmp_path: Path) -> None:
    kernel, switch, device = make_passthrough(tmp_path / "root")
    folder = kernel.root / "sys/bus/pci/drivers/vfio-pci"
    for attribute in folder.iterdir():
        attribute.unlink()
    folder.rmdir()
    before = read_tree(kernel.root)
    switch.runner = InlineRunner(kernel)
    with pytest.raises(WrongState, match=r"and is plain again: .* run modprobe vfio_pci"):
        switch.enter(device, tmp_path)
    assert read_tree(kernel.root) == before
    assert read_record(device.uuid, tmp_path) is None


def test_a_failed_entry_is_undone_by_the_next_agent(tmp_path: Path) -> None:
    kernel, switch, device = make_passthrough(tmp_path / "root")
    before = read_tree(kernel.root)
    # The audio function vanishes from its driver's reach: the second bind fails after the first.
    override = kernel.root / "sys/bus/pci/devices" / AUDIO / "driver_override"
    text = override.read_text()
    override.unlink()
    switch.runner = OneAtATime(kernel)
    answer = switch.enter(device, tmp_path)
    assert isinstance(answer, NotYet)
    record = read_record(device.uuid, tmp_path)
    assert record is not None
    assert (record.step, record.shown_mode) == ("failing", CardMode.PLAIN)
    override.write_text(text)
    later = PassthroughSwitch(kernel.root, InlineRunner(kernel))
    with pytest.raises(WrongState, match="is plain again"):
        later.enter(device, tmp_path)
    assert read_tree(kernel.root) == before


class OneAtATime(InlineRunner):
    """Runs the first plan and answers `NotYet` for all later ones."""

    def run_plan(self, root, folder, name, operations, reason):  # type: ignore[no-untyped-def]
        if name != "enter":
            return NotYet(reason, 0.01)
        return super().run_plan(root, folder, name, operations, reason)


def test_cards_keep_their_place_while_no_probe_finds_them(tmp_path: Path) -> None:
    _, switch, device = make_passthrough(tmp_path / "root")
    other = make_device("0000:3b:00.0", "GPU-2", index=1)
    assert mark_modes((device, other), tmp_path) == (device, other)
    switch.enter(device, tmp_path)
    marked = mark_modes((other,), tmp_path)
    assert [(one.uuid, one.mode) for one in marked] == [
        ("GPU-1", CardMode.PASSTHROUGH),
        ("GPU-2", CardMode.PLAIN),
    ]
    assert marked[0] == replace(device, mode=CardMode.PASSTHROUGH)
    assert mark_modes((device,), tmp_path)[0].mode is CardMode.PASSTHROUGH


def test_cards_behind_an_absent_one_keep_their_index(tmp_path: Path) -> None:
    _, switch, first = make_passthrough(tmp_path / "root")
    second = make_device("0000:3b:00.0", "GPU-2", index=1)
    third = make_device("0000:5b:00.0", "GPU-3", index=2)
    switch.enter(first, tmp_path)
    shown = (replace(second, index=0), replace(third, index=1))  # as a driver counts them now
    marked = mark_modes(shown, tmp_path)
    assert [(one.uuid, one.index) for one in marked] == [("GPU-1", 0), ("GPU-2", 1), ("GPU-3", 2)]
    assert marked[1:] == (second, third)


def test_labels_of_the_node_become_labels_of_its_cards(tmp_path: Path) -> None:
    node = {
        "gpupool.dev/switchable": "passthrough",
        "gpupool.dev/vgpu-sizes": "mixed",
        "rack": "r1",
    }
    plain = make_device(labels={"vgpu-sizes": "equal"})
    (marked,) = mark_modes((plain,), tmp_path, node)
    assert marked.labels == {"switchable": "passthrough", "vgpu-sizes": "equal"}
