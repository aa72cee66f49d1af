"""The simulated machine's file, from Python's side: made, read, and made to fail; with real
processes on its cards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.audit.proc_reader import read_start_ns
from gpupool.base.errors import BadMachine
from gpupool.model.device import DeviceHealth, DeviceUsage
from gpupool.probes.contract import EndedProcess
from gpupool.probes.simgpu import SimulatedMachine, create_machine, ensure_machine
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from tests.unit.native.simgpu_model import DEVICE_MEMORY, GIB, MS, User
from tests.unit.probes.simgpu_machine import FIRST, MACHINE, SECOND, T4_CONTEXT


def test_a_machine_that_is_there_is_kept_and_another_one_is_made_anew(path: Path) -> None:
    before = path.stat().st_ino
    assert not ensure_machine(path, MACHINE)
    assert path.stat().st_ino == before
    assert ensure_machine(path, parse_sim("3xT4")[0])
    with SimulatedMachine(path) as other:
        assert len(other.cards) == 3


@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"PSIMMAC1" + b"\xff" * 5000])
def test_a_damaged_file_is_refused_by_readers_and_replaced_by_the_pool(
    path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    if content:
        os.truncate(path, 500 << 20)
    with pytest.raises(BadMachine, match="no simulated machine"):
        SimulatedMachine(path)
    assert ensure_machine(path, MACHINE)
    with SimulatedMachine(path) as made:
        assert len(made.cards) == 2


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
def test_the_time_of_a_process_that_is_gone_is_told_with_its_start(
    machine: SimulatedMachine, program: Path, path: Path, killed: bool
) -> None:
    """A killed one when another process clears its slot away."""
    with User(program, path) as brief:
        brief.ask("context", 0)
        brief.ask("submit", 0, 30 * MS, 2)
        assert brief.ask("wait", 0) == 0
        start = read_start_ns(brief.pid)
        assert machine.list_ended(FIRST, [brief.pid]) == ()
        if killed:
            brief.kill()
        else:
            brief.close()
    with User(program, path) as next_one:
        next_one.ask("context", 0)
        next_one.ask("reap")
        assert machine.list_ended(FIRST, [brief.pid]) == (
            EndedProcess(brief.pid, start or 0, 60 * MS),
        )
    assert machine.list_ended(SECOND, [brief.pid]) == ()
    assert machine.list_ended(FIRST, [brief.pid + 1]) == ()


def test_who_uses_a_card_and_how_much_is_told(machine: SimulatedMachine, user: User) -> None:
    assert user.ask("charge", 0, DEVICE_MEMORY, GIB) != 0, "nothing without a context"
    user.ask("context", 0)
    assert user.ask("charge", 0, DEVICE_MEMORY, GIB) == 0
    user.ask("submit", 0, 30 * MS, 2)
    user.ask("copy", 0, 5 * MS)
    assert user.ask("wait", 0) == 0
    (use,) = machine.list_processes(FIRST)
    assert use.pid == user.pid
    assert use.memory_bytes == GIB + T4_CONTEXT
    assert (use.gpu_ns, use.copy_ns, use.launches) == (60 * MS, 5 * MS, 2)
    assert machine.list_processes(SECOND) == ()
    assert machine.read_busy_ns(FIRST) == 60 * MS


def test_a_process_that_was_killed_is_told_no_more(machine: SimulatedMachine, user: User) -> None:
    user.ask("context", 0)
    user.ask("context", 1)
    assert len(machine.list_processes(FIRST)) == len(machine.list_processes(SECOND)) == 1
    user.kill()
    assert machine.list_processes(FIRST) == machine.list_processes(SECOND) == ()


def test_the_load_is_that_of_a_second_a_little_while_ago(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "virtual"
    create_machine(path, MACHINE, virtual=True)
    with User(program, path) as user, SimulatedMachine(path) as machine:
        user.ask("submit", 0, 600 * MS)
        user.ask("wait", 0)
        assert machine.read_usage(FIRST).utilization_percent == 40, "of the second until 400 ms"
        user.ask("copy", 0, 600 * MS)  # until 1.2 s, and no kernel
        user.ask("wait", 0)
        usage = machine.read_usage(FIRST)
        assert usage.utilization_percent == 60
        assert (usage.power_watts, usage.temperature_celsius) == (46, 57), "10 W idle, 70 W at most"
        assert [p.pid for p in usage.processes or ()] == [user.pid]
        assert machine.read_usage(SECOND).utilization_percent == 0


def test_an_xid_fails_what_runs_on_the_card_and_nothing_on_the_next(
    machine: SimulatedMachine, user: User
) -> None:
    user.ask("context", 0)
    user.ask("context", 1)
    machine.inject_xid(FIRST, 31)
    assert user.ask("submit", 0, MS) == 700
    assert user.ask("submit", 1, MS) == 0
    assert machine.read_condition(FIRST) == (False, False, 31)


def test_an_xid_of_one_process_leaves_its_neighbour_alone(
    machine: SimulatedMachine, program: Path, path: Path, user: User
) -> None:
    user.ask("context", 0)
    with User(program, path) as neighbour:
        neighbour.ask("context", 0)
        machine.inject_xid(FIRST, 13, pid=user.pid)
        assert user.ask("wait", 0) == 719
        assert neighbour.ask("submit", 0, MS) == 0
        assert neighbour.ask("wait", 0) == 0


def test_a_waiting_process_hears_of_a_failure_while_it_waits(
    machine: SimulatedMachine, user: User
) -> None:
    user.ask("context", 0)
    user.ask("submit", 0, 3_600_000 * MS)
    user.say("wait", 0)
    machine.inject_xid(FIRST, 43)
    assert user.line() == "719"


def test_a_lost_card_fails_every_call_until_it_is_healed(
    machine: SimulatedMachine, user: User
) -> None:
    user.ask("context", 0)
    machine.lose_card(FIRST)
    assert user.ask("submit", 0, MS) == 999
    assert user.ask("error", 0) == 999
    assert machine.read_usage(FIRST) == DeviceUsage(), "nothing is known of a card that is gone"
    machine.heal_card(FIRST)
    assert user.ask("error", 0) == 0
    user.ask("close", 0)
    user.ask("context", 0)
    assert user.ask("submit", 0, MS) == 0


def test_more_failures_than_are_remembered_still_reach_the_card(
    machine: SimulatedMachine, user: User
) -> None:
    user.ask("context", 0)
    for _ in range(200):
        machine.inject_ecc(FIRST, corrected=2)
    machine.inject_xid(FIRST, 31)
    assert user.ask("submit", 0, MS) == 700


def test_who_holds_the_lock_is_seen(machine: SimulatedMachine, user: User) -> None:
    assert machine.find_lock_holder() is None
    user.ask("lock")
    assert machine.find_lock_holder() == user.pid


@pytest.fixture
def probe(tmp_path: Path, path: Path) -> Iterator[SimulatedProbe]:
    found = SimulatedProbe(MACHINE, tmp_path, path)
    yield found
    found.close()


def test_a_probe_with_a_machine_file_tells_real_use(probe: SimulatedProbe, user: User) -> None:
    user.ask("context", 0)
    user.ask("charge", 0, DEVICE_MEMORY, GIB)
    usage = probe.observe([FIRST, SECOND, "GPU-none"])
    assert set(usage) == {FIRST, SECOND}
    assert usage[FIRST].memory_used_bytes == GIB + T4_CONTEXT
    (process,) = usage[FIRST].processes or ()
    assert (process.pid, process.uid, process.memory_bytes) == (
        user.pid,
        os.getuid(),
        GIB + T4_CONTEXT,
    )
    assert usage[SECOND].processes == ()


def test_a_probe_whose_machine_file_is_not_made_yet_knows_nothing_of_the_load(
    tmp_path: Path,
) -> None:
    probe = SimulatedProbe(MACHINE, tmp_path, tmp_path / "later")
    assert probe.observe([FIRST]) == {FIRST: DeviceUsage()}
    assert probe.health()[FIRST] == (DeviceHealth.OK, "")
    probe.close()
