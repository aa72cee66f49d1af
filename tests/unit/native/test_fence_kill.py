"""Whole programs killed while they take and give back memory: the ledger is what the card says,
soon after."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import gpupool_native
from tests.unit.native.fence_house import MIB, SUCCESS, House, make_house
from tests.unit.native.front_pool import compiler

HERE = Path(__file__).parent
LIMIT = 2048 * MIB
PROGRAMS, ROUNDS = 6, 4


def build(target: Path) -> Path:
    source, driver = HERE / "fence_alloc_storm.c", gpupool_native.simgpu_dir() / "libcuda.so.1"
    command = [
        compiler(),
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        str(source),
    ]
    subprocess.run([*command, str(driver), "-lpthread", "-o", str(target)], check=True)
    return target


def environment(house: House, share: Path) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(share / "stand-in"), "GPUPOOL_SIMGPU": str(house.machine)}


def test_programs_killed_at_any_moment_leave_an_exact_ledger_within_a_tenth_of_a_second(
    tmp_path: Path,
) -> None:
    storm, house, chance = build(tmp_path / "storm"), make_house(tmp_path), random.Random(20261121)
    share = house.share(LIMIT)
    witness = house.program(share)
    assert witness.start() == SUCCESS
    own = house.cards[0].context_bytes
    worked, fastest = 0, 1.0
    for _ in range(ROUNDS):
        command = [str(storm), "60", "2", "0"]
        running = [
            subprocess.Popen(command, env=environment(house, share)) for _ in range(PROGRAMS)
        ]
        while house.used(share).committed_bytes <= own + 2 * own:  # some are at work
            assert running[0].poll() is None
        time.sleep(chance.uniform(0, 0.05))
        worked += house.used(share).committed_bytes > own
        for process in running:
            process.kill()
        for process in running:
            process.wait()
        before = time.monotonic()
        free, total = witness.info()  # whoever asks clears the dead
        fastest = min(fastest, time.monotonic() - before)
        assert total - free == own
        assert house.used(share).reserved_bytes == own == house.truth()
    assert worked == ROUNDS
    assert fastest < 0.1  # the others waited for a core; the bench looks at each
    house.close()


def test_programs_that_end_by_themselves_leave_nothing_and_were_never_refused_by_the_driver(
    tmp_path: Path,
) -> None:
    storm, house = build(tmp_path / "storm"), make_house(tmp_path)
    share = house.share(LIMIT)
    command = [str(storm), "1", "2", "4", "64"]
    running = [
        subprocess.Popen(
            command,
            env=environment(house, share),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    said = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    assert all(stderr == "" for _, stderr in said)
    allocations, refused, wrong, _children = (
        sum(int(stdout.splitlines()[-1].split()[place]) for stdout, _ in said if stdout.strip())
        for place in range(4)
    )
    assert allocations > 100
    assert refused > 0
    assert wrong == 0
    witness = house.program(share)
    assert witness.start() == SUCCESS
    free, total = witness.info()
    assert total - free == house.cards[0].context_bytes == house.truth()
    house.close()
