"""gpupool's hand-over code inside a real machine: Debian's kernel in QEMU, with an IOMMU.

The guest has QEMU's `edu` device, which stands for a card with one BAR, and an NVMe disk with SR-IOV.
`guest_program.py` runs there as root and prints what the kernel's own files say. No virtualisation is
needed; the processor is emulated.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.guest_image import build_archive, build_command, find_missing_part

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part()),
]

#: Modules that the program imports, and those that Python loads by itself.
IMPORTS = (
    "errno, fcntl, json, os, random, signal, struct, subprocess, sys, time, pathlib",
    "_md5, _sha1, _sha256, _sha512, _sha3, _blake2",
    "gpupool.mechanisms.passthrough",
    "gpupool.mechanisms.sriov",
    "gpupool.mechanisms.slow_step",
    "gpupool.mechanisms.pci.operations",
    "gpupool.base.errors",
)
NVME = (
    "-device nvme,id=nvme0,serial=dead,subsys=sub0,bus=rp0,sriov_max_vfs=4,max_ioqpairs=14,"
    "sriov_vq_flexible=8,sriov_vi_flexible=4,msix_qsize=10"
)
DEVICES = (
    "-device pcie-root-port,id=rp0,slot=1",
    "-device pcie-root-port,id=rp1,slot=2",
    "-device nvme-subsys,id=sub0",
    "-device edu,bus=rp1",
    NVME,
    "-drive if=none,id=disk0,driver=null-co,size=16M",
    "-device nvme-ns,drive=disk0,bus=nvme0",
)
#: On two cores with the lowest priority the guest took 45 s at a load of 5, and 171 s at 15.
TIMEOUT_SECONDS = 600

PLAIN = [None, "(null)\n"]
GIVEN = ["vfio-pci", "vfio-pci\n"]


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the guest printed, by check; `kills` by mechanism."""
    archive = tmp_path_factory.mktemp("guest") / "archive.gz"
    build_archive(archive, Path(__file__).with_name("guest_program.py"), IMPORTS)
    done = subprocess.run(
        build_command(archive, DEVICES),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    output = done.stdout.decode(errors="replace")
    found = {}
    for line in output.splitlines():
        at = line.find('{"check"')
        if at >= 0:
            entry = json.loads(line[at:])
            found[f"{entry['check']} {entry.get('mechanism', '')}".strip()] = entry
    assert "program ended with 0" in output, output[-4000:]
    return found


@pytest.fixture(scope="module")
def edu(checks: dict[str, Any]) -> str:
    return str(checks["started"]["edu"])


def test_a_slow_step_binds_the_card_and_its_node_appears(checks: dict[str, Any], edu: str) -> None:
    prepared = checks["prepared"]
    assert prepared["state"][edu] == GIVEN
    assert str(prepared["group"]) in prepared["state"]["nodes"]
    assert prepared["nodes"] == ["/dev/vfio/vfio", f"/dev/vfio/{prepared['group']}"]
    assert (prepared["driver"], prepared["bars"], prepared["problem"]) == (
        "vfio-pci",
        [1 << 20],
        "",
    )


def test_the_card_answers_through_vfio(checks: dict[str, Any]) -> None:
    assert checks["opened"]["id"] == "0x11e81234"
    assert checks["opened"]["bar"] == "0x10000ed"


def test_an_open_card_is_not_released_and_the_process_is_named(
    checks: dict[str, Any], edu: str
) -> None:
    in_use = checks["in-use"]
    assert f"(pid {in_use['pid']})" in in_use["message"]
    assert in_use["state"][edu] == GIVEN


def test_releasing_restores_what_the_kernel_showed_before(checks: dict[str, Any]) -> None:
    released = checks["released"]
    assert released["after"] == released["before"]
    assert released["left"] == []


def test_a_disk_in_use_and_a_busy_card_are_refused(checks: dict[str, Any]) -> None:
    refused = checks["refused"]
    nvme = checks["started"]["nvme"]
    assert f"the host uses {nvme}: disk nvme0" in refused["disk"]
    assert refused["free"] == ""
    assert f"in use by busybox (pid {refused['pid']}) on /dev/zero" in refused["busy"]


def test_two_functions_become_three_only_by_way_of_none(checks: dict[str, Any]) -> None:
    functions = checks["functions"]
    assert len(functions["virtual"]) == 2
    assert functions["drivers"] == [PLAIN, PLAIN]
    assert functions["raw"] == "EBUSY"
    assert "has 2 virtual functions: they must go to 0" in functions["refusal"]


def test_a_late_release_leaves_the_next_owner_of_an_address_alone(checks: dict[str, Any]) -> None:
    virtual = checks["virtual"]
    assert virtual["first"] != virtual["second"]
    assert virtual["heir"] == virtual["first"], "the address was used again"
    assert virtual["state"] == GIVEN
    assert "all 2 virtual functions" in virtual["third"]
    assert checks["virtual-opened"]["id"] == "0x101b36"


def test_a_card_in_the_mode_is_handed_over_without_a_change(
    checks: dict[str, Any], edu: str
) -> None:
    switched = checks["switched"]
    assert switched["inside"][edu] == GIVEN
    assert switched["between"] == switched["inside"]
    assert switched["after"] == switched["before"]


@pytest.mark.parametrize("mechanism", ["passthrough", "sriov"])
def test_a_kill_before_or_after_any_write_leaks_nothing(
    checks: dict[str, Any], mechanism: str
) -> None:
    kills = checks[f"kills {mechanism}"]
    assert kills["leaks"] == []
    assert kills["same"]
    # Two writes each way: before and after each of them.
    assert kills["kills"] == {"prepare": 4, "unprepare": 4}


def test_kills_at_random_moments_leak_nothing(checks: dict[str, Any]) -> None:
    random_kills = checks["random-kills"]
    print(f"{random_kills['kills']} kills, {random_kills['leaks']} leaks")
    assert random_kills["kills"] == 40
    assert random_kills["leaks"] == 0


def test_the_machine_ends_as_it_started(checks: dict[str, Any]) -> None:
    assert checks["finished"]["virtual"] == []
    assert checks["finished"]["state"] == checks["started"]["state"]
