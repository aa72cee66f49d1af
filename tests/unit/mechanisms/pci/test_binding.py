"""Operations on drivers: each looks first, and leaves other owners alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.mechanisms.pci.binding import (
    bind_function,
    disable_persistence,
    restore_function,
    restore_persistence,
    wait_until_idle,
)
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools
from tests.support.handover_builders import CARD, build_card_machine, read_tree
from tests.support.pci_kernel import FakeKernel, add_driver

#: Plays nvidia-smi: writes its arguments down and says that the mode is on.
PROGRAM = """#!/bin/sh
echo "$@" >>"$(dirname "$0")/calls"
case "$*" in *query*) echo Enabled;; esac
"""


@pytest.fixture
def tools(tmp_path: Path) -> OperationTools:
    root = build_card_machine(tmp_path / "root")
    return OperationTools(PciTree(root), FakeKernel(root), lambda _: None)


def list_writes(tools: OperationTools) -> list[str]:
    return [one.path.name for one in tools.writer.writes]


def test_binding_twice_writes_once(tools: OperationTools) -> None:
    bind_function(tools, CARD, "vfio_pci")
    assert list_writes(tools) == ["driver_override", "unbind", "drivers_probe"]
    bind_function(tools, CARD, "vfio_pci")
    assert len(tools.writer.writes) == 3
    assert tools.tree.describe(CARD).driver == "vfio-pci"


def test_a_missing_driver_is_named_with_the_command(tools: OperationTools) -> None:
    with pytest.raises(OperationFailure, match="run modprobe nvgrace_gpu_vfio_pci"):
        bind_function(tools, CARD, "nvgrace_gpu_vfio_pci")
    assert tools.writer.writes == []


def test_a_probe_without_effect_is_found(
    tools: OperationTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeKernel, "_probe", lambda _self, _address: None)
    with pytest.raises(OperationFailure, match="is on driver None, expected vfio-pci"):
        bind_function(tools, CARD, "vfio_pci")


def test_restoring_gives_the_tree_before(tools: OperationTools) -> None:
    before = read_tree(tools.root)
    bind_function(tools, CARD, "vfio_pci")
    for _ in range(2):
        restore_function(tools, CARD, "vfio_pci", "nvidia", None)
        assert read_tree(tools.root) == before


def test_a_function_that_a_vm_has_open_is_not_unbound(tools: OperationTools) -> None:
    bind_function(tools, CARD, "vfio_pci")
    count = len(tools.writer.writes)
    process = tools.root / "proc/900"
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text("qemu\n")
    (process / "fd/3").symlink_to(tools.tree.list_group_nodes(CARD)[0])
    with pytest.raises(OperationFailure, match=r"in use by qemu \(pid 900\)"):
        restore_function(tools, CARD, "vfio_pci", "nvidia", None)
    assert len(tools.writer.writes) == count


def test_an_earlier_override_comes_back(tools: OperationTools) -> None:
    add_driver(tools.root, "special")
    bind_function(tools, CARD, "special")
    before = read_tree(tools.root)
    bind_function(tools, CARD, "vfio_pci")
    restore_function(tools, CARD, "vfio_pci", "special", "special")
    assert read_tree(tools.root) == before


def test_a_driver_that_the_probe_does_not_find_is_bound_by_name(tools: OperationTools) -> None:
    entry = tools.tree.locate(CARD)
    add_driver(tools.root, "nouveau")
    bind_function(tools, CARD, "vfio_pci")
    restore_function(tools, CARD, "vfio_pci", "nouveau", None)
    assert tools.tree.describe(CARD).driver == "nouveau"
    assert (entry / "driver_override").read_text() == "(null)\n"


def test_a_third_driver_is_of_another_owner_and_stays(tools: OperationTools) -> None:
    add_driver(tools.root, "foreign")
    bind_function(tools, CARD, "foreign")
    before = read_tree(tools.root)
    restore_function(tools, CARD, "vfio_pci", "nvidia", None)
    assert read_tree(tools.root) == before


def test_a_function_that_is_gone_needs_nothing(tools: OperationTools) -> None:
    restore_function(tools, "0000:99:00.0", "vfio_pci", "nvidia", None)
    assert tools.writer.writes == []


def test_a_card_that_stays_busy_names_its_user(tools: OperationTools, tmp_path: Path) -> None:
    node = tmp_path / "nvidia0"
    node.touch()
    process = tools.root / "proc/812"
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text("python\n")
    (process / "fd/3").symlink_to(node)
    with pytest.raises(OperationFailure, match=r"in use by python \(pid 812\)"):
        wait_until_idle(tools, [str(node)], 1.0)
    (process / "fd/3").unlink()
    wait_until_idle(tools, [str(node)], 1.0)


def test_the_persistence_mode_is_switched_off_and_comes_back(
    tools: OperationTools, tmp_path: Path
) -> None:
    record = tmp_path / "persistence.json"
    disable_persistence(tools, CARD, str(record))
    assert not record.exists(), "without nvidia-smi there is no daemon"
    folder = tools.root / "usr/bin"
    folder.mkdir(parents=True)
    (folder / "nvidia-smi").write_text(PROGRAM)
    (folder / "nvidia-smi").chmod(0o755)
    for _ in range(2):
        disable_persistence(tools, CARD, str(record))
    assert json.loads(record.read_text()) == {"enabled": True}
    restore_persistence(tools, CARD, str(record))
    calls = (folder / "calls").read_text().splitlines()
    assert [call for call in calls if "query" not in call] == [
        f"-i {CARD} -pm 0",
        f"-i {CARD} -pm 0",
        f"-i {CARD} -pm 1",
    ]
    assert len(calls) == 4, "what was there before is read once"
