"""The NVML probe, run through pynvml and the dynamic linker against a compiled library that
stands in for the driver."""

import os
from pathlib import Path
from typing import Any

from tests.unit.probes.fake_driver import ask_probe


def test_a_card_is_described_with_what_the_driver_and_the_kernel_say(pair: dict[str, Any]) -> None:
    card = pair["devices"][0]
    assert (card["product"], card["model"], card["memory_bytes"]) == (
        "NVIDIA H200",
        "H200",
        143771 << 20,
    )
    assert (card["pci_address"], card["device_paths"]) == ("0000:3b:00.0", ["/dev/nvidia0"])
    assert (card["architecture"], card["compute_capability"]) == ("hopper", [9, 0])
    assert (card["driver_version"], card["ecc_enabled"], card["simulated"]) == (
        "580.95.05",
        True,
        False,
    )
    assert pair["machine"] == {"driver": "580.95.05", "cuda": "13.0", "sim": False}


def test_the_graphics_nodes_of_a_card_are_among_its_device_nodes(pair: dict[str, Any]) -> None:
    assert pair["devices"][1]["device_paths"] == [
        "/dev/nvidia1",
        "/dev/dri/card1",
        "/dev/dri/renderD128",
    ]


def test_a_numa_node_the_kernel_does_not_know_is_unknown(pair: dict[str, Any]) -> None:
    assert [card["numa_node"] for card in pair["devices"]] == [1, None, None]


def test_a_call_the_card_does_not_support_gives_unknown_and_not_zero(pair: dict[str, Any]) -> None:
    t4 = pair["devices"][2]
    assert (t4["model"], t4["ecc_enabled"], t4["partitioned"], t4["profiles"]) == (
        "T4",
        None,
        None,
        [],
    )
    assert t4["health"] == "ok"
    usage = pair["usage"][t4["uuid"]]
    assert (usage["utilization_percent"], usage["power_watts"], usage["processes"]) == (
        None,
        None,
        None,
    )
    assert usage["energy_millijoules"] is None
    assert usage["memory_used_bytes"] == 1024 << 20, "the first form of the call still answers"


def test_memory_in_use_leaves_out_what_the_driver_keeps_for_itself(pair: dict[str, Any]) -> None:
    assert pair["usage"]["GPU-00000001-aaaa"]["memory_used_bytes"] == 424 << 20


def test_load_is_read_and_a_card_that_is_not_there_is_absent(pair: dict[str, Any]) -> None:
    usage = pair["usage"]["GPU-00000001-aaaa"]
    assert (usage["utilization_percent"], usage["power_watts"], usage["temperature_celsius"]) == (
        37,
        122,
        41,
    )
    assert usage["energy_millijoules"] == 9_876_543_210
    assert "GPU-nobody" not in pair["usage"]


def test_a_foreign_process_is_shown_once_with_its_owner_name_and_start(
    pair: dict[str, Any],
) -> None:
    shown = {p["pid"]: p for p in pair["usage"]["GPU-00000001-aaaa"]["processes"]}
    assert sorted(shown) == sorted({1, os.getpid()})
    ours = shown[os.getpid()]
    assert (ours["uid"], ours["memory_bytes"]) == (os.getuid(), 7 << 20)
    assert ours["name"] == Path("/proc/self/comm").read_text().strip()
    assert 0 < ours["started_at_ns"] < (Path("/proc/self").stat().st_mtime_ns + 3600 * 10**9)


def test_clients_of_the_multi_process_service_are_listed_by_an_older_drivers_call(
    pair: dict[str, Any],
) -> None:
    shown = {p["pid"]: p["memory_bytes"] for p in pair["usage"]["GPU-00000001-aaaa"]["processes"]}
    assert shown[1] == 3 << 20


def test_a_programs_own_error_leaves_the_card_well_and_a_fatal_one_does_not(
    pair: dict[str, Any],
) -> None:
    ((first,), (second,), (third,), *rest) = pair["events"]
    assert (first["uuid"], first["xid"], first["health"]) == ("GPU-00000001-aaaa", 31, "ok")
    assert (second["xid"], second["health"]) == (79, "failed")
    assert (third["xid"], third["health"]) == (43, "failed"), (
        "a harmless event does not heal a card"
    )
    assert rest == [[]], "nothing more happened"
    assert pair["health"]["GPU-00000001-aaaa"] == [
        "failed",
        "the card has fallen off the bus (XID 79)",
    ]


def test_the_drivers_recovery_action_decides_where_it_is_graver(library: Path, sysfs: Path) -> None:
    report = ask_probe(library, "recovery", sysfs)
    found = [(e["xid"], e["recovery"], e["health"]) for events in report["events"] for e in events]
    assert found == [(109, "none", "ok"), (13, "none", "ok"), (154, "gpu-reset", "failed")]
    assert report["health"]["GPU-00000001-aaaa"][1].endswith(
        "(XID 154; the driver recommends gpu-reset)"
    )


def test_a_card_the_driver_has_lost_is_still_shown_as_what_it_is(
    library: Path, sysfs: Path
) -> None:
    lost = ask_probe(library, "ill", sysfs)["devices"][0]
    assert (lost["model"], lost["memory_bytes"], lost["health"]) == ("H100", 81559 << 20, "failed")
