"""Ways out of a fence, each tried by a real job on a simulated card: it still holds, or the job is
found out and ended.

The jobs run as root here, which is more than a tenant has: what stops or finds root stops and finds
him.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shlex
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.client.sdk import Pool
from gpupool.wire import common, fleet, jobs, people, report
from tests.e2e.pool_fixture import RealPool

_READ_BEFORE = (common, fleet, jobs, people, report, resource)
"""Imported while we are root: another account may not be able to read this Python's library."""

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="a pool of root's own: in a user's the fence is advice"
    ),
]

SHARE_MIB = 2048
NOTICED_SECONDS = 2.5
"""One look is at most 0.8 s after the last; the rest is this machine's, which runs other tests
meanwhile."""

PROGRAM = """
import ctypes, json, os, sys, time

def look(cuda):
    # What the card says of itself, and whether more than the share can be had.
    number, size, place = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_uint64()
    context = ctypes.c_void_p()
    said = {"init": cuda.cuInit(0)}
    if not said["init"]:
        cuda.cuDeviceGet(ctypes.byref(number), 0)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(size), number)
        said["context"] = cuda.cuCtxCreate_v2(ctypes.byref(context), 0, number)
        said["total_mib"] = size.value >> 20
        said["small"] = cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(64 << 20))
        said["large"] = cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(4096 << 20))
    said["at_ns"] = time.time_ns()
    print(json.dumps(said), flush=True)

def stay():
    time.sleep(60)

"""
ORDINARY = "look(ctypes.CDLL('libcuda.so.1'))"
BY_PATH = "look(ctypes.CDLL(sys.argv[1])); stay()"


class Fenced:
    """A pool with one card, and jobs of 2048 MiB of it."""

    def __init__(self, pool: RealPool, place: Path) -> None:
        self.pool, self.place = pool, place
        self.program = place / "program.py"
        self._number = 0

    def driver(self) -> Path:
        """The simulated driver itself: what a job sees in its own /proc/self/maps."""
        self.run(ORDINARY)
        return next((self.pool.state_dir / "agent/fence").glob("*/driver/libcuda.so.1"))

    def run(self, body: str, *arguments: str, before: str = "") -> dict[str, Any]:
        """A job that runs the prelude and `body`, behind the words `before`: what it said, and its
        end."""
        self._number += 1
        program = self.place / f"program-{self._number}.py"
        program.write_text(PROGRAM + body)
        words = shlex.join([sys.executable, str(program), *arguments])
        name = f"out-{self._number}"
        size = ("--gpu", "0.3", "--memory", f"{SHARE_MIB}MiB")
        done = self.pool.run("run", "--name", name, *size, "--", "sh", "-c", f"{before} {words}")
        job = self.pool.json("show", name)
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return {"said": said, "job": job, "stderr": done.stderr}

    def as_somebody(self, *words: str) -> str:
        """What a job writes that an account without rights submitted."""
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(told)
            _be_somebody(tell, self.pool.state_dir, words)
        os.close(tell)
        with os.fdopen(told) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        return text

    def events(self, job: str) -> list[dict[str, Any]]:
        lines = self.pool.do("events", "--last", "500", "-o", "json").splitlines()
        events = [json.loads(line) for line in lines]
        return [
            event
            for event in events
            if event["subject"] == job and event["kind"].startswith("fence.")
        ]


def _be_somebody(tell: int, state_dir: Path, words: tuple[str, ...]) -> None:
    """In a child: become the account, run the job, tell what it wrote, and end as no test does."""
    try:
        os.setgroups([])
        os.setresgid(SOMEBODY, SOMEBODY, SOMEBODY)
        os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
        os.chdir("/")
        with Pool(state_dir=str(state_dir)) as pool:
            job = pool.submit(list(words), gpu=0.3, memory=f"{SHARE_MIB}MiB").first
            pool.wait(job.id)
            os.write(tell, b"".join(pool.logs(job.id)))
    except BaseException:  # noqa: BLE001  whatever it is, the parent is told and this process ends
        os.write(tell, traceback.format_exc().encode())
    os._exit(0)


@pytest.fixture(scope="module")
def fenced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fenced]:
    place = tmp_path_factory.mktemp("fenced")
    for part in (place, *place.parents):
        if part != Path("/"):
            part.chmod(part.stat().st_mode | 0o111)  # as every state directory of root's is
    with RealPool(place / "pool", "1xL40S") as pool:
        yield Fenced(pool, place)


