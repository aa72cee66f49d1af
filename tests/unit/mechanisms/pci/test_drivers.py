"""The VFIO driver of a function, from the aliases of the kernel's modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.mechanisms.pci.drivers import find_driver, find_module, is_same_driver
from gpupool.mechanisms.pci.sysfs import PciTree
from tests.support.handover_builders import CARD, build_card_machine
from tests.support.pci_kernel import add_driver

ALIASES = """# Aliases extracted from modules themselves.
alias pci:v000010DEd00002335sv*sd*bc*sc*i* nvidia
alias vfio_pci:v*d*sv*sd*bc*sc*i* vfio_pci
alias vfio_pci:v000010DEd*sv*sd*bc*sc*i* some_vfio_pci
alias vfio_pci:v000010DEd00002335sv*sd*bc*sc*i* nvgrace_gpu_vfio_pci
alias vfio_pci:v000015B3d0000101Esv*sd*bc*sc*i* mlx5_vfio_pci
"""


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    return PciTree(build_card_machine(tmp_path / "root"))


def write_aliases(tree: PciTree, text: str) -> None:
    folder = tree.root / "lib/modules/6.8.0"
    folder.mkdir(parents=True)
    (folder / "modules.alias").write_text(text)


def test_the_alias_that_leaves_least_open_wins(tree: PciTree) -> None:
    write_aliases(tree, ALIASES)
    assert find_module(tree, CARD, "6.8.0") == "nvgrace_gpu_vfio_pci"


def test_without_a_matching_variant_the_plain_driver_serves(tree: PciTree) -> None:
    write_aliases(tree, "alias vfio_pci:v000015B3d0000101Esv*sd*bc*sc*i* mlx5_vfio_pci\n")
    assert find_module(tree, CARD, "6.8.0") == "vfio_pci"
    assert find_module(tree, CARD, "5.4.0") == "vfio_pci"


def test_a_driver_is_found_under_either_spelling(tree: PciTree) -> None:
    assert find_driver(tree, "vfio_pci") == "vfio-pci"
    assert find_driver(tree, "nvgrace_gpu_vfio_pci") is None
    add_driver(tree.root, "nvgrace_gpu_vfio_pci")
    assert find_driver(tree, "nvgrace_gpu_vfio_pci") == "nvgrace_gpu_vfio_pci"


def test_two_spellings_are_one_driver() -> None:
    assert is_same_driver("vfio-pci", "vfio_pci")
    assert is_same_driver(None, None)
    assert not is_same_driver(None, "vfio_pci")
    assert not is_same_driver("nvidia", "vfio-pci")
