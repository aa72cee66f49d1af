"""A simulated machine's file as it is created."""

from __future__ import annotations

import stat
from pathlib import Path

from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from tests.unit.probes.simgpu_machine import FIRST, SECOND, T4_CONTEXT


def test_a_machine_file_has_the_machines_cards_with_their_costs(machine: SimulatedMachine) -> None:
    assert [card.uuid for card in machine.cards] == [FIRST, SECOND]
    card = machine.cards[0]
    assert (card.name, card.memory_bytes) == ("Tesla T4", 15360 << 20)
    assert (card.context_bytes, card.granule_bytes) == (T4_CONTEXT, 2 << 20)


def test_the_file_is_for_every_user_of_the_pool_and_takes_almost_no_room(path: Path) -> None:
    about = path.stat()
    assert stat.S_IMODE(about.st_mode) == 0o666
    assert about.st_blocks * 512 < 1 << 20


def test_every_machine_that_people_can_ask_for_can_be_made(tmp_path: Path) -> None:
    for spec in ("128xT4", "MI300X", "8xH200", "mixed", "two-nodes"):
        for number, machine in enumerate(parse_sim(spec)):
            create_machine(tmp_path / f"{spec}-{number}", machine)
            with SimulatedMachine(tmp_path / f"{spec}-{number}") as made:
                assert [c.uuid for c in made.cards] == [d.uuid for d in machine.devices]
                assert [c.memory_bytes for c in made.cards] == [
                    d.memory_bytes for d in machine.devices
                ]