def assert_held(answer: dict[str, Any]) -> None:
    """The program saw its share, got what is in it and was refused what is not."""
    (said,) = answer["said"]
    seen = {key: said.get(key) for key in ("init", "total_mib", "small", "large")}
    assert seen == {"init": 0, "total_mib": SHARE_MIB, "small": 0, "large": 2}, answer
    assert answer["job"]["state"] == "done", answer


def assert_found_out(fenced: Fenced, answer: dict[str, Any], *kinds: str) -> None:
    """The program got past the fence, was ended for it, and its event says so within the time."""
    assert (answer["job"]["state"], answer["job"]["signal"]) == ("failed", 9), answer
    assert answer["job"]["reason"].startswith("ended by its fence: "), answer
    events = fenced.events(answer["job"]["id"])
    assert {event["kind"] for event in events} & {f"fence.{kind}" for kind in kinds}, events
    late = (events[0]["at_ns"] - answer["said"][0]["at_ns"]) / 1e9
    assert late <= NOTICED_SECONDS, f"noticed after {late:.1f} s"


def test_an_ordinary_program_sees_its_share_and_nothing_is_found(fenced: Fenced) -> None:
    answer = fenced.run(ORDINARY + "; time.sleep(2)")
    assert_held(answer)
    assert answer["job"]["fence"] == "soft"
    assert fenced.events(answer["job"]["id"]) == []


@pytest.mark.parametrize(
    "before",
    [
        "env -i",
        "env -u GPUPOOL_SHARE -u CUDA_VISIBLE_DEVICES GPUPOOL_SHARE=/tmp GPUPOOL_JOB=other CUDA_VISIBLE_DEVICES=0",
        "env LD_LIBRARY_PATH=/usr/lib:/tmp",
        "env LD_PRELOAD=libm.so.6",
    ],
)
def test_no_variable_takes_it_away(fenced: Fenced, before: str) -> None:
    assert_held(fenced.run(ORDINARY, before=before))


def test_deep_binding_finds_it(fenced: Fenced) -> None:
    assert_held(
        fenced.run("look(ctypes.CDLL('libcuda.so.1', mode=os.RTLD_NOW | os.RTLD_DEEPBIND))")
    )


def test_a_namespace_of_its_own_for_the_library_finds_it(fenced: Fenced) -> None:
    body = """
libc = ctypes.CDLL(None)
libc.dlmopen.restype = ctypes.c_void_p
handle = libc.dlmopen(ctypes.c_long(-1), b"libcuda.so.1", os.RTLD_NOW)
look(ctypes.CDLL("libcuda.so.1", handle=handle))
"""
    assert_held(fenced.run(body))


def test_children_by_vfork_and_exec_share_the_one_budget(fenced: Fenced) -> None:
    """1000 MiB and two contexts leave no room for as much again in the child."""
    body = """
import subprocess
cuda, place = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
number, context = ctypes.c_int(), ctypes.c_void_p()
first = (cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, number))
first += (cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(1000 << 20)),)
if len(sys.argv) == 1:
    child = subprocess.run([sys.executable, __file__, "child"], capture_output=True, text=True)
    print(json.dumps({"parent": first, "child": json.loads(child.stdout)}))
else:
    print(json.dumps(first))
"""
    (said,) = fenced.run(body)["said"]
    assert said["parent"] == [0, 0, 0]
    assert said["child"] == [0, 0, 2]


def test_a_child_that_becomes_somebody_else_is_refused_the_card(fenced: Fenced) -> None:
    """The ledger belongs to the job's user; who cannot write it gets no card, and no crash."""
    (said,) = fenced.run("os.setgid(54321); os.setuid(54321); " + ORDINARY)["said"]
    assert said["init"] != 0


SETUID = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>

typedef int call();

