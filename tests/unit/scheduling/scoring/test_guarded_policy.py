from __future__ import annotations

import pytest

from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.scoring.partitions import PartitionRater
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.partition_builders import asked
from tests.support.partition_builders import pool as cut_pool
from tests.support.scheduling_builders import snapshot


def test_partitions_too_are_cut_after_their_rule_has_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = PartitionRater.choose_slots
    calls: list[str] = []

    def once_broken(self: PartitionRater, profile: str, rows: object) -> tuple[PartitionSlot, ...]:
        calls.append(profile)
        if len(calls) == 1:
            raise ZeroDivisionError("no profile is wanted")
        return places(self, profile, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(PartitionRater, "choose_slots", once_broken)
    now = snapshot(cut_pool("1xH200:mig"), asked("1g.18gb", "a"))
    board = PlanningState(now, guard=True)
    assert [one.job for one in cycle(now, 0, board=board).placements] == ["a"]
    assert board.fault is not None
    assert board.fault.policy == "partitions"
