"""The simulated machine's file, from Python's side: made, read, and made to fail; with real processes on its cards."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.audit.process_look import start_ns
from gpupool.base.errors import BadMachine
from gpupool.model.device import DeviceUsage, Health
from gpupool.probes.contract import EndedProcess, HealthEvent, Machine
from gpupool.probes.simgpu import SimulatedMachine, create_machine, ensure_machine, stop_without_lock
from gpupool.probes.simulated import SimulatedProbe, parse_sim, set_health
from tests.unit.native.simgpu_model import DEVICE_MEMORY, GIB, MS, User, compile_user

MACHINE: Machine = parse_sim("2xT4")[0]
FIRST, SECOND = (device.uuid for device in MACHINE.devices)
T4_CONTEXT = 120 << 20


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_user(tmp_path_factory.mktemp("simgpu") / "simgpu-user")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_machine(tmp_path / "simgpu" / "machine", MACHINE)
    return tmp_path / "simgpu" / "machine"


@pytest.fixture
def machine(path: Path) -> Iterator[SimulatedMachine]:
    with SimulatedMachine(path) as opened:
        yield opened


@pytest.fixture
def user(program: Path, path: Path) -> Iterator[User]:
    with User(program, path) as process:
        yield process


def test_a_machine_file_has_the_machines_cards_with_their_costs(machine: SimulatedMachine) -> None:
    assert [card.uuid for card in machine.cards] == [FIRST, SECOND]
    card = machine.cards[0]
    assert (card.name, card.memory_bytes) == ("Tesla T4", 15360 << 20)
    assert (card.context_bytes, card.granule_bytes) == (T4_CONTEXT, 2 << 20)


def test_the_file_is_for_every_user_of_the_pool_and_takes_almost_no_room(path: Path) -> None:
    about = path.stat()
    assert stat.S_IMODE(about.st_mode) == 0o666
    assert about.st_blocks * 512 < 1 << 20


def test_a_machine_that_is_there_is_kept_and_another_one_is_made_anew(path: Path) -> None:
    before = path.stat().st_ino
    assert not ensure_machine(path, MACHINE)
    assert path.stat().st_ino == before
    assert ensure_machine(path, parse_sim("3xT4")[0])
    with SimulatedMachine(path) as other:
        assert len(other.cards) == 3


@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"PSIMMAC1" + b"\xff" * 5000])
def test_a_damaged_file_is_refused_by_readers_and_replaced_by_the_pool(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    if content:
        os.truncate(path, 500 << 20)
    with pytest.raises(BadMachine, match="no simulated machine"):
        SimulatedMachine(path)
    assert ensure_machine(path, MACHINE)
    with SimulatedMachine(path) as made:
        assert len(made.cards) == 2


def test_every_machine_that_people_can_ask_for_can_be_made(tmp_path: Path) -> None:
    for spec in ("128xT4", "MI300X", "8xH200", "mixed", "two-nodes"):
        for number, machine in enumerate(parse_sim(spec)):
            create_machine(tmp_path / f"{spec}-{number}", machine)
            with SimulatedMachine(tmp_path / f"{spec}-{number}") as made:
                assert [c.uuid for c in made.cards] == [d.uuid for d in machine.devices]
                assert [c.memory_bytes for c in made.cards] == [d.memory_bytes for d in machine.devices]


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
def test_the_time_of_a_process_that_is_gone_is_told_with_its_start(
    machine: SimulatedMachine, program: Path, path: Path, killed: bool
) -> None:
    """A killed one when another process clears its slot away."""
    with User(program, path) as brief:
        brief.ask("context", 0)
        brief.ask("submit", 0, 30 * MS, 2)
        assert brief.ask("wait", 0) == 0
        start = start_ns(brief.pid)
        assert machine.ended(FIRST, [brief.pid]) == ()
        if killed:
            brief.kill()
        else:
            brief.close()
    with User(program, path) as next_one:
        next_one.ask("context", 0)
        next_one.ask("reap")
        assert machine.ended(FIRST, [brief.pid]) == (EndedProcess(brief.pid, start or 0, 60 * MS),)
    assert machine.ended(SECOND, [brief.pid]) == ()
    assert machine.ended(FIRST, [brief.pid + 1]) == ()


def test_who_uses_a_card_and_how_much_is_told(machine: SimulatedMachine, user: User) -> None:
    assert user.ask("charge", 0, DEVICE_MEMORY, GIB) != 0, "nothing without a context"
    user.ask("context", 0)
    assert user.ask("charge", 0, DEVICE_MEMORY, GIB) == 0
    user.ask("submit", 0, 30 * MS, 2)
    user.ask("copy", 0, 5 * MS)
    assert user.ask("wait", 0) == 0
    (use,) = machine.processes(FIRST)
    assert use.pid == user.pid
    assert use.memory_bytes == GIB + T4_CONTEXT
    assert (use.gpu_ns, use.copy_ns, use.launches) == (60 * MS, 5 * MS, 2)
    assert machine.processes(SECOND) == ()
    assert machine.busy_ns(FIRST) == 60 * MS


def test_a_process_that_was_killed_is_told_no_more(machine: SimulatedMachine, user: User) -> None:
    user.ask("context", 0)
    user.ask("context", 1)
    assert len(machine.processes(FIRST)) == len(machine.processes(SECOND)) == 1
    user.kill()
    assert machine.processes(FIRST) == machine.processes(SECOND) == ()


def test_the_load_is_that_of_a_second_a_little_while_ago(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "virtual"
    create_machine(path, MACHINE, virtual=True)
    with User(program, path) as user, SimulatedMachine(path) as machine:
        user.ask("submit", 0, 600 * MS)
        user.ask("wait", 0)
        assert machine.usage(FIRST).utilization_percent == 40, "of the second until 400 ms"
        user.ask("copy", 0, 600 * MS)  # until 1.2 s, and no kernel
        user.ask("wait", 0)
        usage = machine.usage(FIRST)
        assert usage.utilization_percent == 60
        assert (usage.power_watts, usage.temperature_celsius) == (46, 57), "10 W idle, 70 W at most"
        assert [p.pid for p in usage.processes or ()] == [user.pid]
        assert machine.usage(SECOND).utilization_percent == 0


def test_an_xid_fails_what_runs_on_the_card_and_nothing_on_the_next(machine: SimulatedMachine, user: User) -> None:
    user.ask("context", 0)
    user.ask("context", 1)
    machine.inject_xid(FIRST, 31)
    assert user.ask("submit", 0, MS) == 700
    assert user.ask("submit", 1, MS) == 0
    assert machine.condition(FIRST) == (False, False, 31)


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


def test_a_waiting_process_hears_of_a_failure_while_it_waits(machine: SimulatedMachine, user: User) -> None:
    user.ask("context", 0)
    user.ask("submit", 0, 3_600_000 * MS)
    user.say("wait", 0)
    machine.inject_xid(FIRST, 43)
    assert user.line() == "719"


def test_a_lost_card_fails_every_call_until_it_is_healed(machine: SimulatedMachine, user: User) -> None:
    user.ask("context", 0)
    machine.lose(FIRST)
    assert user.ask("submit", 0, MS) == 999
    assert user.ask("error", 0) == 999
    assert machine.usage(FIRST) == DeviceUsage(), "nothing is known of a card that is gone"
    machine.heal(FIRST)
    assert user.ask("error", 0) == 0
    user.ask("close", 0)
    user.ask("context", 0)
    assert user.ask("submit", 0, MS) == 0


def test_more_failures_than_are_remembered_still_reach_the_card(machine: SimulatedMachine, user: User) -> None:
    user.ask("context", 0)
    for _ in range(200):
        machine.inject_ecc(FIRST, corrected=2)
    machine.inject_xid(FIRST, 31)
    assert user.ask("submit", 0, MS) == 700


def test_who_holds_the_lock_is_seen(machine: SimulatedMachine, user: User) -> None:
    assert machine.lock_holder() is None
    user.ask("lock")
    assert machine.lock_holder() == user.pid


def test_a_process_stopped_inside_the_lock_is_let_out_of_it_and_holds_up_nobody(
    machine: SimulatedMachine, program: Path, path: Path, user: User
) -> None:
    user.ask("context", 1)
    with User(program, path) as stopped:
        stopped.ask("lock")
        os.kill(stopped.pid, signal.SIGSTOP)
        stopped.say("unlock")
        assert stop_without_lock(machine, [user.process.pid + 1_000_000, stopped.pid]) == 1
        assert machine.lock_holder() is None
        assert user.ask("submit", 1, 1000) == user.ask("wait", 1) == 0
        assert Path(f"/proc/{stopped.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "still stopped"
        assert stop_without_lock(machine, [stopped.pid]) == 0


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
    assert (process.pid, process.uid, process.memory_bytes) == (user.pid, os.getuid(), GIB + T4_CONTEXT)
    assert usage[SECOND].processes == ()


def test_a_probe_whose_machine_file_is_not_made_yet_knows_nothing_of_the_load(tmp_path: Path) -> None:
    probe = SimulatedProbe(MACHINE, tmp_path, tmp_path / "later")
    assert probe.observe([FIRST]) == {FIRST: DeviceUsage()}
    assert probe.health()[FIRST] == (Health.OK, "")
    probe.close()


def test_health_set_for_the_probe_reaches_the_programs_once(
    probe: SimulatedProbe, machine: SimulatedMachine, tmp_path: Path, user: User
) -> None:
    user.ask("context", 0)
    user.ask("context", 1)
    set_health(tmp_path, FIRST, Health.FAILED, "fell off the bus", xid=79)
    set_health(tmp_path, 1, Health.FAILED, "memory", xid=48)
    probe.health()
    assert machine.condition(FIRST) == (True, False, 79)
    assert machine.condition(SECOND) == (False, True, 48)
    assert (user.ask("submit", 0, MS), user.ask("submit", 1, MS)) == (999, 214)
    user.ask("close", 1)
    user.say("context", 1)
    assert user.line().startswith("context 46 "), "a card that needs a reset takes no new work"
    set_health(tmp_path, FIRST, Health.OK)
    set_health(tmp_path, SECOND, Health.OK)
    probe.health()
    assert machine.condition(FIRST)[:2] == machine.condition(SECOND)[:2] == (False, False)
    assert user.ask("context", 1) >= 0


def test_a_card_made_to_fail_in_its_file_is_an_event_for_the_probe(
    probe: SimulatedProbe, machine: SimulatedMachine
) -> None:
    assert probe.wait_events(0) == ()
    machine.lose(SECOND)
    assert probe.wait_events(0) == (HealthEvent(SECOND, Health.FAILED, "fell off the bus (XID 79)", 79),)
    assert probe.health()[SECOND][0] is Health.FAILED
    machine.heal(SECOND)
    assert probe.wait_events(0) == (HealthEvent(SECOND, Health.OK, ""),)


def test_a_file_that_is_cut_short_while_it_is_open_is_an_answer_and_no_crash(
    path: Path, machine: SimulatedMachine
) -> None:
    os.truncate(path, 8192)
    with pytest.raises(BadMachine, match="is cut short"):
        machine.busy_ns(FIRST)
