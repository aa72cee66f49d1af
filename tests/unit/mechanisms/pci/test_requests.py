"""What can be said of a request before any look at the card."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpupool.mechanisms.pci.requests import find_access_problem
from gpupool.mechanisms.pci.sysfs import PciTree
from tests.support.handover_builders import build_card_machine


def test_a_node_without_a_bus_says_so(tmp_path: Path) -> None:
    assert find_access_problem(PciTree(tmp_path)) == "this node has no PCI bus"


def test_a_pool_of_an_ordinary_user_is_told_that_root_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = PciTree(build_card_machine(tmp_path / "root"))
    assert find_access_problem(tree) == ""
    # As an ordinary user sees the kernel's files; root may write any file here.
    monkeypatch.setattr(os, "access", lambda path, _mode: path.name != "drivers_probe")
    assert "must be one of root" in find_access_problem(tree)
