"""Runs in a guest whose only cgroups are of version 2: gpupool's own code on its real files.

Prints one line of JSON for each check, `{"check": NAME, ...facts}`; the test compares them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool.agent.supervisor.cgroups import detect_cgroups, list_members
from gpupool.agent.supervisor.client import read_exit, read_log
from gpupool.mechanisms.containers.accounts import MissingPart, find_account
from gpupool.mechanisms.containers.argv import (
    PID_FILE,
    ContainerStart,
    build_run_arguments,
    build_run_environment,
)
from gpupool.mechanisms.containers.image_store import STORE
from gpupool.mechanisms.containers.images import AccountPodman
from gpupool.mechanisms.containers.podman import find_podman
from gpupool.mechanisms.contract import (
    AllocationView,
    FenceLevel,
    GrantedDevice,
    JobSeat,
    PreparedAllocation,
)
from gpupool.mechanisms.layers.job_cgroup import make_group
from gpupool.mechanisms.layers.memgroup import DriverMemoryLimits, compute_hard_bytes
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from gpupool_native import init_path, read_only_path, simgpu_dir
from tests.hosts.container_account import make_account
from tests.support.supervised import ENVIRONMENT, Jobs, until

SHARE = 2048 << 20
IMAGE = "localhost/guest:1"
#: Takes all the memory of the card that it gets and prints the bytes. Its word is the driver's path.
FILL = """
import sys
from ctypes import CDLL, byref, c_int, c_size_t, c_uint64, c_void_p
cuda = CDLL(sys.argv[1])
def check(code):
    assert code == 0, code
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
print(total)
"""


def say(check: str, **facts: object) -> None:
    print(json.dumps({"check": check, **facts}), flush=True)


@contextmanager
def open_pool_group() -> Iterator[Path]:
    (hierarchy,) = detect_cgroups().job_hierarchies
    group = hierarchy.base / "gpupool-guest"
    group.mkdir()
    yield group
    group.rmdir()


def make_view(place: Path, group: Path) -> AllocationView:
    create_machine(place / "cards/machine", parse_sim("1xL40S")[0])
    with SimulatedMachine(place / "cards/machine") as machine:
        card = machine.cards[0]
    device = replace(parse_sim("1xL40S")[0].devices[0], driver_version="615.71.09")
    return AllocationView(
        pool="pool",
        allocation="al-1",
        generation=1,
        job="job-1",
        tenant="team",
        sharing="fixed",
        granted=(GrantedDevice(device, 300, SHARE, card.context_bytes, card.granule_bytes),),
        node_devices=(device,),
        seat=JobSeat(),
        machine=place / "cards",
        cgroups=(str(group),),
    )


def check_memory(jobs: Jobs, place: Path, pool: Path) -> None:
    """A program that calls the driver itself meets the limit of its job's cgroup."""
    group = pool / "job-1"
    view = make_view(place, group)
    state = place / "state"
    layer = DriverMemoryLimits()
    plain = PreparedAllocation({}, (), (), place, FenceLevel.SOFT)
    prepared = layer.prepare(view, plain, state)
    leaf_first = group.is_dir() and not list_members(group)
    script = f"print(open('/proc/self/cgroup').read().strip())\n{FILL}"
    record, output = jobs.run(
        *(sys.executable, "-S", "-c", script, str(simgpu_dir() / "libcuda.so.1")),
        environment={**ENVIRONMENT, "GPUPOOL_SIMGPU": str(place / "cards/machine")},
        cgroups=view.cgroups,
    )
    assert record.exit_code == 0, output.decode()
    inside, total = output.decode().splitlines()
    layer.unprepare("al-1", 1, state)
    say(
        "memory",
        level=prepared.enforcement.memory,
        notes=prepared.notes,
        leaf_first=leaf_first,
        inside=inside,
        used=int(total) + (view.granted[0].context_bytes or 0),
        hard=compute_hard_bytes(view.granted[0], state),
        left=[one.name for one in pool.iterdir() if one.is_dir()],
        limits=(place / "cards/machine.limits").read_text(),
    )


