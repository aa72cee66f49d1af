"""`gpupool vm list`: what is shown of a VM here, of another account's, and of a deleted one."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpupool.cli.work import vm_list
from gpupool.cli.work.vm_list import COLUMNS, describe_vm
from gpupool.client.transport import Api
from gpupool.model.vm import VM_COMMAND
from gpupool.terminal.output import Row
from gpupool.vm.address import LiveVm
from gpupool.vm.files import VmFiles
from tests.unit.vm.test_files import make_record

JOB = {
    "id": "j-1", "name": "dev", "state": "running", "reason": "", "simulated": True, "user": "ann",
    "seats": [{"device": "sim-0:0"}, {"device": "sim-0:1"}], "command": [VM_COMMAND, "/i"],
    "network": None, "address": None, "address6": None,
}  # fmt: skip


@pytest.fixture
def api(tmp_path: Path) -> Api:
    endpoint = SimpleNamespace(path=str(tmp_path / "gpupool.sock"))
    return cast(Api, SimpleNamespace(endpoint=endpoint, local=True))


@pytest.fixture
def files(tmp_path: Path) -> VmFiles:
    made = VmFiles(tmp_path / "agent" / "vms", "j-1")
    made.make_directories(os.geteuid(), os.getegid())
    made.disk.touch()
    made.write_record(make_record(), os.geteuid(), os.getegid())
    return made


def cells(row: Row) -> dict[str, Any]:
    return {column.title: column.text(row) for column in COLUMNS}


def test_a_running_vm_is_shown_with_its_address_and_why_it_is_slow(
    api: Api, files: VmFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = LiveVm("running", ("127.0.0.1", 44093))
    monkeypatch.setattr(vm_list, "read_live_vm", lambda control: live)
    row = describe_vm(api, JOB)
    assert (row["disk"], row["emulated"], row["devices"]) == (True, True, [])
    shown = cells(row)
    assert shown["STATE"] == "running (emulated)"
    assert shown["CARDS"] == "sim-0:0, sim-0:1"
    assert shown["DEVICES"] == "none: simulated"
    assert shown["ADDRESS"] == "127.0.0.1:44093"
    assert shown["WHY EMULATED"] == "no node"


def test_a_vm_of_a_network_is_shown_with_its_address_there(api: Api) -> None:
    row = describe_vm(api, {**JOB, "network": "lab", "address": "10.0.0.20"})
    assert (row["network"], row["address"]) == ("lab", "10.0.0.20")


def test_what_its_qemu_says_goes_before_the_state_of_its_job(
    api: Api, files: VmFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vm_list, "read_live_vm", lambda control: LiveVm("paused", None))
    assert describe_vm(api, JOB)["state"] == "paused"


def test_a_qemu_that_does_not_answer_leaves_the_address_unknown(api: Api, files: VmFiles) -> None:
    row = describe_vm(api, JOB)
    assert (row["state"], row["address"]) == ("running", None)


def test_real_devices_are_named(api: Api, files: VmFiles) -> None:
    record = make_record(
        devices=("0000:01:00.0",), simulated=False, accelerator="kvm", emulated_why=""
    )
    files.write_record(record, os.geteuid(), os.getegid())
    shown = cells(describe_vm(api, {**JOB, "state": "done", "simulated": False}))
    assert (shown["DEVICES"], shown["STATE"], shown["WHY EMULATED"]) == (
        "0000:01:00.0", "ended", None,
    )  # fmt: skip


def test_without_files_here_everything_of_the_guest_is_unknown(api: Api) -> None:
    remote = cast(Api, SimpleNamespace(endpoint=SimpleNamespace(path=None), local=False))
    for one in (api, remote):
        row = describe_vm(one, JOB)
        assert (row["devices"], row["accelerator"], row["emulated"]) == (None, None, None)
        assert row["disk"] in (False, None)
