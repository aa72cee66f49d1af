"""Switches the MIG mode of cards that answer as Ampere and as Hopper cards do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from gpupool.base.errors import RequestRejection, ServiceUnavailable, StillInUse
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.mig.driver import MigMode
from gpupool.mechanisms.mig.mode_switch import MigModeSwitch
from gpupool.mechanisms.pci.holders import find_holders
from gpupool.mechanisms.released_step import run_released_step
from gpupool.mechanisms.slow_step import StepResult
from gpupool.model.device import CardMode, ModeNeed, ModeOffer
from gpupool.probes.nvml.driver import NvmlDriver
from gpupool.probes.nvml.gate import DriverGate
from gpupool.probes.nvml.instances import NvmlInstances
from tests.support.mig_cards import CARDS, MigHost
from tests.support.supervised import until

OFF = MigMode(False, False)
ON = MigMode(True, True)


@pytest.fixture
def plain(host: MigHost) -> MigHost:
    """The same cards out of MIG mode."""
    for card in host.state.cards:
        card.current = card.pending = 0
    return host


@pytest.fixture
def ampere(plain: MigHost) -> MigHost:
    for card in plain.state.cards:
        card.resetless = 0
    return plain


def make_switch(host: MigHost, *results: StepResult | NotYet) -> MigModeSwitch:
    """A switch whose reset answers with these results in turn; one with exit code 0 resets."""
    left = list(results)

    def run_reset(folder: Path, name: str, arguments: object, reason: str) -> StepResult | NotYet:
        assert arguments == ("nvidia-smi", "--gpu-reset", "-i", CARDS[0])
        result = left.pop(0)
        if isinstance(result, StepResult) and result.exit_code == 0:
            host.reset()
        return result

    return MigModeSwitch(host.driver, host.files, run_reset)


def list_records(state: Path) -> list[str]:
    return sorted(os.listdir(state / "modes")) if (state / "modes").is_dir() else []


def test_a_hopper_card_enters_and_leaves_without_a_reset(plain: MigHost, tmp_path: Path) -> None:
    before = plain.snapshot()
    switch = make_switch(plain)
    device = plain.make_device()
    for _ in range(2):
        assert switch.enter(device, tmp_path) is None
        assert plain.driver.read_mode(CARDS[0]) == ON
    assert list_records(tmp_path) == [f"{CARDS[0]}.json"]
    for _ in range(2):
        assert switch.leave(device, tmp_path) is None
        assert plain.snapshot() == before
    assert list_records(tmp_path) == []


def test_an_ampere_card_is_reset_in_a_step_of_its_own(ampere: MigHost, tmp_path: Path) -> None:
    before = ampere.snapshot()
    switch = make_switch(
        ampere, NotYet("reset", 0.5), StepResult(0, ""), NotYet("reset", 0.5), StepResult(0, "")
    )
    device = ampere.make_device()
    assert switch.enter(device, tmp_path) == NotYet("reset", 0.5)
    assert ampere.driver.read_mode(CARDS[0]) == MigMode(False, True)
    # The reset itself has the card open: that is no reason to refuse.
    with hold_open(ampere):
        assert switch.enter(device, tmp_path) is None
    assert ampere.driver.read_mode(CARDS[0]) == ON
    assert switch.leave(device, tmp_path) == NotYet("reset", 0.5)
    assert switch.leave(device, tmp_path) is None
    assert ampere.snapshot() == before
    assert list_records(tmp_path) == []


def test_a_switch_waits_while_the_driver_is_closed(ampere: MigHost, tmp_path: Path) -> None:
    over = threading.Event()
    gate = DriverGate()
    driver = NvmlInstances(NvmlDriver(gate))
    reset = StepResult(0, "")

    def run_reset(folder: Path, name: str, arguments: object, reason: str) -> StepResult | NotYet:
        with gate.suspend(name, reason, over.is_set):
            ampere.reset()
        return reset

    switch = MigModeSwitch(driver, ampere.files, run_reset)
    device = ampere.make_device()
    for _ in range(2):
        answer = switch.enter(device, tmp_path)
        assert isinstance(answer, NotYet)
        assert "is reset to change its MIG mode" in answer.reason
    over.set()
    assert switch.enter(device, tmp_path) is None
    assert ampere.driver.read_mode(CARDS[0]) == ON


#: Resets the cards as the vendor's program does: only while no process has one open.
RESET = """
import pathlib, sys
from gpupool.mechanisms.pci.holders import find_holders, format_holders
from tests.support.mig_cards import open_state
holders = find_holders(pathlib.Path(sys.argv[1]).glob("nvidia?"))
if holders:
    sys.exit("In use by another client: " + format_holders(holders))