def check_controller(pool: Path) -> None:
    """A controller is enabled along the chain. This kernel has no `dmem`; `rdma` stands for it."""
    group = pool / "job-2"
    before = (pool / "cgroup.controllers").read_text().split()
    make_group(group, "rdma")
    say("controller", before=before, leaf=sorted(one.name for one in group.glob("rdma.*")))
    group.rmdir()


def build_image(place: Path) -> Path:
    top = place / "top"
    (top / "bin").mkdir(parents=True)
    shutil.copy2("/bin/busybox", top / "bin/busybox")
    for tool in ("cat", "sh", "sleep"):
        (top / "bin" / tool).symlink_to("busybox")
    archive = place / "top.tar"
    subprocess.run(["tar", "-C", top, "-cf", archive, "."], check=True)
    return archive


def check_container(jobs: Jobs, podman: AccountPodman, place: Path, pool: Path) -> None:
    """crun leaves the container in its job's cgroup, and it ends with its supervisor's stop."""
    account = podman.account
    group = pool / f"container-{account.name}"
    group.mkdir()
    work = place / account.name
    work.mkdir()
    os.chown(work, account.uid, account.gid)
    config = place / "containers.conf"
    config.write_text("[containers]\n[engine]\n")
    answer = podman.call("import", "--quiet", str(place / "top.tar"), IMAGE)
    assert answer.code == 0, answer
    script = "echo 1 2>/dev/null >/sys/fs/cgroup/cgroup.procs && echo moved; echo up; sleep 600"
    start = ContainerStart(
        job=f"j-{account.name}",
        image=IMAGE,
        command=("sh", "-c", script),
        runtime_dir=str(work),
        config_file=str(config),
        init_path=str(place / init_path().name),
        guard_path=str(place / read_only_path().name),
    )
    job = jobs.start(
        *build_run_arguments(start, podman.installation, account),
        environment=build_run_environment(start, account),
        uid=account.uid,
        gid=account.gid,
        cgroups=(str(group),),
    )
    until(lambda: b"up\n" in read_log(job, 0, 1 << 16).data or read_exit(job), "the container")
    assert read_exit(job) is None, (read_exit(job), read_log(job, 0, 1 << 16))
    pid = (work / PID_FILE).read_text().strip()
    inside = Path(f"/proc/{pid}/cgroup").read_text().strip()
    members = list_members(group)
    # As the kernel ends a job of which nothing else is left.
    (group / "cgroup.kill").write_text("1")
    until(lambda: not list_members(group), "its end")
    podman.remove_container(start.job)
    say(
        "container",
        account=account.name,
        inside=inside,
        is_member=int(pid) in members,
        output=read_log(job, 0, 1 << 16).data.decode(),
        alive=Path(f"/proc/{pid}").exists(),
    )


def run_checks() -> None:
    place = Path(tempfile.mkdtemp(prefix="gpt-"))
    place.chmod(0o755)
    for program in (init_path(), read_only_path()):
        shutil.copy(program, place)
    (place / "jobs").mkdir()
    jobs = Jobs(place / "jobs")
    installation = find_podman()
    say(
        "host",
        versions=[one.version for one in detect_cgroups().job_hierarchies],
        runtime="" if isinstance(installation, MissingPart) else installation.oci_runtime,
        missing=installation.reason if isinstance(installation, MissingPart) else "",
    )
    with open_pool_group() as pool:
        check_memory(jobs, place, pool)
        check_controller(pool)
        if not isinstance(installation, MissingPart):
            build_image(place)
            (place / "home").mkdir()
            with make_account(place / "home") as podman:
                check_container(jobs, podman, place, pool)
                jobs.end_all()
            for file in ("/etc/subuid", "/etc/subgid"):
                with open(file, "a") as table:
                    table.write("root:700000000:65536\n")
            root = find_account(0, 0)
            assert not isinstance(root, MissingPart)
            # This root is an overlay, on which Podman's overlay does not work.
            images = Path(root.home) / STORE
            images.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "images", images], check=True)
            check_container(jobs, AccountPodman(installation, root), place, pool)
            jobs.end_all()


def report_deadline(_number: int, _frame: Any) -> None:
    raise TimeoutError("the checks took too long")


signal.signal(signal.SIGALRM, report_deadline)
signal.alarm(400)
run_checks()