int main(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int device = 0, secure = (int)getauxval(AT_SECURE);
    unsigned long total = 0, place = 0;
    if (!cuda)
        return 3;
    int init = ((call *)dlsym(cuda, "cuInit"))(0);
    ((call *)dlsym(cuda, "cuDeviceTotalMem_v2"))(&total, device);
    int create = ((call *)dlsym(cuda, "cuCtxCreate_v2"))(&context, 0, device);
    int small = ((call *)dlsym(cuda, "cuMemAlloc_v2"))(&place, 64ul << 20);
    int large = ((call *)dlsym(cuda, "cuMemAlloc_v2"))(&place, 4096ul << 20);
    printf("{\"uid\": %d, \"euid\": %d, \"secure\": %d, ", getuid(), geteuid(), secure);
    printf("\"init\": %d, \"context\": %d, \"total_mib\": %lu, ", init, create, total >> 20);
    printf("\"small\": %d, \"large\": %d}\n", small, large);
    return 0;
}
"""
SOMEBODY = 54321


def test_a_setuid_program_of_roots_in_somebodys_job_is_held_like_any_other(fenced: Fenced) -> None:
    """The loader believes no variable there, and needs none: the name of the driver is the
    fence's."""
    program = fenced.place / "setuid"
    subprocess.run(["cc", "-w", "-x", "c", "-", "-o", program], input=SETUID, text=True, check=True)
    program.chmod(0o4755)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip("the file system of temporary files is mounted nosuid")
    words = ("env", "LD_LIBRARY_PATH=/tmp", "GPUPOOL_SHARE=/tmp", str(program))
    said = json.loads(fenced.as_somebody(*words))
    assert (said["uid"], said["euid"], said["secure"]) == (SOMEBODY, 0, 1), (
        "it is what it should be"
    )
    seen = {key: said[key] for key in ("init", "context", "total_mib", "small", "large")}
    assert seen == {"init": 0, "context": 0, "total_mib": SHARE_MIB, "small": 0, "large": 2}


@pytest.mark.parametrize("way", ["the private path", "a copy", "preloaded", "by LD_LIBRARY_PATH"])
def test_the_driver_without_the_fence_is_found_out(
    fenced: Fenced, tmp_path: Path, way: str
) -> None:
    driver = fenced.driver()
    copy = tmp_path / "libinnocent.so"
    copy.write_bytes(driver.read_bytes())
    answer = {
        "the private path": lambda: fenced.run(BY_PATH, str(driver)),
        "a copy": lambda: fenced.run(BY_PATH, str(copy)),
        "preloaded": lambda: fenced.run(ORDINARY + "; stay()", before=f"env LD_PRELOAD={driver}"),
        "by LD_LIBRARY_PATH": lambda: fenced.run(
            ORDINARY + "; stay()", before=f"env LD_LIBRARY_PATH={driver.parent}"
        ),
    }[way]()
    assert answer["said"][0]["total_mib"] > SHARE_MIB, "it did get past the fence"
    assert_found_out(fenced, answer, "unregistered")


def test_a_second_driver_beside_the_fence_is_found_out(fenced: Fenced, tmp_path: Path) -> None:
    """The first copy is registered; what is taken through the second is memory that its ledger does
    not know."""
    second = tmp_path / "libsecond.so"
    second.write_bytes(fenced.driver().read_bytes())
    body = "ctypes.CDLL('libcuda.so.1').cuInit(0); look(ctypes.CDLL(sys.argv[1])); stay()"
    answer = fenced.run(body, str(second))
    assert_found_out(fenced, answer, "unregistered", "memory", "over")


STATIC = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A static program's table of thread-local storage has no room that the loader of a dlopen(3) fills: every entry of a
   library with such variables is NULL. The table is the second word of the thread's block (System V ABI, x86-64);
   entry 0 is its generation, a module's is its number's. */
struct entry { void *value, *to_free; };

static void give_storage(void)
{
    struct entry *table;
    __asm__("mov %%fs:8, %0" : "=r"(table));
    for (int module = 1; module < 15; module++)
        if (!table[module].value)
            table[module].value = calloc(1, 1 << 16);
}

int main(int argc, char **argv)
{
    void *context, *cuda = dlopen(argv[1], RTLD_NOW);
    struct timespec now;
    if (!cuda)
        return 3;
    if (argc > 2)
        give_storage();
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
    int (*create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))dlsym(cuda, "cuCtxCreate_v2");
    int failed = init(0) || create(&context, 0, 0);
    clock_gettime(CLOCK_REALTIME, &now);
    printf("{\"failed\": %d, \"at_ns\": %lld}\n", failed, now.tv_sec * 1000000000ll + now.tv_nsec);
    fflush(stdout);
    sleep(60);
    return 0;
}
"""


@pytest.fixture(scope="module")
def static_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("static") / "static"
    subprocess.run(
        ["cc", "-static", "-w", "-x", "c", "-", "-o", program], input=STATIC, text=True, check=True
    )
    return program


on_x86 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="knows the thread block of x86-64"
)


@on_x86
def test_a_static_program_that_opens_the_driver_dies_of_it_before_it_has_the_card(
    fenced: Fenced, static_program: Path
) -> None:
    """Its first thread-local variable lies nowhere: `dlopen` in a static program of glibc 2.36
    gives it no storage."""
    answer = fenced.run("", before=f"exec {static_program} {fenced.driver()};")
    assert answer["said"] == []
    assert answer["job"]["exit_code"] == 3 or answer["job"]["signal"] == signal.SIGSEGV, answer


@on_x86
def test_a_static_program_that_mends_that_gets_past_the_fence_and_is_found_out(
    fenced: Fenced, static_program: Path
) -> None:
    answer = fenced.run("", before=f"exec {static_program} {fenced.driver()} mend;")
    assert answer["said"][0]["failed"] == 0, "it did get past the fence"
    assert_found_out(fenced, answer, "unregistered")


def test_other_limits_mounted_over_the_jobs_own_are_found_out(fenced: Fenced) -> None:
    """In a mount namespace within: the stand-in believes the page it sees, the agent looks at what
    it sees."""
    page = "import shutil; shutil.copytree('/run/gpupool/share', sys.argv[1])\n"
    change = """
