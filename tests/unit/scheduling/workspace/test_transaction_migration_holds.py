"""Seats kept for a job that is moved: nobody else gets them, and it gets these and no others."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.model.reservation import Reservation
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.cards import CardStatus
from gpupool.scheduling.snapshot.claims import MigrationHold
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.scheduling_builders import Used, cards, snapshot, waiting

WHOLE_H200 = Shape(1000, 140 * GIB)


def kept(before: Snapshot, job: str, *rows: int) -> Snapshot:
    return replace(
        before, migration_holds=(MigrationHold(job, WHOLE_H200, rows, (140 * GIB,) * len(rows)),)
    )


def pool(
    *jobs: str, used: Used | None = None, status: dict[str, CardStatus] | None = None
) -> Snapshot:
    queue = [waiting(job, want=WHOLE_H200) for job in jobs]
    return replace(snapshot("2x1xH200", *queue), cards=cards("2x1xH200", used=used, status=status))


def placed(before: Snapshot) -> dict[str, str]:
    return {one.job: one.seats[0].device for one in cycle(before, 0).placements}


def test_a_moved_job_that_waits_again_gets_the_seats_kept_for_it() -> None:
    for row, card in ((0, "node-1/0"), (1, "node-2/0")):
        assert placed(kept(pool("moved"), "moved", row)) == {"moved": card}


def test_while_it_still_runs_nobody_else_gets_them() -> None:
    assert placed(kept(pool("other"), "moved", 1)) == {"other": "node-1/0"}
    taken = pool("other", used={"node-1/0": (1000, 140 * GIB)})
    assert placed(kept(taken, "moved", 1)) == {}


def test_seats_that_are_gone_make_it_an_ordinary_claim() -> None:
    closed = pool("moved", status={"node-2/0": CardStatus.UNHEALTHY})
    assert placed(kept(closed, "moved", 1)) == {"moved": "node-1/0"}


def test_what_is_kept_is_shown_again_after_the_cycle() -> None:
    before = kept(pool("moved", "other"), "moved", 1)
    assert cycle(before, 0) == cycle(before, 0)
    assert placed(before) == {"moved": "node-2/0", "other": "node-1/0"}


def test_a_reservation_that_holds_cards_now_leaves_those_to_it() -> None:
    active = Reservation("v-1", "red", WHOLE_H200, 0, 10**15, name="mine")
    for row, card in ((0, "node-1/0"), (1, "node-2/0")):
        before = replace(kept(pool("moved", "other"), "moved", row), reservations=(active,))
        assert placed(before) == {"moved": card}
