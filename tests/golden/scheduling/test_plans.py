"""Whole plans, compared line by line with the files beside this one.

After an intended change: `GPUPOOL_UPDATE_GOLDEN=1 python -m pytest tests/golden/scheduling`, and
read the difference.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape, SharingKind, TopologyConstraint
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.cards import CardStatus
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.golden.scheduling.render import render
from tests.support.gang_builders import gang, group, occupied, racked, role, running
from tests.support.scheduling_builders import cards, shape, snapshot, tenant, waiting, whole

HERE = Path(__file__).parent
NOW = 10_000 * 10**9


def _three_teams() -> Snapshot:
    return snapshot(
        "1x1xT4",
        waiting("vision-1", tenant="vision", want=shape(300, 4 * GIB), at=1),
        waiting(
            "audio-1",
            tenant="audio",
            want=shape(200, 2 * GIB, sharing=SharingKind.BEST_EFFORT),
            at=2,
        ),
        waiting("nlp-1", "nlp-2", want=shape(500, 6 * GIB, sharing=SharingKind.BURST), at=3),
    )


def _quotas() -> Snapshot:
    return snapshot(
        "1x4xL40S",
        waiting("big-1", "big-2", "big-3", tenant="big", want=whole(), ages=(1, 2, 3)),
        waiting("nlp-1", "nlp-2", want=whole(), ages=(4, 5)),
        waiting("hot-1", tenant="hot", want=shape(250, 4 * GIB), priority=100, at=9),
        tenants={"big": tenant(1000, 2000), "nlp": tenant(2000), "hot": tenant(300, held=200)},
    )


def _mixed_box(policy: str = "binpack") -> Snapshot:
    pool = cards(
        "mixed:T4,T4,A100-40G,A100-80G+1x4xH200",
        used={
            "node-1/2": (500, 20 * GIB),
            "node-2/0": (1000, 140 * GIB),
            "node-2/1": (0, 10 * GIB),
        },
        status={"node-1/1": CardStatus.NOT_ADOPTED, "node-2/3": CardStatus.DRAINING},
        labels={"node-1": {"zone": "a"}, "node-2": {"zone": "b", "net": "ib"}},
    )
    classes = (
        waiting("a100", want=shape(500, None, model="A100"), at=1),
        waiting("pair", want=whole(2, "H200"), at=2),
        waiting("zoned", want=shape(300, 8 * GIB, zone="a"), at=3),
        waiting("idle", want=shape(400, 100 * GIB, sharing=SharingKind.BEST_EFFORT), at=4),
        waiting("one", want=whole(1), at=5),
        waiting("odd", want=Shape(333, None, 3), at=6),
    )
    return snapshot(pool, *classes, policy=policy)


def _fragmented() -> Snapshot:
    used = {f"node-{node}/{place}": (300, 40 * GIB) for node in (1, 2, 3) for place in range(node)}
    return snapshot(
        "3x4xH200",
        waiting("train", want=whole(4), priority=100, at=1),
        waiting("half", want=shape(800, 60 * GIB, 2), at=2),
        waiting("wide", want=shape(600, 90 * GIB, 3), at=3),
        waiting(*(f"infer-{n}" for n in range(1, 5)), want=shape(350, 30 * GIB), at=4, count=40),
        used=used,
    )


def _gang_of_roles() -> Snapshot:
    """The launcher's place is held from the start, the ninth worker has to wait."""
    return snapshot(
        "2x4xH200+1x1xT4",
        gang(
            "train",
            role("launcher", shape(100, GIB), 1, launcher=True),
            role("worker", whole(), 6, 9),
            at=1,
        ),
        gang("late", role("worker", whole(2), 2), at=2),
        waiting("small", want=shape(500, 8 * GIB), at=3),
    )


def _racks() -> Snapshot:
    """Two stages, each in one rack, both in one block: the first block has lost a card too many."""
    used = {f"node-{node}/0": (1000, 140 * GIB) for node in (1, 4, 5)}
    pool = racked(
        "8x2xH200", used=used, block=(0, 0, 0, 0, 1, 1, 1, 1), rack=(0, 0, 1, 1, 2, 2, 3, 3)
    )
    stages = (
        group(f"stage-{n}", role(f"s{n}", whole(), 3), within=TopologyConstraint("rack"))
        for n in range(2)
    )
    near = gang(
        "near", role("worker", whole(), 2, 3), within=TopologyConstraint("block", "rack"), at=2
    )
    return snapshot(pool, gang("pipe", *stages, within=TopologyConstraint("block"), at=1), near)


def _preemption() -> Snapshot:
    """A gang of higher priority takes the node that loses least; what is nobody's to lose stays."""
    pool = cards("2x4xH200", used={"node-2/3": (0, 0)})
    ages = {
        "node-1/0": 900,
        "node-1/1": 800,
        "node-1/2": 5000,
        "node-2/0": 3000,
        "node-2/1": 2000,
        "node-2/2": 100,
    }
    jobs = [
        running(pool, f"old-{n}", name, want=whole(), since=(10_000 - age) * 10**9)
        for n, (name, age) in enumerate(ages.items())
    ]
    urgent = gang("urgent", role("worker", whole(4), 1), priority=100, at=1)
    before = snapshot(
        occupied(pool, *jobs),
        urgent,
        waiting("small", want=whole(), at=2),
        tenants={"other": tenant()},
    )
    return replace(before, running=tuple(jobs))


CASES: Mapping[str, Snapshot] = {
    "three-teams-on-one-card": _three_teams(),
    "quotas-and-priorities": _quotas(),
    "mixed-box-binpack": _mixed_box(),
    "mixed-box-spread": _mixed_box("spread"),
    "fragmented-pool": _fragmented(),
    "gang-of-roles": _gang_of_roles(),
    "gang-in-racks": _racks(),
    "preemption": _preemption(),
}


@pytest.mark.parametrize("name", CASES)
def test_the_plan_reads_as_recorded(name: str) -> None:
    file, before = HERE / f"{name}.txt", CASES[name]
    text = render(before, cycle(before, NOW if before.running else 0))
    if os.environ.get("GPUPOOL_UPDATE_GOLDEN") == "1":
        file.write_text(text)
    assert text == file.read_text()


def test_every_recorded_plan_has_its_case() -> None:
    assert {file.stem for file in HERE.glob("*.txt")} == set(CASES)
