"""CDI files come whole, under names that no other allocation ever had."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import CardNotReady
from gpupool.kubernetes.node import cdi
from gpupool.mechanisms.contract import FenceLevel, HostMount, PreparedAllocation


def prepared(place: Path, card: str = "GPU-0") -> PreparedAllocation:
    mounts = (HostMount(place / "usage", "/run/gpupool/usage", writable=True),)
    return PreparedAllocation(
        {"CUDA_VISIBLE_DEVICES": card},
        ("/dev/nvidia0",),
        (),
        place / "share",
        FenceLevel.SOFT,
        (),
        mounts,
    )


def test_a_device_is_all_that_the_container_is_started_with(tmp_path: Path) -> None:
    edits = cdi.build_device("s1-ab", prepared(tmp_path))["containerEdits"]
    assert edits["env"] == ["CUDA_VISIBLE_DEVICES=GPU-0", "GPUPOOL_FENCE=soft"]
    assert edits["deviceNodes"] == [
        {"path": "/dev/nvidia0", "hostPath": "/dev/nvidia0", "permissions": "rw"}
    ]
    share, usage = edits["mounts"]
    assert (share["containerPath"], "ro" in share["options"]) == ("/run/gpupool/share", True)
    assert (usage["containerPath"], "rw" in usage["options"]) == ("/run/gpupool/usage", True)


def test_an_image_is_looked_at_on_the_host_before_the_container_begins(tmp_path: Path) -> None:
    checked = replace(
        prepared(tmp_path), image_check=("/state/hook/gpupool-hook", "GP-2018", "2.34")
    )
    (hook,) = cdi.build_device("s1-ab", checked)["containerEdits"]["hooks"]
    assert (hook["hookName"], hook["path"]) == ("createRuntime", "/state/hook/gpupool-hook")
    assert hook["args"] == ["/state/hook/gpupool-hook", "GP-2018", "2.34"]
    assert 0 < hook["timeout"] < 30
    assert "hooks" not in cdi.build_device("s1-ab", prepared(tmp_path))["containerEdits"]


def test_cgroup_is_reported_after_the_image_was_looked_at(tmp_path: Path) -> None:
    check = ("/state/hook/gpupool-hook", "GP-2018", "2.34")
    report = ("/state/hook/gpupool-hook", "--report", "/run/s", "u.main")
    both = replace(prepared(tmp_path), image_check=check, cgroup_report=report)
    hooks = cdi.build_device("s1-ab", both)["containerEdits"]["hooks"]
    assert [hook["args"] for hook in hooks] == [[*check], [*report]]
    assert {hook["hookName"] for hook in hooks} == {"createRuntime"}


def test_writing_twice_is_writing_once_and_nothing_else_is_in_the_folder(tmp_path: Path) -> None:
    devices = {"s1-ab": cdi.build_device("s1-ab", prepared(tmp_path))}
    cdi.write_slot_file(tmp_path, "s1", devices)
    cdi.write_slot_file(tmp_path, "s1", devices)
    (place,) = tmp_path.iterdir()
    assert json.loads(place.read_text()) == {
        "cdiVersion": "0.6.0",
        "kind": "gpupool.dev/slot",
        "devices": [*devices.values()],
    }


def test_a_name_whose_cards_changed_is_withdrawn_first(tmp_path: Path) -> None:
    cdi.write_slot_file(tmp_path, "s1", {"s1-ab": cdi.build_device("s1-ab", prepared(tmp_path))})
    other = {"s1-ab": cdi.build_device("s1-ab", prepared(tmp_path, "GPU-1"))}
    with pytest.raises(CardNotReady, match="withdrawn"):
        cdi.write_slot_file(tmp_path, "s1", other)
    assert not list(tmp_path.iterdir())
    cdi.write_slot_file(tmp_path, "s1", other)


def test_the_next_owner_of_a_slot_needs_no_withdrawal(tmp_path: Path) -> None:
    cdi.write_slot_file(tmp_path, "s1", {"s1-ab": cdi.build_device("s1-ab", prepared(tmp_path))})
    cdi.write_slot_file(
        tmp_path, "s1", {"s1-cd": cdi.build_device("s1-cd", prepared(tmp_path, "GPU-1"))}
    )
    assert "GPU-1" in (tmp_path / "gpupool-s1.json").read_text()


def test_a_torn_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "gpupool-s1.json").write_text('{"devices": [')
    cdi.write_slot_file(tmp_path, "s1", {"s1-ab": cdi.build_device("s1-ab", prepared(tmp_path))})
    assert json.loads((tmp_path / "gpupool-s1.json").read_text())["devices"]


def test_old_files_go_and_those_of_others_stay(tmp_path: Path) -> None:
    cdi.write_slot_file(tmp_path, "s1", {"s1-ab": cdi.build_device("s1-ab", prepared(tmp_path))})
    cdi.write_slot_file(tmp_path, "s2", {"s2-ab": cdi.build_device("s2-ab", prepared(tmp_path))})
    (tmp_path / "nvidia.json").write_text("{}")
    os.utime(tmp_path / "gpupool-s1.json", (1, 1))
    os.utime(tmp_path / "nvidia.json", (1, 1))
    assert cdi.remove_stale_files(tmp_path, 100.0) == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["gpupool-s2.json", "nvidia.json"]
