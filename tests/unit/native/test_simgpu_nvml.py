"""The simulated libnvidia-ml.so.1, asked by the vendor's own Python binding and by our probe, both
unchanged."""

from __future__ import annotations

import _ctypes
import ctypes
import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.probes.contract import Machine
from gpupool.probes.nvml import NvmlProbe
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from gpupool_native import simgpu_dir
from tests.unit.native.simgpu_model import DEVICE_MEMORY, GIB, MS, User, compile_user

MACHINE: Machine = parse_sim("2xT4+H100")[0]
LIBRARY = simgpu_dir() / "libnvidia-ml.so.1"
REPORT = Path(__file__).parents[1] / "probes" / "nvml_report.py"
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
        process.ask("context", 0)
        yield process


@pytest.fixture
def binding(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """nvidia-ml-py over the simulated library, not begun yet. The library goes again: other tests
    have none."""
    pynvml, library = importlib.import_module("pynvml"), ctypes.CDLL(str(LIBRARY))
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setenv("GPUPOOL_SIMGPU", str(path))
    yield pynvml
    _ctypes.dlclose(library._handle)


@pytest.fixture
def nvml(binding: Any) -> Iterator[Any]:
    binding.nvmlInit()
    yield binding
    binding.nvmlShutdown()


def refused(nvml: Any, code: str, call: Callable[..., Any], *arguments: Any) -> bool:
    """Whether NVML refuses with that error."""
    with pytest.raises(nvml.NVMLError) as error:
        call(*arguments)
    return bool(error.value.value == getattr(nvml, f"NVML_ERROR_{code}"))


# --- beginning ---


def test_nothing_works_before_the_beginning_and_after_the_end(binding: Any) -> None:
    assert refused(binding, "UNINITIALIZED", binding.nvmlDeviceGetCount)
    binding.nvmlInit()
    binding.nvmlInit()
    binding.nvmlShutdown()
    assert binding.nvmlDeviceGetCount() == 3, "it was begun twice"
    binding.nvmlShutdown()
    assert refused(binding, "UNINITIALIZED", binding.nvmlDeviceGetCount)
    assert refused(binding, "UNINITIALIZED", binding.nvmlShutdown)


def test_without_a_machine_there_is_no_driver_and_with_a_damaged_one_another_version(
    binding: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"PSIMMAC1" * 100)
    assert refused(binding, "LIB_RM_VERSION_MISMATCH", binding.nvmlInit)
    monkeypatch.setenv("GPUPOOL_SIMGPU", "/nowhere/at/all")
    assert refused(binding, "DRIVER_NOT_LOADED", binding.nvmlInit)


def test_every_function_of_the_binding_is_there_and_what_has_no_behaviour_is_counted(
    nvml: Any, machine: SimulatedMachine
) -> None:
    source = Path(nvml.__file__).read_text()
    names = {
        line.split('"')[1]
        for line in source.splitlines()
        if '_nvmlGetFunctionPointer("nvml' in line
    }
    assert len(names) > 200
    assert not {name for name in names if not hasattr(nvml.nvmlLib, name)}
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    before = machine.unsupported_calls
    assert refused(nvml, "NOT_SUPPORTED", nvml.nvmlDeviceGetFanSpeed, handle)
    assert refused(nvml, "NOT_SUPPORTED", nvml.nvmlDeviceGetSerial, handle)
    assert machine.unsupported_calls == before + 2


# --- cards ---


def test_cards_are_the_machines(nvml: Any) -> None:
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    assert [nvml.nvmlDeviceGetUUID(h) for h in handles] == [d.uuid for d in MACHINE.devices]
    assert [nvml.nvmlDeviceGetName(h) for h in handles] == [
        "Tesla T4",
        "Tesla T4",
        "NVIDIA H100 80GB HBM3",
    ]
    assert [nvml.nvmlDeviceGetIndex(h) for h in handles] == [0, 1, 2]
    assert [nvml.nvmlDeviceGetMinorNumber(h) for h in handles] == [0, 1, 2]
    assert nvml.nvmlDeviceGetCudaComputeCapability(handles[2]) == (9, 0)
    assert nvml.nvmlDeviceGetArchitecture(handles[2]) == nvml.NVML_DEVICE_ARCH_HOPPER
    assert nvml.nvmlDeviceGetNumGpuCores(handles[2]) == 132 * 128
    assert nvml.nvmlDeviceGetNumGpuCores(handles[0]) == 40 * 64
    assert refused(nvml, "INVALID_ARGUMENT", nvml.nvmlDeviceGetHandleByIndex, 3)


def test_a_card_is_found_by_every_name_it_has(nvml: Any) -> None:
    for device in MACHINE.devices:
        handle = nvml.nvmlDeviceGetHandleByUUID(device.uuid)
        pci = nvml.nvmlDeviceGetPciInfo(handle)
        assert nvml.nvmlDeviceGetIndex(handle) == device.index
        for name in (pci.busId, pci.busIdLegacy, pci.busId.lower()):
            assert nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByPciBusId(name)) == device.index
    assert (pci.domain, pci.pciDeviceId) == (0, 0x233010DE)
    assert refused(nvml, "NOT_FOUND", nvml.nvmlDeviceGetHandleByUUID, "GPU-none")
    assert refused(nvml, "NOT_FOUND", nvml.nvmlDeviceGetHandleByPciBusId, "0000:FF:00.0")


