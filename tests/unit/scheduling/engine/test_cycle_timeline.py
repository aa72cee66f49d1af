from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import RejectionReason, Shape
from tests.support.promise_builders import HEAD, placed, plan, pool, small
from tests.support.scheduling_builders import cards, shape, snapshot, waiting, whole
from tests.support.time_builders import reserved


def test_a_class_that_was_placed_before_the_head_counts_when_its_start_is_looked_for() -> None:
    columns, jobs = pool()
    first = replace(waiting("first", want=whole()), seconds=70)
    found = plan(snapshot(columns, first, replace(HEAD, oldest_ns=1)), jobs)
    assert placed(found) == ["first"]
    assert found.starts[HEAD.key].at_ns == 70 * SECOND


def test_a_reservation_keeps_its_cards_from_all_but_its_tenants_claims_that_name_it() -> None:
    columns, _ = pool()
    demo = reserved("demo", 0, 500, want=whole(2))
    mine = replace(small("mine", None), reservation="demo")
    others = small("other", None, tenant="vision")
    stranger = replace(small("stranger", None, tenant="vision"), reservation="demo")
    found = plan(snapshot(columns, mine, others, stranger), [], now=10, reservations=(demo,))
    assert placed(found) == ["mine"]
    assert (
        found.rejections[others.key].sentence
        == "what is free is kept for a reservation of another tenant"
    )
    assert found.rejections[others.key].dominant is RejectionReason.RESERVED


@pytest.mark.parametrize(("seconds", "starts"), [(490, True), (491, False), (None, False)])
def test_a_start_promised_at_the_end_of_a_reservation_is_not_put_off_by_its_own_jobs(
    seconds: int | None, starts: bool
) -> None:
    demo = reserved("demo", 0, 500, want=whole(2))
    older = waiting("older", tenant="vision", want=whole(2), at=0)
    mine = replace(small("mine", seconds), reservation="demo")
    found = plan(snapshot(cards("1x2xT4"), older, mine), [], now=10, reservations=(demo,))
    assert found.starts[older.key].at_ns == 500 * SECOND
    assert placed(found) == (["mine"] if starts else [])
    if not starts:
        assert found.rejections[mine.key].sentence.startswith(
            "what is free is kept for a claim of higher rank from "
        )


def test_before_a_reservation_starts_others_use_its_cards_if_they_end_in_time() -> None:
    columns, _ = pool()
    demo = reserved("demo", 100, 500, want=whole(2))
    found = plan(
        snapshot(columns, small("short", 100), small("long", 101)),
        [],
        reservations=(demo,),
    )
    assert placed(found) == ["short"]


def test_a_share_goes_beside_the_reserved_part_of_a_card() -> None:
    columns, _ = pool()
    demo = reserved("demo", 100, 500, want=Shape(600, 4 * GIB), replicas=2)
    found = plan(
        snapshot(columns, small("s", None, want=shape(400)), small("t", None, want=shape(500))), []
    )
    assert placed(found) == ["s", "t"]
    found = plan(
        snapshot(columns, small("s", None, want=shape(400)), small("t", None, want=shape(500))),
        [],
        reservations=(demo,),
    )
    assert placed(found) == ["s"]
