"""Facts of PCI functions from a tree of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.mechanisms.pci.sysfs import PciTree
from tests.support.handover_builders import AUDIO, CARD, build_card_machine
from tests.support.pci_kernel import FunctionFacts, add_function


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    return PciTree(build_card_machine(tmp_path / "root"))


def test_a_function_is_described_with_its_sizes_and_resets(tree: PciTree) -> None:
    card = tree.describe(CARD)
    assert (card.vendor, card.device, card.driver, card.override) == (
        0x10DE,
        0x2335,
        "nvidia",
        None,
    )
    assert card.bar_bytes == (16 << 20, 256 << 30, 32 << 20)
    assert card.reset_methods == ("flr", "bus")
    assert (card.group, card.kind, card.physical) == (10, "3D card", None)


def test_a_function_of_another_slot_is_no_companion(tree: PciTree) -> None:
    assert tree.list_slot(CARD) == (CARD, AUDIO)
    assert tree.list_slot("0000:00:01.0") == ("0000:00:01.0",)


def test_vectors_are_counted_from_the_capabilities(tree: PciTree) -> None:
    assert tree.count_vectors(CARD) == 6
    config = tree.locate(CARD) / "config"
    config.write_bytes(config.read_bytes()[:64])
    assert tree.count_vectors(CARD) == 0, "beyond 64 bytes only root may read"


def test_a_circle_of_capabilities_ends(tree: PciTree) -> None:
    config = tree.locate(CARD) / "config"
    space = bytearray(config.read_bytes())
    space[0x51] = 0x40
    config.write_bytes(bytes(space))
    assert tree.count_vectors(CARD) == 6


def test_a_card_without_reset_and_group_says_so(tree: PciTree) -> None:
    add_function(tree.root, FunctionFacts("0000:3b:00.0", None, reset="", own_driver=None))
    card = tree.describe("0000:3b:00.0")
    assert (card.group, card.reset_methods, card.driver) == (None, (), None)


@pytest.mark.parametrize("address", ["", "../../etc", "0000:1b:00.9", "0000:1B:00.0", "1b:00.0"])
def test_what_is_no_address_never_becomes_a_path(tree: PciTree, address: str) -> None:
    with pytest.raises(ValueError, match="not a PCI address"):
        tree.locate(address)


def test_a_disk_and_a_network_card_are_named(tree: PciTree) -> None:
    for folder, name in (("block", "sda"), ("net", "eth0")):
        entry = tree.locate(CARD).resolve() / folder / name
        entry.mkdir(parents=True)
        (tree.root / "sys/class" / folder / name).symlink_to(entry)
    assert tree.name_uses(CARD) == "disk sda, network eth0"
    assert tree.name_uses(AUDIO) == ""