def test_a_handle_that_is_none_is_recognised(nvml: Any) -> None:
    nonsense = ctypes.cast(ctypes.c_void_p(0x1234), nvml.c_nvmlDevice_t)
    assert refused(nvml, "INVALID_ARGUMENT", nvml.nvmlDeviceGetName, nonsense)
    assert refused(nvml, "INVALID_ARGUMENT", nvml.nvmlDeviceGetMemoryInfo, nonsense)


def test_only_cards_listed_for_the_job_are_there_and_counted_from_zero(
    binding: Any, path: Path
) -> None:
    devices = path.parents[1] / "share" / "devices"
    devices.parent.mkdir()
    devices.write_text(MACHINE.devices[2].uuid + "\n")
    binding.nvmlInit()
    assert binding.nvmlDeviceGetCount() == 1
    handle = binding.nvmlDeviceGetHandleByIndex(0)
    assert binding.nvmlDeviceGetUUID(handle) == MACHINE.devices[2].uuid
    assert binding.nvmlDeviceGetIndex(handle) == 0
    assert refused(binding, "NOT_FOUND", binding.nvmlDeviceGetHandleByUUID, MACHINE.devices[0].uuid)
    binding.nvmlShutdown()


# --- use ---


def test_memory_in_both_forms_adds_up(nvml: Any, user: User) -> None:
    user.ask("charge", 0, DEVICE_MEMORY, GIB)
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    for memory in (
        nvml.nvmlDeviceGetMemoryInfo(handle),
        nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2),
    ):
        assert memory.used == GIB + T4_CONTEXT
        assert memory.free + memory.used == memory.total == 15360 << 20
    other = nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(1))
    assert other.used == 0


def test_processes_are_listed_with_their_memory_and_gone_when_they_are(
    nvml: Any, user: User, program: Path, path: Path
) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    with User(program, path) as second:
        second.ask("context", 0)
        second.ask("charge", 0, DEVICE_MEMORY, 2 * GIB)
        listed = {p.pid: p.usedGpuMemory for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        assert listed == {user.pid: T4_CONTEXT, second.pid: 2 * GIB + T4_CONTEXT}
        second.kill()
    assert [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)] == [user.pid]
    assert nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(1)) == []
    assert nvml.nvmlDeviceGetGraphicsRunningProcesses(handle) == []
    assert nvml.nvmlSystemGetProcessName(user.pid).endswith("simgpu-user")


