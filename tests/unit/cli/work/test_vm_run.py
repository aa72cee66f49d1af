"""`gpupool vm run`: what is wrong on this side is said before the pool is asked."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpupool.base.errors import BadOption, NotFound, VmRejection, WrongState
from gpupool.cli.work.vm_files import find_pool_paths, is_vm, require_running
from gpupool.cli.work.vm_run import build_body, check_cards
from gpupool.client.transport import Api
from gpupool.model.vm import GIB, MIB, VM_COMMAND


def make_api(path: str | None = None) -> Api:
    """A pool at a socket of this machine, or elsewhere."""
    made = SimpleNamespace(endpoint=SimpleNamespace(path=path), local=path is not None)
    return cast(Api, made)


def make_options(**more: Any) -> argparse.Namespace:
    usual = {
        "gpu": "1", "model": None, "image": "/images/i.qcow2", "kernel": None, "initrd": None,
        "append": "", "firmware": "bios", "cpus": 2, "ram": "2GiB", "ssh_key": [], "cloud_init": None, "name": "dev",
        "max_time": None, "no_wait": False, "network": None, "address": None, "security_group": [],
    }  # fmt: skip
    return argparse.Namespace(**usual | more)


def test_a_vm_names_its_network_with_its_address_and_groups_or_none() -> None:
    assert "network" not in build_body(make_options(), make_api())["launch"]
    options = make_options(network="lab", address="10.0.0.20", security_group=["web"])
    assert build_body(options, make_api())["launch"]["network"] == {
        "name": "lab", "address": "10.0.0.20", "security_groups": ["web"],
    }  # fmt: skip
    with pytest.raises(BadOption, match=r"10\.0\.0\.20 without a network"):
        build_body(make_options(address="10.0.0.20"), make_api())


def test_the_body_of_a_vm_holds_whole_cards_and_qemus_memory() -> None:
    body = build_body(make_options(gpu="2", max_time="1h"), make_api())
    assert body["shape"] == {
        "gpu_milli": 1000, "count": 2, "sharing": "fixed", "cpu_milli": 2000,
        "host_bytes": 2 * GIB + 512 * MIB,
    }  # fmt: skip
    assert body["launch"]["argv"] == [VM_COMMAND, "/images/i.qcow2"]
    assert body["launch"]["env"] == {}
    assert body["launch"]["vm"]["ram_bytes"] == 2 * GIB
    assert (body["name"], body["max_seconds"], body["wait"]) == ("dev", 3600, True)
    assert "firmware" not in body["launch"]["vm"]
    vm = build_body(make_options(firmware="uefi"), make_api())["launch"]["vm"]
    assert vm["firmware"] == "uefi"


@pytest.mark.parametrize(
    ("gpu", "reason"),
    [
        ("0.3", "whole cards"),
        ("0", "asked for by name"),
        ("x", "whole cards"),
    ],
)
def test_what_is_no_whole_card_is_refused_with_the_reason(gpu: str, reason: str) -> None:
    with pytest.raises(VmRejection, match=reason):
        check_cards(gpu)


def test_a_vm_without_a_card_holds_processors_and_memory_alone() -> None:
    body = build_body(make_options(gpu="none"), make_api())
    assert body["shape"] == {
        "gpu_milli": 0, "count": 0, "sharing": "fixed", "cpu_milli": 2000,
        "host_bytes": 2 * GIB + 512 * MIB,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"gpu": "none", "model": "H200"}, "--model H200 with --gpu none"),
        ({"image": None}, "boot from"),
        ({"initrd": "/i"}, "need a kernel"),
        ({"append": "quiet"}, "need a kernel"),
        ({"ram": "1MiB"}, "64 MiB to 16 TiB"),
        ({"ssh_key": ["/absent"]}, "No such file"),
        ({"cloud_init": "/absent"}, "No such file"),
    ],
)
def test_options_that_make_no_vm_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadOption, match=reason):
        build_body(make_options(**options), make_api())


def test_a_private_key_is_never_sent(tmp_path: Path) -> None:
    key = tmp_path / "id"
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n")
    with pytest.raises(BadOption) as caught:
        build_body(make_options(ssh_key=[str(key)]), make_api())
    assert caught.value.hint == f"--ssh-key {key}.pub"


def test_files_for_the_guest_are_sent_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "id.pub").write_text("ssh-ed25519 AAAA me@host\n")
    (tmp_path / "user-data").write_text("#cloud-config\n{}\n")
    options = make_options(
        ssh_key=[str(tmp_path / "id.pub")], cloud_init=str(tmp_path / "user-data")
    )
    vm = build_body(options, make_api())["launch"]["vm"]
    assert vm["ssh_keys"] == ["ssh-ed25519 AAAA me@host"]
    assert vm["cloud_init"] == "#cloud-config\n{}\n"


def test_user_data_has_a_largest_size(tmp_path: Path) -> None:
    (tmp_path / "user-data").write_text("x" * 70_000)
    with pytest.raises(BadOption, match="70000 bytes"):
        build_body(make_options(cloud_init=str(tmp_path / "user-data")), make_api())


def test_the_files_of_a_vm_are_below_the_pools_directory() -> None:
    assert find_pool_paths(make_api("/pool/gpupool.sock")).vms == Path("/pool/agent/vms")
    system = find_pool_paths(make_api("/run/gpupool/gpupool.sock"))
    assert system.images == Path("/var/lib/gpupool/images")
    with pytest.raises(NotFound, match="own machine"):
        find_pool_paths(make_api())


def test_only_a_command_of_the_pools_own_is_a_vm() -> None:
    assert is_vm({"command": [VM_COMMAND, "/i"]})
    assert not is_vm({"command": ["qemu-system-x86_64"]})
    assert not is_vm({"command": []})  # private: not for this caller


def test_a_vm_that_does_not_run_is_named_with_its_state() -> None:
    require_running({"name": "dev", "state": "running"})
    with pytest.raises(WrongState, match="it is pending"):
        require_running({"name": "dev", "state": "pending"})