for card in open_state(pathlib.Path(sys.argv[2])).cards:
    card.current = card.pending
"""


def test_the_vendors_program_finds_no_card_open(
    ampere: MigHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = ampere.files.root / "dev"
    monkeypatch.setenv("MIG_NODES", str(nodes))
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    command = [sys.executable, "-c", RESET, str(nodes), str(ampere.folder / "cards")]
    run_step = partial(run_released_step, gate=ampere.gate)
    switch = MigModeSwitch(ampere.driver, ampere.files, run_step, command)
    device = ampere.make_device()
    node = nodes / "nvidia0"
    assert ampere.driver.read_mode(CARDS[0]) == OFF
    assert os.getpid() in [one.pid for one in find_holders([node])], "as an agent has it"
    assert isinstance(switch.enter(device, tmp_path), NotYet)
    assert os.getpid() not in [one.pid for one in find_holders([node])]
    assert until(lambda: switch.enter(device, tmp_path) is None)
    assert ampere.driver.read_mode(CARDS[0]) == ON
    assert os.getpid() in [one.pid for one in find_holders([node])]
    assert list_records(tmp_path) == [f"{CARDS[0]}.json"]
    with ampere.gate.suspend("end of the test", "", lambda: True):
        pass  # closes the library, whose files end with this test


def test_a_reset_that_fails_leaves_no_pending_mode(ampere: MigHost, tmp_path: Path) -> None:
    before = ampere.snapshot()
    switch = make_switch(ampere, StepResult(19, "GPU 0 is in use by another client"))
    with pytest.raises(RequestRejection, match=r"exit code 19.*in use by another client"):
        switch.enter(ampere.make_device(), tmp_path)
    assert ampere.snapshot() == before
    assert list_records(tmp_path) == []


def test_a_reset_that_cannot_be_started_is_told(ampere: MigHost, tmp_path: Path) -> None:
    before = ampere.snapshot()
    switch = make_switch(ampere, StepResult(127, ""))
    with pytest.raises(RequestRejection, match=r"exit code 127\): no output"):
        switch.enter(ampere.make_device(), tmp_path)
    assert ampere.snapshot() == before


def test_success_with_a_hidden_holder_is_a_refusal_and_changes_nothing(
    plain: MigHost, tmp_path: Path
) -> None:
    plain.card.hidden_holder = 1
    before = plain.snapshot()
    with pytest.raises(StillInUse, match="success with status in-use") as caught:
        make_switch(plain).enter(plain.make_device(), tmp_path)
    assert "nvidia-dcgm" in caught.value.hint
    assert plain.snapshot() == before
    assert list_records(tmp_path) == []


def test_success_without_effect_is_noticed(plain: MigHost, tmp_path: Path) -> None:
    plain.card.deaf = 1
    before = plain.snapshot()
    with pytest.raises(ServiceUnavailable, match="did not change it"):
        make_switch(plain).enter(plain.make_device(), tmp_path)
    assert plain.snapshot() == before


class hold_open:  # noqa: N801 - reads as a verb at its place
    """A process that has the first card open, for the length of a block."""

    def __init__(self, host: MigHost) -> None:
        node = host.files.root / "dev/nvidia0"
        program = f"f = open({str(node)!r}); print(1, flush=True); input()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> int:
        assert self.process.stdout is not None
        self.process.stdout.readline()
        return self.process.pid

    def __exit__(self, *_: object) -> None:
        self.process.communicate(b"\n")


def test_a_card_in_use_is_refused_with_the_process(plain: MigHost, tmp_path: Path) -> None:
    before = plain.snapshot()
    with hold_open(plain) as pid, pytest.raises(StillInUse, match=rf"\(pid {pid}\)"):
        make_switch(plain).enter(plain.make_device(), tmp_path)
    assert plain.snapshot() == before


def test_in_a_vm_the_switch_waits_for_a_restart(ampere: MigHost, tmp_path: Path) -> None:
    ampere.card.virtualization = 1
    switch = make_switch(ampere)
    waiting = switch.enter(ampere.make_device(), tmp_path)
    assert isinstance(waiting, NotYet)
    assert "when this VM restarts" in waiting.reason
    ampere.reboot()
    assert switch.enter(ampere.make_device(), tmp_path) is None
    assert ampere.driver.read_mode(CARDS[0]) == ON


def test_a_card_with_instances_does_not_leave(host: MigHost, tmp_path: Path) -> None:
    host.make_foreign("1g.18gb", 6)
    before = host.snapshot()
    with pytest.raises(StillInUse, match=r"has 1 GPU instances \(7\)"):
        make_switch(host).leave(host.make_device(), tmp_path)
    assert host.snapshot() == before


def test_what_was_pending_before_is_pending_again(ampere: MigHost, tmp_path: Path) -> None:
    ampere.card.pending = 1  # an operator asked for MIG and did not reset
    before = ampere.snapshot()
    switch = make_switch(ampere, StepResult(0, ""), StepResult(0, ""))
    assert switch.enter(ampere.make_device(), tmp_path) is None
    assert switch.leave(ampere.make_device(), tmp_path) is None
    assert ampere.snapshot() == before


def test_the_mode_is_entered_again_after_a_boot_that_lost_it(
    plain: MigHost, tmp_path: Path
) -> None:
    switch = make_switch(plain)
    switch.enter(plain.make_device(), tmp_path)
    plain.reboot()
    assert plain.driver.read_mode(CARDS[0]) == OFF
    assert switch.enter(plain.make_device(), tmp_path) is None
    assert plain.driver.read_mode(CARDS[0]) == ON


def test_only_cards_that_were_switched_are_restored(plain: MigHost, tmp_path: Path) -> None:
    switch = make_switch(plain)
    switch.enter(plain.make_device(), tmp_path)
    plain.reboot()
    devices = [plain.make_device(0), plain.make_device(1)]
    plain.card.hidden_holder = 1
    (problem,) = switch.restore(devices, tmp_path).values()
    assert "did not change its MIG mode" in problem
    plain.card.hidden_holder = 0
    assert switch.restore(devices, tmp_path) == {}, "a failure is tried again"
    assert [plain.driver.read_mode(card) for card in CARDS] == [ON, OFF]


def test_a_switch_that_never_reached_the_mode_is_not_restored(
    ampere: MigHost, tmp_path: Path
) -> None:
    """The server asks for it again; the card may be plain and have jobs by then."""
    switch = make_switch(ampere, NotYet("a reset runs", 0.5))
    assert isinstance(switch.enter(ampere.make_device(), tmp_path), NotYet)
    ampere.card.pending = 0  # a driver that was loaded anew
    assert switch.restore([ampere.make_device()], tmp_path) == {}
    assert ampere.driver.read_mode(CARDS[0]) == OFF


def test_an_offer_says_what_the_switch_needs(plain: MigHost, tmp_path: Path) -> None:
    switch = make_switch(plain)
    assert switch.describe_offer(plain.make_device()) == ModeOffer(CardMode.MIG, ModeNeed.IDLE_CARD)
    plain.card.resetless = 0
    found = switch.describe_offer(plain.make_device())
    assert found is not None
    assert found.needs is ModeNeed.RESET
    assert "nvidia-smi --gpu-reset" in switch.list_steps(plain.make_device())[2]
    plain.card.virtualization = 1
    found = switch.describe_offer(plain.make_device())
    assert found is not None
    assert found.needs is ModeNeed.REBOOT
    plain.card.virtualization = 2
    found = switch.describe_offer(plain.make_device())
    assert found is not None
    assert "vGPU guest" in found.blocked_by
    with pytest.raises(RequestRejection, match="vGPU guest"):
        switch.enter(plain.make_device(), tmp_path)


def test_a_card_without_mig_has_no_offer(plain: MigHost, tmp_path: Path) -> None:
    plain.card.has_mig = 0
    device = plain.make_device()
    switch = make_switch(plain)
    assert switch.describe_offer(device) is None
    assert switch.list_steps(device) == ()
    with pytest.raises(RequestRejection, match="has no MIG"):
        switch.enter(device, tmp_path)