def test_the_older_forms_of_the_process_list_have_entries_of_their_own_size(
    nvml: Any, user: User
) -> None:
    library, handle = nvml.nvmlLib, nvml.nvmlDeviceGetHandleByIndex(0)
    for name, entry in (("", 16), ("_v2", 24), ("_v3", 24)):
        call = getattr(library, f"nvmlDeviceGetComputeRunningProcesses{name}")
        count, room = ctypes.c_uint(0), (ctypes.c_uint8 * 64)(*[0xEE] * 64)
        assert call(handle, ctypes.byref(count), None) == nvml.NVML_ERROR_INSUFFICIENT_SIZE
        assert count.value == 1
        assert call(handle, ctypes.byref(count), room) == 0
        assert int.from_bytes(bytes(room[:4]), "little") == user.pid
        assert int.from_bytes(bytes(room[8:16]), "little") == T4_CONTEXT
        assert set(room[entry:]) == {0xEE}, "nothing is written behind the entry"


def test_the_load_is_whole_percents_of_a_second_and_late(
    binding: Any, program: Path, path: Path
) -> None:
    create_machine(path, MACHINE, virtual=True)
    binding.nvmlInit()
    handle, other = binding.nvmlDeviceGetHandleByIndex(0), binding.nvmlDeviceGetHandleByIndex(1)
    with User(program, path) as user:
        user.ask("submit", 0, 399 * MS)
        user.ask("wait", 0)
        assert binding.nvmlDeviceGetUtilizationRates(handle).gpu == 0, (
            "what began 399 ms ago is not seen yet"
        )
        user.ask("submit", 0, 106 * MS)
        user.ask("copy", 0, 700 * MS)  # no kernel
        user.ask("wait", 0)
        assert binding.nvmlDeviceGetUtilizationRates(handle).gpu == 50, "505 ms of a second"
        (sample,) = binding.nvmlDeviceGetProcessUtilization(handle, 0)
        assert (sample.pid, sample.smUtil) == (user.pid, 50)
        assert binding.nvmlDeviceGetUtilizationRates(other).gpu == 0
        assert refused(binding, "NOT_FOUND", binding.nvmlDeviceGetProcessUtilization, other, 0)
    binding.nvmlShutdown()


def test_power_temperature_and_clocks_stay_within_the_cards_means(nvml: Any) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(2)
    assert nvml.nvmlDeviceGetPowerUsage(handle) == 70_000
    assert nvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 700_000
    assert nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU) == 30
    assert nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) == 1980
    assert nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) < 1980


def test_a_structure_of_another_version_is_refused(nvml: Any) -> None:
    handle, memory = nvml.nvmlDeviceGetHandleByIndex(0), nvml.c_nvmlMemory_v2_t()
    memory.version = 0x03000028
    answer = nvml.nvmlLib.nvmlDeviceGetMemoryInfo_v2(handle, ctypes.byref(memory))
    assert answer == nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


_NULLS = """
import ctypes, subprocess, sys
library = ctypes.CDLL(sys.argv[1])
listed = subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]], check=True, capture_output=True, text=True).stdout
assert library.nvmlInit_v2() == 0
handle, answers = ctypes.c_void_p(), set()
library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
for name in sorted(line.split()[-1] for line in listed.splitlines()):
    if name not in ("nvmlShutdown", "nvmlEventSetFree", "nvmlErrorString"):
        answers.add(getattr(library, name)(handle, None, None, None, None, None))
print(sorted(answers))
"""


def test_no_function_stumbles_over_pointers_to_nothing(path: Path) -> None:
    command = [sys.executable, "-c", _NULLS, str(LIBRARY)]
    env = dict(os.environ, GPUPOOL_SIMGPU=str(path))
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    # Success (of those that want no pointer), invalid argument, not supported, not found, no room,
    # another version.
    assert set(json.loads(done.stdout)) <= {0, 2, 3, 6, 7, 25}


# --- failures ---


def watch(nvml: Any, *places: int) -> Any:
    events = nvml.nvmlEventSetCreate()
    for place in places:
        handle = nvml.nvmlDeviceGetHandleByIndex(place)
        nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlDeviceGetSupportedEventTypes(handle), events)
    return events


