"""The NVML probe, run through pynvml and the dynamic linker against a compiled library that stands in for
the driver.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpupool.model.device import Health
from gpupool.probes.accounting import ACCOUNTING_IS_OFF
from gpupool.probes.nvml import NvmlProbe, judge_xid, pci_address

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]
    subprocess.run([*command, folder / "libnvidia-ml.so.1", HERE / "fake_nvml.c"], check=True)
    return folder


@pytest.fixture(scope="module")
def sysfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sys")
    for address, node in (("0000:3b:00.0", "1"), ("0000:3c:00.0", "-1")):
        (root / "bus/pci/devices" / address).mkdir(parents=True)
        (root / "bus/pci/devices" / address / "numa_node").write_text(f"{node}\n")
    for node in ("card1", "renderD128"):
        (root / "bus/pci/devices/0000:3c:00.0/drm" / node).mkdir(parents=True)
    return root


STARTED_NS = 123 * 10**9
"""Since the machine was booted."""


def wall_us(boot_ns: int) -> str:
    """The same moment as NVML tells it."""
    return str((time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) + boot_ns) // 1000)


def ask(library: Path | None, scene: str, sysfs: Path, pid: int = 0) -> dict[str, Any]:
    environment = {
        **os.environ,
        "FAKE_NVML_SCENE": scene,
        "FAKE_NVML_PID": str(pid),
        "FAKE_NVML_START_US": wall_us(STARTED_NS),
    }
    if library is not None:
        environment["LD_LIBRARY_PATH"] = str(library)
    script = [sys.executable, str(HERE / "nvml_report.py"), str(sysfs)]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def pair(library: Path, sysfs: Path) -> dict[str, Any]:
    return ask(library, "pair", sysfs, pid=os.getpid())


@pytest.fixture(scope="module")
def switch(library: Path, sysfs: Path) -> dict[str, Any]:
    return ask(library, "switch", sysfs)


def test_a_card_is_described_with_what_the_driver_and_the_kernel_say(pair: dict[str, Any]) -> None:
    card = pair["devices"][0]
    assert (card["product"], card["model"], card["memory_bytes"]) == ("NVIDIA H200", "H200", 143771 << 20)
    assert (card["pci_address"], card["device_paths"]) == ("0000:3b:00.0", ["/dev/nvidia0"])
    assert (card["architecture"], card["compute_capability"]) == ("hopper", [9, 0])
    assert (card["driver_version"], card["ecc_enabled"], card["simulated"]) == ("580.95.05", True, False)
    assert pair["machine"] == {"driver": "580.95.05", "cuda": "13.0", "sim": False}


def test_the_graphics_nodes_of_a_card_are_among_its_device_nodes(pair: dict[str, Any]) -> None:
    assert pair["devices"][1]["device_paths"] == ["/dev/nvidia1", "/dev/dri/card1", "/dev/dri/renderD128"]


def test_a_numa_node_the_kernel_does_not_know_is_unknown(pair: dict[str, Any]) -> None:
    assert [card["numa_node"] for card in pair["devices"]] == [1, None, None]


def test_a_call_the_card_does_not_support_gives_unknown_and_not_zero(pair: dict[str, Any]) -> None:
    t4 = pair["devices"][2]
    assert (t4["model"], t4["ecc_enabled"], t4["partitioned"], t4["profiles"]) == ("T4", None, None, [])
    assert t4["health"] == "ok"
    usage = pair["usage"][t4["uuid"]]
    assert (usage["utilization_percent"], usage["power_watts"], usage["processes"]) == (None, None, None)
    assert usage["memory_used_bytes"] == 1024 << 20, "the first form of the call still answers"


def test_memory_in_use_leaves_out_what_the_driver_keeps_for_itself(pair: dict[str, Any]) -> None:
    assert pair["usage"]["GPU-00000001-aaaa"]["memory_used_bytes"] == 424 << 20


def test_load_is_read_and_a_card_that_is_not_there_is_absent(pair: dict[str, Any]) -> None:
    usage = pair["usage"]["GPU-00000001-aaaa"]
    assert (usage["utilization_percent"], usage["power_watts"], usage["temperature_celsius"]) == (37, 122, 41)
    assert "GPU-nobody" not in pair["usage"]


def test_a_foreign_process_is_shown_once_with_its_owner_name_and_start(pair: dict[str, Any]) -> None:
    shown = {p["pid"]: p for p in pair["usage"]["GPU-00000001-aaaa"]["processes"]}
    assert sorted(shown) == sorted({1, os.getpid()})
    ours = shown[os.getpid()]
    assert (ours["uid"], ours["memory_bytes"]) == (os.getuid(), 7 << 20)
    assert ours["name"] == Path("/proc/self/comm").read_text().strip()
    assert 0 < ours["started_at_ns"] < (Path("/proc/self").stat().st_mtime_ns + 3600 * 10**9)


def test_clients_of_the_multi_process_service_are_listed_by_an_older_drivers_call(pair: dict[str, Any]) -> None:
    shown = {p["pid"]: p["memory_bytes"] for p in pair["usage"]["GPU-00000001-aaaa"]["processes"]}
    assert shown[1] == 3 << 20


def test_ended_processes_are_told_with_a_percent_less_than_the_driver_rounds_to(pair: dict[str, Any]) -> None:
    """Not the one that runs, nor one whose use was not measured, nor one that is not in the ring any more."""
    (ended,) = pair["ended"]["GPU-00000001-aaaa"]["processes"]
    assert (ended["pid"], ended["gpu_ns"]) == (4001, 1_000_000_000)
    assert abs(ended["start_ns"] - STARTED_NS) < 10**9


def test_a_card_without_accounting_says_why_it_tells_of_no_ended_process(pair: dict[str, Any]) -> None:
    off, t4 = (pair["ended"][uuid] for uuid in ("GPU-00000000-aaaa", "GPU-00000002-aaaa"))
    assert off == {"processes": [], "reason": ACCOUNTING_IS_OFF}
    assert t4["processes"] == []
    assert "no accounting mode" in t4["reason"]


def test_an_operator_is_told_where_accounting_is_off_and_what_turns_it_on(pair: dict[str, Any]) -> None:
    assert pair["accounting"].startswith("off on 1 of 3 cards: ")
    assert "`nvidia-smi -am 1`" in pair["accounting"]


def test_shapes_are_taken_from_the_card_and_not_from_a_table(pair: dict[str, Any]) -> None:
    shapes = {p["name"]: p for p in pair["devices"][0]["profiles"]}
    assert shapes["3g.71gb"]["starts"] == [0, 4]
    assert (shapes["3g.71gb"]["size"], shapes["3g.71gb"]["profile_id"]) == (4, 9)
    assert shapes["3g.71gb"]["gpu_milli"] == 428
    assert (shapes["1g.18gb+me"]["media"], shapes["1g.18gb"]["media"]) == (True, False)


def test_partitions_that_exist_are_seen_with_place_and_uuid(pair: dict[str, Any]) -> None:
    first, second, _ = pair["devices"]
    assert (first["partitioned"], second["partitioned"], second["partitions"]) == (True, False, [])
    (piece,) = first["partitions"]
    assert piece["placement"] == {"start": 4, "size": 4, "profile": "3g.71gb"}
    assert (piece["uuid"], piece["gpu_instance"]) == ("MIG-7f3c1d2e-0000-5000-8000-000000000001", 2)


def test_links_between_two_cards_are_counted_once(pair: dict[str, Any]) -> None:
    (link,) = pair["links"]
    assert (link["a"], link["b"]) == ("GPU-00000000-aaaa", "GPU-00000001-aaaa")
    assert (link["kind"], link["count"]) == ("nvlink", 4)
    assert pair["distances"] == [[0, 1, 6], [1, 0, 6], [6, 6, 0]]


def test_behind_a_switch_every_pair_is_equally_near_although_the_sockets_differ(switch: dict[str, Any]) -> None:
    distances = switch["distances"]
    assert all(distances[i][j] == (0 if i == j else 2) for i in range(4) for j in range(4))
    assert switch["domains"]["numa"] == [
        ["GPU-00000000-bbbb", "GPU-00000001-bbbb"],
        ["GPU-00000002-bbbb", "GPU-00000003-bbbb"],
    ]


def test_a_programs_own_error_leaves_the_card_well_and_a_fatal_one_does_not(pair: dict[str, Any]) -> None:
    ((first,), (second,), (third,), *rest) = pair["events"]
    assert (first["uuid"], first["xid"], first["health"]) == ("GPU-00000001-aaaa", 31, "ok")
    assert (second["xid"], second["health"]) == (79, "failed")
    assert (third["xid"], third["health"]) == (43, "failed"), "a harmless event does not heal a card"
    assert rest == [[]], "nothing more happened"
    assert pair["health"]["GPU-00000001-aaaa"] == ["failed", "the card has fallen off the bus (XID 79)"]


def test_the_cards_own_counters_speak_of_its_health(library: Path, sysfs: Path) -> None:
    health = list(ask(library, "ill", sysfs)["health"].values())
    assert health[0] == ["failed", "the driver has lost the card"]
    assert health[1][0] == "warning"
    assert health[1][1].startswith("2 uncorrected memory errors")
    assert "waits to be remapped" in health[1][1]
    assert health[2] == ["failed", "a memory row could not be remapped: the card needs repair"]
    assert health[3] == ["ok", ""]


def test_a_card_the_driver_has_lost_is_still_shown_as_what_it_is(library: Path, sysfs: Path) -> None:
    lost = ask(library, "ill", sysfs)["devices"][0]
    assert (lost["model"], lost["memory_bytes"], lost["health"]) == ("H100", 81559 << 20, "failed")


@pytest.mark.parametrize(
    ("scene", "words"),
    [("unloaded", "kernel module is not loaded"), ("mismatched", "updated while loaded"), ("empty", "shows no card")],
)
def test_a_driver_that_cannot_serve_says_why(library: Path, sysfs: Path, scene: str, words: str) -> None:
    available = ask(library, scene, sysfs)["available"]
    assert available["ok"] is False
    assert words in available["reason"]


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has the driver")
def test_without_the_library_the_probe_says_that_no_driver_is_installed() -> None:
    available = NvmlProbe().available()
    assert not available.ok
    assert "not installed" in available.reason


def test_an_unlisted_xid_is_a_warning() -> None:
    assert judge_xid(7)[0] is Health.WARNING


@pytest.mark.parametrize(
    ("theirs", "ours"), [("00000000:AF:00.0", "0000:af:00.0"), ("00010000:01:00.0", "10000:01:00.0")]
)
def test_addresses_are_written_as_the_kernel_writes_them(theirs: str, ours: str) -> None:
    assert pci_address(theirs) == ours
