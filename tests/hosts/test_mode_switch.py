"""An agent process switches a card: NVML is closed, the card is switched, and NVML is opened again.

Server, agent, steps and processes are real; the library is the compiled stand-in, which keeps the node
of each card open as NVML does; sysfs is a tree whose writes have the kernel's effects.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.mechanisms.pci.holders import find_holders
from gpupool.model.device import CardMode
from tests.hosts.mode_machine import ModeMachine
from tests.support.mig_cards import CARDS, compile_library
from tests.support.supervised import until

pytestmark = pytest.mark.hosts
#: Kills of agents at random moments of one switch.
KILLS = [2, pytest.param(5, marks=pytest.mark.nightly)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def machine(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModeMachine]:
    """Two Ampere cards, plain: the driver changes their MIG mode at a reset."""
    made = ModeMachine(tmp_path, library, monkeypatch)
    for card in made.host.state.cards:
        card.current = card.pending = card.resetless = 0
    yield made
    made.end()


def read_card(machine: ModeMachine, position: int = 0) -> dict[str, Any]:
    with machine.server.api() as api:
        page: dict[str, Any] = api.request("GET", "devices")
    for item in page["items"]:
        if item["uuid"] == CARDS[position]:
            found: dict[str, Any] = item
            return found
    raise AssertionError(f"{CARDS[position]} is not in the pool: {page}")


def await_ready(machine: ModeMachine) -> None:
    until(lambda: machine.server.node_is_ready("host"), "the node's readiness")


def switch(machine: ModeMachine, mode: CardMode) -> None:
    with machine.server.api() as api:
        api.request("POST", f"devices/{CARDS[0]}/mode", {"mode": mode})


def await_mode(machine: ModeMachine, mode: CardMode) -> None:
    """Await the end of a switch, which must be in the mode."""
    try:
        card = until(lambda: read_over(machine), f"the end of the switch to {mode}")
    except AssertionError as error:
        error.add_note(f"{read_card(machine)['switch']}\n{machine.read_log()}")
        raise
    assert card["mode"] == mode, machine.read_log()


def read_over(machine: ModeMachine) -> dict[str, Any] | None:
    card = read_card(machine)
    return card if card["switch"] is None else None


def await_step(machine: ModeMachine, before: int) -> None:
    """Await that one more step is at its work than before."""
    until(lambda: machine.count_steps() > before, "the step")


def list_holders(machine: ModeMachine) -> list[int]:
    return sorted({one.pid for one in find_holders((machine.root / "dev").glob("nvidia*"))})


def await_holder(machine: ModeMachine, pid: int) -> None:
    """Await that a process, and no other, has NVML open."""
    until(lambda: list_holders(machine) == [pid], f"NVML open in process {pid} alone")


def is_switched(machine: ModeMachine, mode: CardMode) -> bool:
    """Whether the hardware is in the mode, whatever the pool says."""
    found = (machine.read_driver(), bool(machine.host.card.current))
    expected = {
        CardMode.PLAIN: ("nvidia", False),
        CardMode.MIG: ("nvidia", True),
        CardMode.PASSTHROUGH: ("vfio-pci", False),
    }
    return found == expected[mode]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", [CardMode.MIG, CardMode.PASSTHROUGH])
def test_an_agent_closes_nvml_for_a_switch_and_opens_it_again(
    machine: ModeMachine, mode: CardMode
) -> None:
    agent = machine.start_agent()
    await_ready(machine)
    await_holder(machine, agent.pid)
    before = machine.host.snapshot()
    for wanted in (mode, CardMode.PLAIN):
        steps = machine.count_steps()
        machine.forbid()
        switch(machine, wanted)
        await_step(machine, steps)
        assert list_holders(machine) == []
        assert not is_switched(machine, wanted)
        assert read_card(machine, 1)["state"] == "observed", "not lost"
        machine.permit()
        await_mode(machine, wanted)
        assert is_switched(machine, wanted)
        await_holder(machine, agent.pid)
    assert agent.poll() is None, machine.read_log()
    assert machine.host.snapshot() == before
    assert not list((machine.server.paths.agent / "modes").iterdir())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", [CardMode.MIG, CardMode.PASSTHROUGH])
def test_a_switch_outlives_the_agent(machine: ModeMachine, mode: CardMode) -> None:
    machine.start_agent()
    await_ready(machine)
    for wanted in (mode, CardMode.PLAIN):
        steps = machine.count_steps()
        machine.forbid()
        switch(machine, wanted)
        await_step(machine, steps)
        machine.agents[-1].kill()
        machine.agents[-1].wait()
        successor = machine.start_agent()
        until(lambda: "waiting for the end of step" in machine.read_new_log(), "the successor")
        assert list_holders(machine) == []
        machine.permit()
        await_mode(machine, wanted)
        assert machine.count_steps() == steps + 1, "the step ran once"
        assert is_switched(machine, wanted)
        await_holder(machine, successor.pid)


@pytest.mark.parametrize("kills", KILLS)
def test_agents_that_are_killed_at_random_bring_the_switch_to_its_end(
    machine: ModeMachine, kills: int
) -> None:
    moments = random.Random(64)
    machine.permit()
    before = machine.host.snapshot()
    machine.start_agent()
    await_ready(machine)
    for wanted in (CardMode.MIG, CardMode.PLAIN, CardMode.PASSTHROUGH, CardMode.PLAIN):
        switch(machine, wanted)
        for _ in range(kills):
            with contextlib.suppress(subprocess.TimeoutExpired):
                machine.agents[-1].wait(moments.uniform(0.0, 1.5))
            machine.agents[-1].kill()
            machine.agents[-1].wait()
            machine.start_agent()
        await_mode(machine, wanted)
        assert is_switched(machine, wanted)
    assert machine.host.snapshot() == before
    assert machine.read_driver() == "nvidia"
    assert not list((machine.server.paths.agent / "modes").iterdir())
