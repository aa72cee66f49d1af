"""What containers used is told now and then, and at their end for good, also by the next agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.kubernetes.metering import gpu_time
from gpupool.kubernetes.metering.gpu_time import REPORT_SECONDS, GpuTimeRecord, Key
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from gpupool.kubernetes.resources.gpu_time import MOST_MS, GpuTime

A, B = ("a", "main"), ("b", "main")


class Node:
    """What its fences say, and its clock."""

    def __init__(self, place: Path) -> None:
        self.used: dict[Key, int] = {A: 70}
        self.looks, self.at, self._file = 0, 5.0, place / "spent.json"

    def look(self, uid: str, container: str) -> GpuTime | None:
        self.looks += 1
        used = self.used.get((uid, container))
        return None if used is None else GpuTime(used, used // 7)

    def agent(self) -> GpuTimeRecord:
        return GpuTimeRecord(self._file, self.look, lambda: self.at)


def test_what_goes_on_is_looked_at_every_ten_minutes_and_told_the_same_meanwhile(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path)
    agent = node.agent()
    assert (agent.sums_so_far([A, B]), node.looks) == ({}, 0)
    node.at += REPORT_SECONDS
    assert (agent.sums_so_far([A, B]), node.looks) == ({A: GpuTime(70, 10)}, 2), (
        "nobody counts b: that is unknown, not 0"
    )
    node.used[A] = 90
    assert (agent.sums_so_far([A, B]), node.looks) == ({A: GpuTime(70, 10)}, 2)
    node.at += REPORT_SECONDS
    assert agent.sums_so_far([A, B]) == {A: GpuTime(90, 12)}


def test_what_was_used_at_the_end_is_told_until_the_ledger_has_let_go_also_by_the_next_agent(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path)
    first = node.agent()
    first.close_entry(A, 4)
    first.close_entry(B, 5)
    told = SlotUse("a", "main", generation=4, released=True, spent=GpuTime(70, 10))
    assert first.closed_uses({A, B}, prepared=()) == [told]
    assert first.closed_uses({A, B}, prepared=[A]) == [], (
        "it was killed before it was undone: the record says more"
    )
    node.used[A] = 0
    then = node.agent()
    assert then.closed_uses({A, B}, prepared=()) == [told]
    assert then.closed_uses({B}, prepared=()) == []
    assert node.agent().closed_uses({A, B}, prepared=()) == []


def test_what_a_tenant_writes_into_its_usage_page_is_never_more_than_may_be_told(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path)
    node.used[A] = 1 << 62
    agent = node.agent()
    node.at += REPORT_SECONDS
    agent.close_entry(A, 1)
    (closed,) = agent.closed_uses({A}, prepared=())
    assert agent.sums_so_far([A])[A] == closed.spent == GpuTime(MOST_MS, MOST_MS)


def test_a_file_that_cannot_be_read_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "spent.json").write_text('[{"uid": "a"')
    assert Node(tmp_path).agent().closed_uses({A}, prepared=()) == []


def test_full_disk_keeps_no_entry_from_being_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is forgotten in each report, and a report that raises would end the agent."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    node = Node(tmp_path)
    first = node.agent()
    first.close_entry(A, 4)
    monkeypatch.setattr(gpu_time, "write_durably", full)
    assert first.closed_uses((), prepared=()) == []
    assert node.agent().closed_uses((), prepared=()) == []
