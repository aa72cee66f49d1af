"""Operations on the number of virtual functions, and on quotas."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools
from gpupool.mechanisms.pci.virtual_functions import (
    create_functions,
    explain_count,
    remove_functions,
    restore_attribute,
    set_attribute,
)
from tests.support.handover_builders import CARD, read_tree
from tests.support.pci_kernel import INTEL, FakeKernel, FunctionFacts, build_tree

QUOTA = "sys/bus/pci/devices/0000:1b:00.0/sriov_admin/vf1/profile/vram_quota"


@pytest.fixture
def tools(tmp_path: Path) -> OperationTools:
    numbers = {"sriov_admin/vf1/profile/vram_quota": 0}
    facts = FunctionFacts(CARD, 10, INTEL, own_driver="xe", total=7, numbers=numbers)
    root = build_tree(tmp_path / "root", [facts])
    return OperationTools(PciTree(root), FakeKernel(root), lambda _: None)


def test_functions_are_created_without_the_host_s_driver_and_removed(
    tools: OperationTools,
) -> None:
    before = read_tree(tools.root)
    for _ in range(2):
        create_functions(tools, CARD, 3)
    virtual = tools.tree.list_virtual(CARD)
    assert len(virtual) == 3
    assert [tools.tree.describe(one).driver for one in virtual] == [None, None, None]
    assert [one.path.name for one in tools.writer.writes] == [
        "sriov_drivers_autoprobe",
        "sriov_numvfs",
    ]
    for _ in range(2):
        remove_functions(tools, CARD, 3, "1")
        assert read_tree(tools.root) == before


def test_two_become_three_only_by_way_of_none(tools: OperationTools) -> None:
    create_functions(tools, CARD, 2)
    with pytest.raises(OperationFailure, match="has 2 virtual functions: they must go to 0"):
        create_functions(tools, CARD, 3)
    assert len(tools.tree.list_virtual(CARD)) == 2


def test_more_than_the_card_can_have_are_refused() -> None:
    assert explain_count(CARD, 0, 8, 7) == f"{CARD} can have 7 virtual functions, 8 were requested"
    assert explain_count(CARD, 0, 7, 7) == ""


def test_another_owner_s_number_stays(tools: OperationTools) -> None:
    create_functions(tools, CARD, 2)
    remove_functions(tools, CARD, 3, "1")
    assert len(tools.tree.list_virtual(CARD)) == 2


def test_functions_in_use_are_not_removed(tools: OperationTools) -> None:
    create_functions(tools, CARD, 1)
    (address,) = tools.tree.list_virtual(CARD)
    node = tools.root / "dev/vfio" / str(tools.tree.describe(address).group)
    node.touch()
    process = tools.root / "proc/812"
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text("qemu\n")
    (process / "fd/3").symlink_to(node)
    with pytest.raises(OperationFailure, match=r"in use by qemu \(pid 812\)"):
        remove_functions(tools, CARD, 1, "1")


def test_a_rounded_quota_is_accepted_within_its_tolerance(tools: OperationTools) -> None:
    value = (4 << 30) + 12345
    set_attribute(tools, QUOTA, value, tolerance=1 << 20)
    assert int((tools.root / QUOTA).read_text()) == 4 << 30
    with pytest.raises(OperationFailure, match="vram_quota reads"):
        set_attribute(tools, QUOTA, (8 << 30) + 12345)
    restore_attribute(tools, QUOTA, 0)
    assert int((tools.root / QUOTA).read_text()) == 0
    restore_attribute(tools, "sys/nothing", 0)
