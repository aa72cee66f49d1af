"""The simulated driver's memory limits by cgroup, met by programs that use no library of ours.

Each program calls the simulated driver directly, as one does that goes around the fence.
"""

from __future__ import annotations

import _ctypes
import ctypes
import importlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.probes.memory_limits import NO_LIMIT, MemoryLimit, SimulatedLimits
from gpupool.probes.simgpu import SimulatedMachine
from gpupool_native import simgpu_dir
from tests.support.job_cgroups import enter_group, open_pool_group
from tests.unit.native.simgpu_cuda import GIB, MIB, make_machine, run, running

pytestmark = pytest.mark.root

LIMIT = 2 * GIB
CONTEXT = 120 * MIB
BLOCK = 64 * MIB
FILL = f"""
def fill(block={BLOCK}):
    got = []
    try:
        while True:
            got.append(cu.alloc(block))
    except CudaError as error:
        assert error.code == OUT_OF_MEMORY, error.code
    return got
def enter(group):
    open(group + "/cgroup.procs", "w").write("0")
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[Path]:
    with open_pool_group() as group:
        yield group


@pytest.fixture
def group(pool: Path, request: pytest.FixtureRequest) -> Path:
    return make_group(pool, request.node.name[:60])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_machine(tmp_path)


@pytest.fixture
def nvml(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """nvidia-ml-py over the simulated library."""
    pynvml, library = (
        importlib.import_module("pynvml"),
        ctypes.CDLL(str(simgpu_dir() / "libnvidia-ml.so.1")),
    )
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setenv("GPUPOOL_SIMGPU", str(path))
    pynvml.nvmlInit()
    yield pynvml
    pynvml.nvmlShutdown()
    _ctypes.dlclose(library._handle)


def make_group(pool: Path, name: str) -> Path:
    group = pool / name
    group.mkdir()
    return group


def set_limit(nvml: Any, group: Path | str, hard: int, soft: int = 0, card: int = 0) -> None:
    limits = nvml.c_nvmlSetMemoryLimits_v1_t(os.fsencode(group), soft, hard)
    nvml.nvmlDeviceSetMemoryLimits_v1(nvml.nvmlDeviceGetHandleByIndex(card), limits)


def read_limit(nvml: Any, group: Path | str, card: int = 0) -> tuple[int, int, int]:
    limits = nvml.c_nvmlGetMemoryLimits_v1_t(os.fsencode(group))
    nvml.nvmlDeviceGetMemoryLimits_v1(nvml.nvmlDeviceGetHandleByIndex(card), limits)
    return limits.softLimit, limits.hardLimit, limits.currentUsed


def is_refused(nvml: Any, code: str, group: Path | str, hard: int, soft: int = 0) -> bool:
    with pytest.raises(nvml.NVMLError) as error:
        set_limit(nvml, group, hard, soft)
    return bool(error.value.value == getattr(nvml, f"NVML_ERROR_{code}"))


def card_of(path: Path) -> str:
    with SimulatedMachine(path) as machine:
        return machine.cards[0].uuid


def test_a_program_without_our_libraries_is_refused_at_the_hard_limit(
    nvml: Any, path: Path, group: Path
) -> None:
    set_limit(nvml, group, LIMIT)
    text = f"""{FILL}
enter("{group}")
cu.start()
assert cu.memory() == ({LIMIT - CONTEXT}, {LIMIT}), cu.memory()
for block in ({BLOCK}, 2 * MIB):
    fill(block)
print(len(fill(64 * KIB)), flush=True)
sys.stdin.readline()
"""
    with running(path, text) as process:
        assert process.stdout
        process.stdout.readline()
        # Not a byte above the limit, and nothing of it that could not be used.
        assert read_limit(nvml, group) == (0, LIMIT, LIMIT)
        assert SimulatedLimits(path.parent).read_limit(card_of(path), group) == MemoryLimit(
            0, LIMIT, LIMIT
        )


def test_racing_children_of_a_fork_share_one_limit(nvml: Any, path: Path, group: Path) -> None:
    set_limit(nvml, group, LIMIT)
    text = f"""{FILL}
enter("{group}")
pids = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        try:
            cu.start()
            fill(2 * MIB)
        finally:
            os.write(1, b"full\\n")
            sys.stdin.readline()
            os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
