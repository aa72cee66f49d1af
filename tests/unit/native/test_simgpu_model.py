"""One simulated machine used by many processes: found, shared, charged, waited for, left by those
who are killed."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.probes import simgpu_layout
from gpupool.probes.contract import Machine
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from tests.unit.native.simgpu_model import DEVICE_MEMORY, GIB, MS, User, compile_user, layout_of_c

MACHINE: Machine = parse_sim("2xT4")[0]
MIB = 1 << 20
CONTEXT = 120 * MIB
MEMORY = 15360 * MIB
INVALID, NO_MEMORY, NOT_THERE, DAMAGED = -22, -12, -2, -71


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_user(tmp_path_factory.mktemp("simgpu") / "simgpu-user")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_machine(tmp_path / "machine", MACHINE)
    return tmp_path / "machine"


@pytest.fixture
def virtual(tmp_path: Path) -> Path:
    create_machine(tmp_path / "virtual", MACHINE, virtual=True)
    return tmp_path / "virtual"


@pytest.fixture
def user(program: Path, path: Path) -> Iterator[User]:
    with User(program, path) as process:
        yield process


STRUCTS: dict[str, tuple[type[Any], dict[str, str]]] = {
    "sim_card": (simgpu_layout.SimCard, {}),
    "sim_fault": (simgpu_layout.SimFault, {}),
    "sim_ended": (simgpu_layout.SimEnded, {}),
    "sim_header": (simgpu_layout.SimHeader, {}),
    "sim_process": (simgpu_layout.SimProcess, {}),
    "engine_sample": (simgpu_layout.SimSample, {}),
    "engine_context": (simgpu_layout.SimContext, {}),
    "engine_card": (simgpu_layout.SimEngineCard, {}),
    "engine": (
        simgpu_layout.SimEngine,
        {f: f"config.{f}" for f in ("mode", "cards", "slice_ns", "switch_ns")},
    ),
    "sim_machine": (simgpu_layout.MachineFile, {}),
}


def test_python_and_c_agree_on_every_field(tmp_path: Path) -> None:
    python, wanted = {}, {}
    for struct, (layout, renamed) in STRUCTS.items():
        fields = {name: renamed.get(name, name) for name, *_ in layout._fields_}
        wanted[struct] = (layout.__name__, tuple(fields.values()))
        python[struct] = ctypes.sizeof(layout)
        python |= {f"{struct}.{c}": getattr(layout, name).offset for name, c in fields.items()}
    assert layout_of_c(tmp_path, wanted) == python


# --- where it is ---


def test_the_machine_is_found_by_the_variable(program: Path, path: Path) -> None:
    with User(program, "", env={"GPUPOOL_SIMGPU": str(path)}) as user:
        assert (user.opened, user.ask("cards")) == (0, 2)


def test_a_machine_that_is_not_there_or_is_none_says_which(program: Path, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"PSIMMAC1")
    for content, answer in (("none", NOT_THERE), ("short", DAMAGED)):
        with User(program, tmp_path / content) as user:
            assert user.opened == answer
    with User(program, "", env={"GPUPOOL_SIMGPU": str(tmp_path / "none")}) as user:
        assert user.opened == NOT_THERE


def test_a_process_sees_only_the_cards_listed_beside_the_machine(
    program: Path, tmp_path: Path
) -> None:
    path, devices = tmp_path / "simgpu" / "machine", tmp_path / "share" / "devices"
    create_machine(path, MACHINE)
    devices.parent.mkdir()
    devices.write_text(f"{MACHINE.devices[1].uuid.upper()}\n")
    with User(program, path) as user:
        assert user.ask("cards") == 1
    devices.write_text("")
    with User(program, path) as user:
        assert user.ask("cards") == 0


# --- memory ---


def test_memory_is_the_cards_and_refused_beyond_it(user: User) -> None:
    user.ask("context", 0)
    assert user.ask("free", 0) == MEMORY - CONTEXT
    assert user.ask("charge", 0, DEVICE_MEMORY, MEMORY - CONTEXT) == 0
    assert user.ask("charge", 0, DEVICE_MEMORY, 1) == NO_MEMORY
    user.ask("uncharge", 0, DEVICE_MEMORY, GIB)
    assert user.ask("free", 0) == GIB
    assert user.ask("charge", 9, DEVICE_MEMORY, 1) == INVALID


def test_processes_filling_one_card_at_once_get_all_of_it_and_not_a_byte_more(
    program: Path, path: Path
) -> None:
    users = [User(program, path) for _ in range(4)]
    for user in users:
        user.ask("context", 0)
    for user in users:
        user.say("fill", 0, MIB)
    got = sum(int(user.line()) for user in users)
    assert got == (MEMORY - 4 * CONTEXT) // MIB
    assert users[0].ask("free", 0) == 0
    for user in users:
        assert user.close() == 0
    with User(program, path) as user:
        assert user.ask("free", 0) == MEMORY


def test_the_memory_of_a_killed_process_is_there_for_who_needs_it(
    program: Path, path: Path, user: User
) -> None:
    with User(program, path) as doomed:
        doomed.ask("context", 0)
        doomed.ask("charge", 0, DEVICE_MEMORY, MEMORY - CONTEXT)
        user.ask("attach", 0)
        assert user.ask("charge", 0, DEVICE_MEMORY, GIB) == NO_MEMORY
        doomed.kill()
        assert user.ask("charge", 0, DEVICE_MEMORY, MEMORY) == 0


def test_a_forked_child_has_nothing_of_its_parents_and_takes_nothing_away(
    program: Path, path: Path
) -> None:
    with User(program, path) as user:
        user.ask("context", 0)
        assert user.ask("fork") == 0, "the child has no slot, and gets one of its own"
        assert user.ask("free", 0) == MEMORY - CONTEXT
        with SimulatedMachine(path) as machine:
            assert [use.pid for use in machine.list_processes(MACHINE.devices[0].uuid)] == [
                user.pid
            ]
        children = Path(f"/proc/{user.pid}/task/{user.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        assert user.ask("free", 0) == MEMORY - CONTEXT


def test_a_program_that_executes_another_starts_with_nothing(
    program: Path, path: Path, user: User
) -> None:
    user.ask("context", 0)
    user.ask("charge", 0, DEVICE_MEMORY, GIB)
    assert user.ask("exec") == 0, "opened anew"
    user.ask("context", 0)
    assert user.ask("free", 0) == MEMORY - CONTEXT


# --- time ---


def test_work_takes_its_time_on_the_real_clock(user: User) -> None:
    user.ask("context", 0)
    before = user.ask("now")
    user.ask("submit", 0, 20 * MS, 3)
    assert user.ask("wait", 0) == 0
    assert user.ask("now") - before >= 60 * MS


def test_a_full_queue_holds_the_submitter_back_and_loses_nothing(
    virtual: Path, program: Path
) -> None:
    with User(program, virtual) as user:
        user.ask("context", 0)
        assert user.ask("submit", 0, MS, 3000) == 0
        assert user.ask("now") == (3000 - 1024) * MS
        assert user.ask("wait", 0) == 0
        assert user.ask("now") == 3000 * MS


def test_on_the_virtual_clock_an_hour_of_work_is_over_at_once(virtual: Path, program: Path) -> None:
    started = time.monotonic()
    with User(program, virtual) as user:
        user.ask("submit", 0, 3_600_000 * MS)
        user.ask("wait", 0)
        assert user.ask("now") == 3_600_000 * MS
    assert time.monotonic() - started < 60


def test_asking_again_and_again_passes_virtual_time_too(virtual: Path, program: Path) -> None:
    with User(program, virtual) as user:
        user.ask("submit", 0, 5 * MS, 2)
        assert user.ask("poll", 0) == 0
        assert user.ask("now") == 10 * MS


def test_processes_on_the_virtual_clock_share_the_card_exactly(
    virtual: Path, program: Path
) -> None:
    with User(program, virtual) as a, User(program, virtual) as b:
        for user in (a, b):
            user.ask("context", 0)
            user.ask("submit", 0, 100 * MS)
        for user in (a, b):
            user.say("wait", 0)
        assert (a.line(), b.line()) == ("0", "0")
        assert a.ask("now") == 200 * MS
        with SimulatedMachine(virtual) as machine:
            uses = machine.list_processes(MACHINE.devices[0].uuid)
            assert [use.gpu_ns for use in uses] == [100 * MS, 100 * MS]


def test_a_process_that_sleeps_elsewhere_does_not_stop_the_virtual_clock(
    virtual: Path, program: Path
) -> None:
    with User(program, virtual) as idle, User(program, virtual) as user:
        idle.ask("context", 0)
        user.ask("submit", 0, 50 * MS)
        assert user.ask("wait", 0) == 0
        assert user.ask("now") == 50 * MS


def test_threads_of_one_process_wait_side_by_side(virtual: Path, path: Path, program: Path) -> None:
    for machine in (virtual, path):
        with User(program, machine) as user:
            user.ask("context", 0)
            user.ask("submit", 0, 2 * MS, 10)
            assert user.ask("threads", 8) == 0


@pytest.mark.parametrize("clock", ["path", "virtual"])
def test_host_callbacks_are_run_between_what_was_before_and_after_them(
    clock: str, program: Path, request: pytest.FixtureRequest
) -> None:
    with User(program, request.getfixturevalue(clock)) as user:
        before = user.ask("now")
        assert user.ask("host", 0, 5 * MS) == 0
        assert user.ask("now") - before >= 10 * MS


def test_a_neighbour_that_is_killed_leaves_the_card_to_the_others(
    program: Path, path: Path, user: User
) -> None:
    user.ask("context", 0)
    with User(program, path) as hog:
        hog.ask("submit", 0, 3_600_000 * MS)
        hog.kill()
    user.ask("submit", 0, 200 * MS)
    assert user.ask("wait", 0) == 0
    assert user.ask("reap") == 0, "who waited has cleared the dead process's work away"


# --- killed inside ---


def test_a_process_killed_with_the_lock_stops_nobody_for_long(
    program: Path, path: Path, user: User
) -> None:
    user.ask("context", 0)
    with User(program, path) as holder:
        holder.ask("lock")
        user.say("touch")
        holder.kill()
        started = time.monotonic()
        assert user.line() == "0"
        assert time.monotonic() - started < 5
    assert user.ask("repairs") == 1
    assert user.ask("submit", 0, MS) == user.ask("wait", 0) == 0


def test_processes_killed_anywhere_leave_a_machine_that_works(program: Path, path: Path) -> None:
    with User(program, path) as survivor:
        survivor.ask("context", 1)
        for round_number in range(25):
            storms = [User(program, path) for _ in range(3)]
            for storm in storms:
                storm.ask("storm")
            survivor.ask("submit", 1, 10_000, 20 + 7 * round_number)
            for storm in storms:
                storm.kill()
            survivor.say("check")
            assert survivor.line() == "0"
            survivor.ask("reap")
            assert survivor.ask("free", 0) == MEMORY
        assert survivor.ask("wait", 1) == 0
        survivor.ask("submit", 0, MS)
        assert survivor.ask("wait", 0) == 0, "nobody's work is left on the card"


def test_threads_and_processes_are_clean_under_the_thread_sanitizer(
    tmp_path: Path, path: Path
) -> None:
    watched = compile_user(tmp_path / "tsan-user", "-fsanitize=thread")
    env = {"TSAN_OPTIONS": "halt_on_error=1 exitcode=66"}
    with User(watched, path, env=env) as user:
        user.ask("context", 0)
        user.ask("submit", 0, 100_000, 50)
        assert user.ask("threads", 8) == 0
        assert user.ask("host", 0, MS) == 0
        assert user.close() == 0


def test_memory_is_used_cleanly_under_the_address_sanitizer(tmp_path: Path, path: Path) -> None:
    watched = compile_user(
        tmp_path / "asan-user", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
    )
    with User(watched, path) as user:
        for words in (
            ("context", 0),
            ("submit", 0, 1000, 2000),
            ("wait", 0),
            ("fill", 0, GIB),
            ("close", 0),
            ("reap",),
        ):
            user.ask(*words)
        user.ask("inject", 0, 31, 700, 0, 1)
        user.ask("context", 0)
        assert user.close() == 0


@pytest.mark.root
def test_processes_of_another_pid_namespace_are_neither_given_up_nor_robbed(
    program: Path, path: Path, user: User
) -> None:
    user.ask("context", 0)
    inside = Path(program.parent / "inside")
    inside.write_text(f'#!/bin/sh\nexec unshare --pid --fork --kill-child {program} "$@"\n')
    inside.chmod(0o755)
    with User(inside, path) as foreign:
        foreign.ask("context", 0)
        assert foreign.ask("charge", 0, DEVICE_MEMORY, GIB) == 0
        assert user.ask("reap") == foreign.ask("reap") == 0
        assert user.ask("free", 0) == MEMORY - 2 * CONTEXT - GIB
        foreign.ask("lock")
        user.say("touch")
        time.sleep(0.1)  # much longer than it takes to look after a holder that is gone
        foreign.say("unlock")
        assert (foreign.line(), user.line()) == ("0", "0")
        assert user.ask("repairs") == 0, "the lock was waited for, not taken"
