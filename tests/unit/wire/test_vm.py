"""What a submission may say of a virtual machine."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gpupool.model.vm import VM_COMMAND, VmSpec
from gpupool.wire.submissions import JobIn
from gpupool.wire.vm import VmIn

VM = {"cpus": 2, "ram_bytes": 1 << 30, "image": "/i.qcow2"}
SHAPE = {"gpu_milli": 1000}
LAUNCH = {"argv": [VM_COMMAND, "/i.qcow2"], "vm": VM}


def test_a_vm_becomes_the_facts_of_the_model() -> None:
    assert VmIn.model_validate(VM).to_spec() == VmSpec(2, 1 << 30, "/i.qcow2")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cpus": "2"}, "valid integer"),
        ({"cpus": 0}, "greater than or equal to 1"),
        ({"ram_bytes": (1 << 30) + 1}, "multiple of"),
        ({"ram_bytes": 1 << 20}, "greater than"),
        ({"image": "i.qcow2"}, "absolute"),
        ({"image": "/a\nb"}, "one line"),
        ({"image": None}, "got neither"),
        ({"append": "quiet"}, "need a kernel"),
        ({"kernel": "/k", "append": "a\nb"}, "one line"),
        ({"ssh_keys": ["ssh-ed25519"]}, "public key"),
        ({"ssh_keys": ["a b\nc d"]}, "public key"),
        ({"cloud_init": "x" * 70_000}, "at most"),
        ({"machine": "x"}, "Extra inputs"),
        ({"firmware": "coreboot"}, "'bios' or 'uefi'"),
        ({"continues": "../j-1"}, "pattern"),
        ({"identity": "j-1"}, "VM that is continued"),
        ({"continues": "j-1", "cloud_init": ""}, "keeps its seed"),
    ],
)
def test_what_no_node_could_start_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        VmIn.model_validate({**VM, **change})


def test_the_command_alone_says_that_a_job_is_a_vm() -> None:
    JobIn.model_validate({"shape": SHAPE, "launch": LAUNCH})
    for launch in ({**LAUNCH, "vm": None}, {**LAUNCH, "argv": ["true"]}):
        with pytest.raises(ValidationError, match="if and only if"):
            JobIn.model_validate({"shape": SHAPE, "launch": launch})


@pytest.mark.parametrize(
    "more",
    [
        {"array": 2},
        {"attached": True},
        {"gang": {"name": "g", "parts": [{"name": "r", "count": 2}]}},
    ],
)
def test_a_vm_is_one_job_of_its_own(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="one job of its own"):
        JobIn.model_validate({"shape": SHAPE, "launch": LAUNCH, **more})


def test_no_member_of_a_gang_is_a_vm() -> None:
    parts = [{"name": "r", "count": 2, "argv": [VM_COMMAND]}]
    body = {"shape": SHAPE, "launch": {"argv": ["true"]}, "gang": {"name": "g", "parts": parts}}
    with pytest.raises(ValidationError, match="member of a gang"):
        JobIn.model_validate(body)
