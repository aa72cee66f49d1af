"""A share with the driver's memory limit, under the real supervisor and the real fence.

The job's program calls the simulated driver by its own path, past the fence, as a tenant would.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.monitoring.fence_counters import read_fence_usage, sum_used_bytes
from gpupool.agent.supervisor.client import BindMount
from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat, PreparedAllocation
from gpupool.mechanisms.fence_survey import can_mount
from gpupool.mechanisms.layers.memgroup import compute_hard_bytes
from gpupool.mechanisms.preparation import prepare_allocation, unprepare_allocation
from gpupool.mechanisms.registry import MECHANISMS
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from gpupool_native import simgpu_dir
from tests.support.job_cgroups import open_pool_group
from tests.support.supervised import ENVIRONMENT, Jobs, supervised_jobs

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not can_mount(), reason="private mounts are not possible here"),
]

MIB = 1 << 20
NOBODY = 65534
NO_PERMISSION = 4  # NVML_ERROR_NO_PERMISSION
TENANT = Path(__file__).with_name("memgroup_tenant.c")
SHARE = 2048 * MIB
PROGRAM = """
import os, sys
from ctypes import *
cuda = CDLL(sys.argv[1])
def check(code):
    assert code == 0, code
def fill():
    device, context, place = c_int(), c_void_p(), c_uint64()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    total = 0
    for block in (64 << 20, 2 << 20):
        while (code := cuda.cuMemAlloc_v2(byref(place), c_size_t(block))) == 0:
            total += block
        assert code == 2, code
    return total
"""
ALONE = PROGRAM + "print(fill())"
HOLDS = (
    PROGRAM
    + """
total = fill()
with open(sys.argv[2], "w") as full:
    full.write("full")
with open(sys.argv[3]) as end:
    end.read()
print(total)
"""
)
BESIDE = (
    PROGRAM
    + """
mine = fill()
if os.spawnv(os.P_WAIT, sys.executable, [sys.executable, *sys.argv[2:]]) == 0:
    sys.exit("another process of the job got memory as well")
print(mine)
"""
)


@pytest.fixture
def view(tmp_path: Path) -> Iterator[AllocationView]:
    create_machine(tmp_path / "cards/machine", parse_sim("1xL40S")[0])
    with SimulatedMachine(tmp_path / "cards/machine") as machine:
        card = machine.cards[0]
    device = replace(parse_sim("1xL40S")[0].devices[0], driver_version="615.71.09")
    grant = GrantedDevice(device, 300, SHARE, card.context_bytes, card.granule_bytes)
    with open_pool_group() as pool:
        yield AllocationView(
            pool="pool",
            allocation="al-1",
            generation=1,
            job="job-1",
            tenant="team",
            sharing="fixed",
            granted=(grant,),
            node_devices=(device,),
            seat=JobSeat(),
            machine=tmp_path / "cards",
            cgroups=(str(pool / "job-1"),),
        )


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    (tmp_path / "jobs").mkdir()
    yield from supervised_jobs(tmp_path / "jobs")


def run(
    jobs: Jobs, view: AllocationView, prepared: PreparedAllocation, *words: str, **fields: Any
) -> list[str]:
    """Run a program as the allocation's job; the lines that it prints."""
    binds = [BindMount(str(one.source), one.target, one.writable) for one in prepared.mounts]
    record, output = jobs.run(
        *words,
        environment={**ENVIRONMENT, **prepared.env},
        share_directory=str(prepared.share_dir),
        share_mount="/run/gpupool/share",
        binds=tuple(binds),
        cgroups=view.cgroups,
        **fields,
    )
    assert record.exit_code == 0, output.decode()
    return output.decode().splitlines()


def fill(jobs: Jobs, view: AllocationView, prepared: PreparedAllocation, *words: str) -> int:
    """Run a Python program as the allocation's job; the number that it prints last."""
    return int(run(jobs, view, prepared, sys.executable, "-c", *words)[-1])


