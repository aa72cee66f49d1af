"""Rigs of MIG: partitions and the switch of the mode, on a stand-in for the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from gpupool.mechanisms.mig.mechanism import MigMechanism
from gpupool.mechanisms.mig.mode_switch import MigModeSwitch
from gpupool.mechanisms.slow_step import StepResult
from tests.support.kill_points import run_killed
from tests.support.kill_rigs.contract import Call, Killer, KillRig, RigBuilder, World
from tests.support.kill_rigs.simulated import LATER, find_problem, read_files
from tests.support.mig_cards import MigHost, build_host, compile_library

#: More changes than any call makes.
_NEVER = 1 << 30


@contextmanager
def open_host(folder: Path) -> Iterator[MigHost]:
    """Two H200 in MIG mode; one such host at a time, since pynvml has one library."""
    library = folder / "driver"
    library.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        yield build_host(folder, compile_library(library), patch)


def make_killers(host: MigHost, state_dir: Path) -> dict[str, Killer]:
    """Kill at changes of files, and before and after each call of the driver that changes a card."""

    def kill_in_driver(number: int, call: Call) -> bool:
        host.state.die_at = number + 1
        killed = run_killed(_NEVER, call)
        host.state.die_at = 0
        return killed

    return {"change": partial(run_killed, below=state_dir), "driver call": kill_in_driver}


def read_world(host: MigHost, folder: Path) -> World:
    """Read the state of both cards, and the agent's files."""
    files = {name: text for name, text in read_files(folder).items() if name.startswith("state/")}
    return {**files, "cards": host.snapshot()}


@contextmanager
def build_mechanism(folder: Path) -> Iterator[KillRig]:
    """A partition on each of two cards, beside one that another tool made."""
    with open_host(folder) as host:
        host.make_foreign("1g.18gb", 0)
        mechanism = MigMechanism(host.driver, host.files, host.run_step)
        view = host.make_view("2g.35gb", "2g.35gb")
        state_dir = folder / "state"
        yield KillRig(
            {
                "prepare": partial(mechanism.prepare, view, state_dir),
                "unprepare": partial(mechanism.unprepare, view.allocation, LATER, state_dir),
            },
            partial(read_world, host, folder),
            make_killers(host, state_dir),
            made_once=("state",),
            find_problem=partial(find_problem, mechanism, state_dir),
        )


def make_switch(*, resetless: bool) -> RigBuilder:
    """Return the builder of a rig of the mode's switch: Hopper's at once, Ampere's by a reset."""

    @contextmanager
    def build(folder: Path) -> Iterator[KillRig]:
        with open_host(folder) as host:
            for card in host.state.cards:
                card.current = card.pending = 0
                card.resetless = int(resetless)

            def reset(folder: Path, name: str, arguments: object, reason: str) -> StepResult:
                host.reset()
                return StepResult(0, "")

            switch = MigModeSwitch(host.driver, host.files, reset)
            device = host.make_device()
            state_dir = folder / "state"
            yield KillRig(
                {
                    "enter": partial(switch.enter, device, state_dir),
                    "leave": partial(switch.leave, device, state_dir),
                },
                partial(read_world, host, folder),
                make_killers(host, state_dir),
                made_once=("state", "state/mig", "state/modes"),
            )

    return build


BUILDERS: dict[str, RigBuilder] = {
    "mechanism mig": build_mechanism,
    "switch mig": make_switch(resetless=True),
    "switch mig: with reset": make_switch(resetless=False),
}