def test_an_xid_wakes_who_waits_for_events(nvml: Any, machine: SimulatedMachine) -> None:
    events = watch(nvml, 0, 1)
    later = threading.Timer(0.1, machine.inject_xid, (MACHINE.devices[1].uuid, 31))
    later.start()
    event = nvml.nvmlEventSetWait(events, 20_000)
    assert (event.eventType, event.eventData) == (nvml.nvmlEventTypeXidCriticalError, 31)
    assert nvml.nvmlDeviceGetIndex(event.device) == 1
    assert refused(nvml, "TIMEOUT", nvml.nvmlEventSetWait, events, 1)
    nvml.nvmlEventSetFree(events)
    later.join()


def test_events_of_cards_that_were_not_registered_are_not_told(
    nvml: Any, machine: SimulatedMachine
) -> None:
    events = watch(nvml, 0)
    machine.inject_xid(MACHINE.devices[1].uuid, 31)
    machine.inject_ecc(MACHINE.devices[0].uuid, corrected=3)
    assert nvml.nvmlEventSetWait(events, 0).eventType == nvml.nvmlEventTypeSingleBitEccError
    assert refused(nvml, "TIMEOUT", nvml.nvmlEventSetWait, events, 0)
    nvml.nvmlEventSetFree(events)


def test_ecc_errors_are_counted(nvml: Any, machine: SimulatedMachine) -> None:
    machine.inject_ecc(MACHINE.devices[0].uuid, corrected=3, uncorrected=2)
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    for kind, count in (
        (nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, 3),
        (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, 2),
    ):
        assert nvml.nvmlDeviceGetTotalEccErrors(handle, kind, nvml.NVML_VOLATILE_ECC) == count


def test_a_lost_card_is_lost_to_every_question(nvml: Any, machine: SimulatedMachine) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    machine.lose_card(MACHINE.devices[0].uuid)
    assert refused(nvml, "GPU_IS_LOST", nvml.nvmlDeviceGetName, handle)
    assert refused(nvml, "GPU_IS_LOST", nvml.nvmlDeviceGetMemoryInfo, handle)
    assert refused(nvml, "GPU_IS_LOST", nvml.nvmlDeviceGetHandleByIndex, 0)
    assert nvml.nvmlDeviceGetCount() == 3
    assert nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(1)) == "Tesla T4"
    machine.heal_card(MACHINE.devices[0].uuid)
    assert nvml.nvmlDeviceGetName(handle) == "Tesla T4"


# --- our own probe, as on a machine with cards ---


def test_our_probe_sees_the_simulated_machine_as_a_real_one(path: Path, user: User) -> None:
    user.ask("charge", 0, DEVICE_MEMORY, GIB)
    env = dict(os.environ, LD_LIBRARY_PATH=str(simgpu_dir()), GPUPOOL_SIMGPU=str(path))
    command = [sys.executable, str(REPORT), str(path.parent)]
    report = json.loads(
        subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    )
    assert report["available"] == {"ok": True, "reason": ""}
    assert [d["uuid"] for d in report["devices"]] == [d.uuid for d in MACHINE.devices]
    assert [d["model"] for d in report["devices"]] == ["T4", "T4", "H100"]
    usage = report["usage"][MACHINE.devices[0].uuid]
    assert usage["memory_used_bytes"] == GIB + T4_CONTEXT
    assert [p["pid"] for p in usage["processes"]] == [user.pid]
    assert {health for health, _ in report["health"].values()} == {"ok"}


def test_our_probe_sums_the_samples_of_each_process(binding: Any, user: User) -> None:
    probe, uuid = NvmlProbe(), MACHINE.devices[0].uuid
    assert probe.process_times([uuid]) == {uuid: {user.pid: 0}}
    user.ask("submit", 0, 700 * MS)
    user.ask("wait", 0)
    (told,) = probe.process_times([uuid]).values()
    assert 200 * MS <= told[user.pid] <= 1000 * MS, "a part of the second that the driver tells of"
    probe.close()