def test_a_job_past_the_fence_gets_not_a_byte_above_the_limit(
    jobs: Jobs, view: AllocationView, tmp_path: Path
) -> None:
    fence = MECHANISMS["fence"]
    prepared = prepare_allocation(fence, view, tmp_path / "state")
    assert isinstance(prepared, PreparedAllocation)
    context = view.granted[0].context_bytes
    assert context is not None
    hard = compute_hard_bytes(view.granted[0], tmp_path / "state")
    driver = str(simgpu_dir() / "libcuda.so.1")

    without = replace(view, allocation="al-0", cgroups=(f"{view.cgroups[0]}-without",))
    bare = fence.prepare(without, tmp_path / "state")
    assert isinstance(bare, PreparedAllocation)
    assert fill(jobs, without, bare, ALONE, driver) > 10 * hard

    honest = fill(jobs, view, prepared, ALONE, "libcuda.so.1")
    assert honest == SHARE - context
    # The supervisor removes the job's cgroup at its end, and the limit goes with it.
    assert not Path(view.cgroups[0]).exists()

    prepared_again = prepare_allocation(fence, view, tmp_path / "state")
    assert prepared_again == prepared
    around = fill(jobs, view, prepared, BESIDE, driver, "-c", ALONE, driver)
    assert around == hard - context == SHARE

    unprepare_allocation(fence, "al-1", 1, tmp_path / "state")
    assert not (tmp_path / "state/prepared/al-1").exists()
    assert (tmp_path / "cards/machine.limits").read_text() == "gpupool memory limits 1\n"


def test_meter_of_a_job_past_the_fence_is_what_the_driver_counts(
    jobs: Jobs, view: AllocationView, tmp_path: Path
) -> None:
    fence = MECHANISMS["fence"]
    prepared = prepare_allocation(fence, view, tmp_path / "state")
    assert isinstance(prepared, PreparedAllocation)
    full = tmp_path / "full"
    end = tmp_path / "end"
    os.mkfifo(full)
    os.mkfifo(end)
    words = (HOLDS, str(simgpu_dir() / "libcuda.so.1"), str(full), str(end))
    with ThreadPoolExecutor(1) as others:
        running = others.submit(fill, jobs, view, prepared, *words)
        assert full.read_text() == "full"
        usage = read_fence_usage("al-1", tmp_path / "state")
        end.write_text("end")
        running.result()
    assert usage is not None
    hard = compute_hard_bytes(view.granted[0], tmp_path / "state")
    (counted,) = usage.sum_totals().values()
    assert (counted.committed_bytes, sum_used_bytes(usage)) == (0, hard)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory of the tenant's own, which it can reach, with its copies of the libraries."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
            shutil.copy(simgpu_dir() / library, place / library)
            (place / library).chmod(0o755)
        subprocess.run(
            [
                "cc",
                "-std=gnu11",
                "-Wall",
                "-Wextra",
                "-Werror",
                str(TENANT),
                "-o",
                place / "tenant",
                "-ldl",
            ],
            check=True,
        )
        os.chown(place, NOBODY, NOBODY)
        yield place


def test_a_tenant_without_rights_cannot_undo_its_limit(
    jobs: Jobs, view: AllocationView, tmp_path: Path, folder: Path
) -> None:
    fence = MECHANISMS["fence"]
    owned = replace(view, seat=JobSeat(uid=NOBODY, gid=NOBODY))
    prepared = prepare_allocation(fence, owned, tmp_path / "state")
    assert isinstance(prepared, PreparedAllocation)
    limits = tmp_path / "cards/machine.limits"
    before = limits.read_text()
    lines = run(
        jobs,
        owned,
        prepared,
        str(folder / "tenant"),
        str(folder),
        owned.cgroups[0],
        uid=NOBODY,
        gid=NOBODY,
    )
    denied = "Permission denied"
    assert lines == [
        f"leave {denied}",
        f"leave {denied}",
        f"set {NO_PERMISSION}",
        f"remove {denied}",
        f"write {denied}",
        f"create {denied}",
        str(SHARE),
    ]
    assert limits.read_text() == before