"""
    with running(path, text) as process:
        assert process.stdout
        for _ in range(4):
            assert process.stdout.readline() == "full\n"
        assert read_limit(nvml, group) == (0, LIMIT, LIMIT)


def test_two_jobs_have_a_limit_each(nvml: Any, path: Path, pool: Path) -> None:
    one, two = make_group(pool, "job-1"), make_group(pool, "job-2")
    set_limit(nvml, one, 1 * GIB)
    set_limit(nvml, two, 3 * GIB)
    text = FILL + 'enter("{}")\ncu.start()\nprint(len(fill()), flush=True)\nsys.stdin.readline()\n'
    with running(path, text.format(one)) as first, running(path, text.format(two)) as second:
        assert first.stdout
        assert second.stdout
        assert int(first.stdout.readline()) == (1 * GIB - CONTEXT) // BLOCK
        assert int(second.stdout.readline()) == (3 * GIB - CONTEXT) // BLOCK


def test_a_process_that_is_moved_stays_with_its_limit(nvml: Any, path: Path, pool: Path) -> None:
    limited, free = make_group(pool, "limited"), make_group(pool, "free")
    set_limit(nvml, limited, LIMIT)
    text = f"""{FILL}
enter("{limited}")
cu.start()
cu.alloc({GIB})
print("ready", flush=True)
sys.stdin.readline()
print(len(fill()), flush=True)
sys.stdin.readline()
"""
    with running(path, text) as process:
        assert process.stdout
        assert process.stdin
        process.stdout.readline()
        enter_group(free, process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        assert int(process.stdout.readline()) == (LIMIT - GIB - CONTEXT) // BLOCK
        assert read_limit(nvml, limited)[2] > GIB
        assert read_limit(nvml, free)[2] == 0


def test_a_limit_holds_what_runs_in_a_cgroup_below(nvml: Any, path: Path, group: Path) -> None:
    set_limit(nvml, group, LIMIT)
    below = make_group(group, "below")
    text = f'{FILL}\nenter("{below}")\ncu.start()\nprint(len(fill()))'
    assert int(run(path, text)) == (LIMIT - CONTEXT) // BLOCK


def test_a_cgroup_of_version_1_has_limits_too(nvml: Any, path: Path) -> None:
    with open_pool_group(versions=(1,)) as pool:
        group = make_group(pool, "job")
        set_limit(nvml, group, GIB)
        uuid = card_of(path)
        assert SimulatedLimits(path.parent).read_limit(uuid, group) == MemoryLimit(0, GIB)
        text = f'{FILL}\nenter("{group}")\ncu.start()\nprint(len(fill()))'
        assert int(run(path, text)) == (GIB - CONTEXT) // BLOCK


def test_the_tighter_of_two_limits_above_one_another_counts(
    nvml: Any, path: Path, group: Path
) -> None:
    below = make_group(group, "below")
    for outer, inner in ((1 * GIB, 2 * GIB), (2 * GIB, 1 * GIB)):
        set_limit(nvml, group, outer)
        set_limit(nvml, below, inner)
        text = f'{FILL}\nenter("{below}")\ncu.start()\nprint(len(fill()))'
        assert int(run(path, text)) == (1 * GIB - CONTEXT) // BLOCK


def test_a_cgroup_whose_name_only_begins_alike_is_free(nvml: Any, path: Path, pool: Path) -> None:
    set_limit(nvml, make_group(pool, "alike"), GIB)
    other = make_group(pool, "alike-2")
    run(path, f'{FILL}\nenter("{other}")\ncu.start()\ncu.alloc({4 * GIB})')


def test_managed_memory_is_not_counted(nvml: Any, path: Path, group: Path) -> None:
    set_limit(nvml, group, GIB)
    text = f"""{FILL}
enter("{group}")
cu.start()
cu.get(c_uint64, "MemAllocManaged", {4 * GIB}, 1)
print(len(fill()))
"""
    assert int(run(path, text)) == (GIB - CONTEXT) // BLOCK


def test_other_ways_to_allocate_are_counted_too(nvml: Any, path: Path, group: Path) -> None:
    set_limit(nvml, group, GIB)
    text = f"""{FILL}
enter("{group}")
cu.start()
pitch = c_size_t()
array = (c_uint64 * 8)()
refused = cu.code("MemAllocPitch_v2", byref(c_uint64()), byref(pitch), {1 << 20}, 2048, 4)
assert refused == OUT_OF_MEMORY, refused
refused = cu.code("MemAllocAsync", byref(c_uint64()), {2 * GIB}, None)
assert refused == OUT_OF_MEMORY, refused
"""
    run(path, text)


def test_a_limit_that_comes_while_a_program_runs_counts_what_it_has(
    nvml: Any, path: Path, group: Path
) -> None:
    text = f"""{FILL}
