"""What a node has, read from a tree."""

from __future__ import annotations

from pathlib import Path

from gpupool.mechanisms.offers.host_facts import read_host_facts
from gpupool.model.isolation.host_facts import HostFacts


def read(root: Path) -> HostFacts:
    return read_host_facts(own_pool=False, cgroups="v2", root=root)


def test_a_bare_tree_has_nothing(tmp_path: Path) -> None:
    facts = read(tmp_path)
    assert (facts.cgroup_version, facts.iommu, facts.kernel_modules) == (0, False, frozenset())


def test_modules_iommu_and_cgroup_v2_are_found(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/modules").write_text("vfio_pci 16384 0 - Live 0x0\nnvidia 1 0 - Live 0x0\n")
    (tmp_path / "sys/kernel/iommu_groups/7").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory dmem\n")
    facts = read(tmp_path)
    assert facts.kernel_modules == {"vfio_pci", "nvidia"}
    assert facts.iommu
    assert facts.cgroup_version == 2


def test_a_hybrid_node_counts_as_cgroup_v1(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup/unified").mkdir(parents=True)
    assert read(tmp_path).cgroup_version == 1


def test_devices_are_closed_by_rules_of_root_for_other_users() -> None:
    facts = HostFacts(root=True, own_pool=False, cgroups="v1")
    assert facts.closes_devices
    assert not HostFacts(root=True, own_pool=True, cgroups="v2").closes_devices
    assert not HostFacts(root=True, own_pool=False, cgroups="none").closes_devices
