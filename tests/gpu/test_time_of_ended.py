"""GPU time of an ended process: NVML's accounting mode beside what the program counted, alone on
its card."""

from __future__ import annotations

import json

import pytest

from gpupool.audit.ended_processes import START_TOLERANCE_NS
from gpupool.audit.proc_reader import read_start_ns
from gpupool.probes.contract import EndedProcess
from gpupool.probes.nvml import NvmlProbe
from tests.gpu.conftest import RealCardPool
from tests.gpu.test_shares import BURN, of

#: Points of the process's life. NVML tells whole percents; its error on hardware is what this test
#: is to find out.
TOLERANCE = 10
SECONDS = 20


def the_one_process(pool: RealCardPool, name: str) -> int | None:
    """The pid of the job's process on the card; None until the fence knows it."""
    pids = [one["pid"] for one in (pool.job(name).get("use") or {}).get("processes", ())]
    return pids[0] if len(pids) == 1 else None


def ended(probe: NvmlProbe, uuid: str, pid: int) -> EndedProcess | None:
    return next(iter(probe.ended_times([uuid], [pid])[uuid].processes), None)


def test_accounting_and_the_program_agree_on_a_process_that_has_ended(pool: RealCardPool) -> None:
    probe, uuid = NvmlProbe(), str(pool.card["uuid"])
    if reason := probe.ended_times([uuid], [])[uuid].reason:
        pytest.skip(f"this card tells of no ended process: {reason}")
    words = (*BURN, "--seconds", str(SECONDS))
    pool.do("submit", "--name", "ended", "--gpu", "0.5", "--memory", "4GiB", "--", *words)
    pool.until_state("ended", "running")
    pid = pool.until(lambda: the_one_process(pool, "ended"), "the fence knows the process")
    began = read_start_ns(pid)
    assert began is not None
    pool.until_state("ended", "done")
    told = pool.until(lambda: ended(probe, uuid, pid), "the card tells of the process")
    probe.close()
    lines = [json.loads(line) for line in pool.do("logs", "ended").splitlines()]
    own_ns = of(lines, "end")["rate"] * SECONDS * 10**9
    apart = 100 * (told.gpu_ns - own_ns) / (SECONDS * 10**9)
    print(
        f"accounting is {apart:+.1f} points from the program; starts {(told.start_ns - began) / 1e6:+.0f} ms apart"
    )
    assert abs(told.start_ns - began) < START_TOLERANCE_NS
    assert abs(apart) <= TOLERANCE