enter("{group}")
cu.start()
cu.alloc({GIB})
print("ready", flush=True)
sys.stdin.readline()
print(len(fill()), flush=True)
"""
    with running(path, text) as process:
        assert process.stdout
        assert process.stdin
        process.stdout.readline()
        set_limit(nvml, group, LIMIT)
        process.stdin.write("\n")
        process.stdin.flush()
        assert int(process.stdout.readline()) == (LIMIT - GIB - CONTEXT) // BLOCK


def test_a_link_to_the_machine_does_not_undo_its_limits(
    nvml: Any, path: Path, group: Path, tmp_path: Path
) -> None:
    set_limit(nvml, group, GIB)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "machine").symlink_to(path)
    text = f'{FILL}\nenter("{group}")\ncu.start()\nprint(len(fill()))'
    assert int(run(elsewhere / "machine", text)) == (GIB - CONTEXT) // BLOCK


def test_a_program_that_may_open_no_file_gets_nothing(nvml: Any, path: Path, group: Path) -> None:
    set_limit(nvml, group, GIB)
    text = f"""{FILL}
import resource
enter("{group}")
cu.start()
held = []
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
assert cu.code("MemAlloc_v2", byref(c_uint64()), {BLOCK}) == 304  # CUDA_ERROR_OPERATING_SYSTEM
os.close(held.pop())
print(len(fill()))
"""
    assert int(run(path, text)) == (GIB - CONTEXT) // BLOCK


def test_memory_of_a_killed_process_is_free_again(nvml: Any, path: Path, group: Path) -> None:
    set_limit(nvml, group, GIB)
    text = f'{FILL}\nenter("{group}")\ncu.start()\nprint(len(fill()), flush=True)\n'
    with running(path, text + "sys.stdin.readline()") as process:
        assert process.stdout
        process.stdout.readline()
        process.kill()
        process.wait()
    assert int(run(path, text)) == (GIB - CONTEXT) // BLOCK


def test_the_other_card_is_not_limited(nvml: Any, path: Path, group: Path) -> None:
    set_limit(nvml, group, GIB, card=1)
    assert read_limit(nvml, group, card=0) == (0, NO_LIMIT, 0)
    run(path, f'{FILL}\nenter("{group}")\ncu.start()\ncu.alloc({4 * GIB})')


def test_python_and_the_simulated_nvml_read_what_the_other_writes(
    nvml: Any, path: Path, group: Path
) -> None:
    limits = SimulatedLimits(path.parent)
    uuid = card_of(path)
    assert limits.set_limit(uuid, group, MemoryLimit(GIB, LIMIT)) == ""
    assert read_limit(nvml, group) == (GIB, LIMIT, 0)
    set_limit(nvml, group, 3 * GIB)
    assert limits.read_limit(uuid, group) == MemoryLimit(0, 3 * GIB)
    set_limit(nvml, group, NO_LIMIT)
    assert limits.read_limit(uuid, group) == MemoryLimit()
    assert (path.parent / "machine.limits").read_text() == "gpupool memory limits 1\n"


def test_what_nvml_refuses(nvml: Any, group: Path) -> None:
    card = nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(0)).total
    assert is_refused(nvml, "INVALID_ARGUMENT", group, GIB, soft=2 * GIB)
    assert is_refused(nvml, "INVALID_ARGUMENT", group, card + 1)
    assert is_refused(nvml, "OPERATING_SYSTEM", group / "gone", GIB)
    assert is_refused(nvml, "OPERATING_SYSTEM", "/tmp", GIB)
    assert is_refused(nvml, "NOT_SUPPORTED", group.parent.parent, GIB)


def test_another_account_cannot_set_a_limit(group: Path) -> None:
    """The account has the card's file open for writing, as every job has."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        path = make_machine(folder)
        text = """
nvml = CDLL(str(simgpu_dir() / "libnvidia-ml.so.1"))
card = c_void_p()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(card)) == 0
class Limits(Structure):
    _fields_ = [("name", c_char_p), ("soft", c_ulonglong), ("hard", c_ulonglong)]
limits = Limits(%r, 0, 1 << 30)
os.seteuid(65534)
open(os.environ["GPUPOOL_SIMGPU"], "r+b").close()
print(nvml.nvmlDeviceSetMemoryLimits_v1(card, byref(limits)))
os.seteuid(0)
print(nvml.nvmlDeviceSetMemoryLimits_v1(card, byref(limits)))
"""
        assert run(path, text % os.fsencode(group)).split() == ["4", "0"]
        assert (path.parent / "machine.limits").stat().st_mode & 0o777 == 0o644