import mmap
with open(sys.argv[1] + "/limits", "r+b") as file:
    file.seek(512 + 16)
    file.write((40 << 30).to_bytes(8, "little"))
os.system(f"mount --bind {sys.argv[1]} /run/gpupool/share")
"""
    body = page + change + ORDINARY + "; stay()"
    for number in range(3):
        place = fenced.place / f"mine-{number}"
        answer = fenced.run(body, str(place), before="unshare -m --")
        if answer["said"]:
            break
        # The agent was faster than the program on its way past the fence.
        assert answer["job"]["reason"].startswith("ended by its fence: "), answer
    assert answer["said"][0]["large"] == 0, "it did get past the fence"
    assert_found_out(fenced, answer, "mount", "over")


def test_a_damaged_ledger_is_found_out(fenced: Fenced) -> None:
    body = (
        ORDINARY
        + "\nos.pwrite(os.open('/run/gpupool/usage/region', os.O_RDWR), b'nonsense', 0); stay()"
    )
    answer = fenced.run(body)
    assert_found_out(fenced, answer, "region")


class Reacting(RealPool):
    """A pool that was told what to do about who leaves his fence."""

    def __init__(self, state_dir: Path, reaction: str) -> None:
        super().__init__(state_dir, "1xL40S")
        self.reaction = reaction

    def __enter__(self) -> Reacting:
        self.up("--sim", self.sim, "--fence-reaction", self.reaction)
        return self


def test_what_is_found_is_only_told_where_the_pool_was_told_to_warn(tmp_path: Path) -> None:
    with Reacting(tmp_path / "pool", "warn") as pool:
        other = Fenced(pool, tmp_path)
        answer = other.run(BY_PATH.replace("stay()", "time.sleep(2.5)"), str(other.driver()))
        assert answer["job"]["state"] == "done", answer
        events = other.events(answer["job"]["id"])
        kinds = [event["kind"] for event in events]
        assert sorted(kinds) == ["fence.over", "fence.unregistered"], (
            "each is told once while it lasts"
        )
        assert events[0]["data"]["found"].endswith("(warn)")


def test_where_the_pool_was_told_to_freeze_the_job_stops_and_its_neighbours_do_not(
    tmp_path: Path,
) -> None:
    with Reacting(tmp_path / "pool", "freeze") as pool:
        other = Fenced(pool, tmp_path)
        driver, program = other.driver(), tmp_path / "leaver.py"
        program.write_text(
            PROGRAM
            + "look(ctypes.CDLL(sys.argv[1]))\nwhile True: print(time.time_ns(), flush=True)"
        )
        words = (
            "--gpu",
            "0.3",
            "--memory",
            "2GiB",
            "--",
            sys.executable,
            str(program),
            str(driver),
        )
        pool.do("submit", "--name", "leaver", *words)
        pool.until(
            lambda: "fence.unregistered" in pool.do("events", "--last", "100"), "the finding"
        )
        pool.until(lambda: stopped(driver), "the stop of the job's process")
        assert_held(other.run(ORDINARY))
        assert pool.job("leaver")["state"] == "running"
        pool.do("stop", "leaver", "--grace", "0s")
        pool.until_state("leaver", "stopped")


def stopped(driver: Path) -> bool:
    """Whether the process that was given the driver's path is stopped."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    states = [
        line.split()[0]
        for line in listed.splitlines()
        if "leaver.py" in line and str(driver) in line
    ]
    return bool(states) and all(state.startswith("T") for state in states)
