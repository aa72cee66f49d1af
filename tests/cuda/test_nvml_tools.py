"""gpustat and nvitop from PyPI, unchanged: the simulated machine outside of a share, the share
inside one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.cuda.conftest import Cards
from tests.cuda.jobs import CONTEXT, GIB, document, neighbour
from tests.cuda.test_alone import MIB, PROGRAMS
from tests.e2e.pool_fixture import RealPool
from tests.support import cuda_programs


def test_memory_of_a_program_ends_with_it_and_is_seen_by_gpustat_meanwhile(
    cards: Cards, python: Path
) -> None:
    holder = cards.start([python, PROGRAMS / "driver_calls.py", "hold", str(3000 * MIB)])
    try:
        assert holder.stdout is not None
        pid = json.loads(holder.stdout.readline())["pid"]
        card = gpustat(cards)[0]
        assert [process["pid"] for process in card["processes"]] == [pid]
        assert 3000 <= card["processes"][0]["gpu_memory_usage"] < 4000
        assert card["memory.used"] >= 3000
    finally:
        holder.kill()
        holder.communicate(timeout=30)
    after = gpustat(cards)[0]
    assert after["processes"] == []
    assert after["memory.used"] < 3000


def gpustat(cards: Cards) -> list[dict[str, Any]]:
    done = cards.run([cuda_programs.program("gpustat"), "--json"])
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["gpus"]
    return found


def test_gpustat_shows_the_machine(cards: Cards) -> None:
    with cards.look() as machine:
        expected = [(card.index, card.name, card.memory_bytes // MIB) for card in machine.cards]
    assert [(c["index"], c["name"], c["memory.total"]) for c in gpustat(cards)] == expected


def test_nvitop_shows_the_machine_and_its_processes(
    cards: Cards, python: Path, features: Path
) -> None:
    holder = cards.start([features, "hold", str(2000 * MIB)])
    try:
        assert holder.stdout is not None
        pid = json.loads(holder.stdout.readline())["pid"]
        wide = {"COLUMNS": "140", "LINES": "60", "TERM": "xterm"}
        shown = cards.run([cuda_programs.program("nvitop"), "--once"], wide)
    finally:
        holder.communicate(timeout=30)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("/ 44.99GiB") == 2
    assert any(
        str(pid) in line and os.path.basename(features)[:8] in line
        for line in shown.stdout.splitlines()
    )


def test_gpustat_shows_the_share_and_the_tenants_own_process_alone(
    pool: RealPool, python: Path, features: Path
) -> None:
    words = [python, PROGRAMS / "beside.py", features, "hold", str(2 * GIB), "--"]
    with neighbour(pool, features, 4 * GIB, "--gpu", "0.3", "--memory", "8GiB") as other:
        found = document(pool, *words, cuda_programs.program("gpustat"), "--json")
    assert found["status"] == 0, found["errors"]
    (card,) = json.loads(found["printed"])["gpus"]
    assert card["memory.total"] == 8192
    assert 2048 <= card["memory.used"] < 2048 + CONTEXT // MIB
    assert [process["pid"] for process in card["processes"]] == [found["said"]["pid"]]
    assert other != found["said"]["pid"]


def test_nvitop_shows_the_share_and_the_tenants_own_process_alone(
    pool: RealPool, python: Path, features: Path
) -> None:
    words = [python, PROGRAMS / "beside.py", features, "hold", str(2 * GIB), "--"]
    wide = ("env", "COLUMNS=140", "LINES=60", "TERM=xterm")
    with neighbour(pool, features, 4 * GIB, "--gpu", "0.3", "--memory", "8GiB") as other:
        found = document(pool, *words, *wide, cuda_programs.program("nvitop"), "--once")
    assert found["status"] == 0, found["errors"]
    pids = {
        word
        for line in found["printed"].splitlines()
        if "features" in line
        for word in line.split()
    }
    assert str(found["said"]["pid"]) in pids
    assert str(other) not in pids
    assert "/ 8192MiB" in found["printed"] or "/ 8.00GiB" in found["printed"]
