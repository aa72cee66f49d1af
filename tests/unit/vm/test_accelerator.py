"""Whether this host runs guests: the answer is found by a guest, and kept until the next boot."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpupool.vm.accelerator import (
    LIMIT_SECONDS,
    RECORD,
    AcceleratorChoice,
    boot_probe,
    choose_accelerator,
)

QEMU = shutil.which("qemu-system-x86_64")
needs_qemu = pytest.mark.skipif(QEMU is None, reason="no QEMU: apt-get install qemu-system-x86")


def write_qemu(folder: Path, script: str) -> str:
    """A program in QEMU's place that counts its starts."""
    program = folder / "qemu"
    program.write_text(f"#!/bin/sh\necho >> {folder}/starts\n{script}\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def host(tmp_path: Path) -> dict[str, Path]:
    """A host with a node that opens, and an id of its boot."""
    node = tmp_path / "kvm"
    node.write_text("")
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("boot-1\n")
    return {"node": node, "boot_id": boot_id}


def count_starts(folder: Path) -> int:
    return len((folder / "starts").read_text().splitlines())


@needs_qemu
def test_the_guest_ends_itself_where_guests_run(tmp_path: Path) -> None:
    assert QEMU is not None
    # Emulation always works; a busy machine needs more than the usual limit.
    assert boot_probe(tmp_path, QEMU, "tcg", seconds=60) == ""
    assert list(tmp_path.iterdir()) == []


@needs_qemu
def test_the_answer_about_this_host_comes_from_a_guest(tmp_path: Path) -> None:
    assert QEMU is not None
    choice = choose_accelerator(tmp_path, QEMU)
    assert (choice.name == "kvm") is (choice.why == "")
    assert choose_accelerator(tmp_path, QEMU) == choice


def test_without_a_node_vms_are_emulated(tmp_path: Path) -> None:
    choice = choose_accelerator(tmp_path, "/none", node=tmp_path / "kvm")
    assert choice == AcceleratorChoice("tcg", f"there is no {tmp_path}/kvm")


def test_a_node_that_works_is_used(tmp_path: Path, host: dict[str, Path]) -> None:
    qemu = write_qemu(tmp_path, "exit 33")
    assert choose_accelerator(tmp_path, qemu, **host) == AcceleratorChoice("kvm")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        # As QEMU 7.2 on a host that is a guest of PVM.
        ("echo 'kvm_buf_set_msrs: Assertion failed' >&2; exit 134", "kvm_buf_set_msrs"),
        ("exit 0", "QEMU ended with status 0"),
    ],
)
def test_a_node_that_opens_and_does_not_work_is_named(
    tmp_path: Path, host: dict[str, Path], script: str, reason: str
) -> None:
    choice = choose_accelerator(tmp_path, write_qemu(tmp_path, script), **host)
    assert choice.name == "tcg"
    assert "is there but does not work" in choice.why
    assert reason in choice.why


def test_a_guest_that_crawls_is_given_up(tmp_path: Path) -> None:
    assert LIMIT_SECONDS == 5.0
    qemu = write_qemu(tmp_path, "exec sleep 60")
    assert "did not run within 0.2 s" in boot_probe(tmp_path, qemu, "kvm", seconds=0.2)


def test_the_answer_is_kept_until_the_next_boot(tmp_path: Path, host: dict[str, Path]) -> None:
    qemu = write_qemu(tmp_path, "exit 33")
    for _ in range(3):
        choose_accelerator(tmp_path, qemu, **host)
    assert count_starts(tmp_path) == 1
    host["boot_id"].write_text("boot-2\n")
    choose_accelerator(tmp_path, qemu, **host)
    assert count_starts(tmp_path) == 2


def test_another_qemu_is_asked_again(tmp_path: Path, host: dict[str, Path]) -> None:
    choose_accelerator(tmp_path, write_qemu(tmp_path, "exit 33"), **host)
    qemu = write_qemu(tmp_path, "exit 1 # another one")
    assert choose_accelerator(tmp_path, qemu, **host).name == "tcg"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 9}'])
def test_a_record_that_cannot_be_read_is_found_out_again(
    tmp_path: Path, host: dict[str, Path], content: str
) -> None:
    (tmp_path / RECORD).write_text(content)
    qemu = write_qemu(tmp_path, "exit 33")
    assert choose_accelerator(tmp_path, qemu, **host).name == "kvm"
    assert count_starts(tmp_path) == 1


def test_vms_that_start_at_once_are_answered_by_one_probe(
    tmp_path: Path, host: dict[str, Path]
) -> None:
    """A second probe would remove the disk of the first, and one of the two records would be lost."""
    qemu = write_qemu(tmp_path, "sleep 0.2; exit 33")
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: choose_accelerator(tmp_path, qemu, **host), range(4)))
    assert answers == [AcceleratorChoice("kvm")] * 4
    assert count_starts(tmp_path) == 1
