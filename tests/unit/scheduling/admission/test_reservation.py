from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import RejectionReason, Shape, SharingKind
from gpupool.model.reservation import Reservation
from gpupool.scheduling.admission.reservation import describe_calendar_error, judge_reservation
from tests.support.scheduling_builders import cards, tenant, whole
from tests.support.time_builders import HOUR, reserved, running, used_by

DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            reserved("a", 5, 100),
            "the start 1970-01-01T00:00:05Z is in the past: it is 1970-01-01T00:00:10Z",
        ),
        (
            reserved("a", 50, 50),
            "the end 1970-01-01T00:00:50Z is not after the start 1970-01-01T00:00:50Z",
        ),
        (reserved("a", 50, None, every=DAY), "what comes again needs an end"),
        (
            reserved("a", 50, 50 + 2 * HOUR, every=HOUR),
            "it would come again every 1:00:00 and lasts 2:00:00: it would meet itself",
        ),
        (
            reserved("a", 50, 60, every=HOUR, until=50),
            "the last time 1970-01-01T00:00:50Z is not after the start 1970-01-01T00:00:50Z",
        ),
        (reserved("a", 50, 60, until=70), "what does not come again needs no last time"),
    ],
)
def test_a_calendar_that_makes_no_sense_is_told_with_its_times(
    asked: Reservation, said: str
) -> None:
    assert describe_calendar_error(asked, 10 * SECOND) == said


def test_a_calendar_that_makes_sense_is_not_remarked_on() -> None:
    assert (
        describe_calendar_error(reserved("a", 50, 60, every=HOUR, until=3 * HOUR), 10 * SECOND)
        is None
    )
    assert describe_calendar_error(reserved("a", 50, None), 10 * SECOND) is None


def test_one_with_room_beside_the_others_is_taken() -> None:
    others = [reserved("a", 100, 200, want=whole(2)), reserved("b", 200, 300, want=whole(4))]
    assert (
        judge_reservation(
            reserved("c", 100, 200, want=whole(2)), others, cards("1x4xT4"), (), tenant(), 0
        )
        is None
    )


def test_one_that_collides_says_with_which_and_how_much_room_there_is() -> None:
    said = judge_reservation(
        reserved("c", 150, 250, replicas=8),
        [reserved("lecture", 100, 200, replicas=2)],
        cards("1x8xT4"),
        (),
        tenant(),
        0,
    )
    assert said is not None
    assert (said.dominant, said.fits_ever) == (RejectionReason.RESERVED, False)
    assert said.sentence == (
        "collides with reservation lecture: needs 8 × 1.00 GPU (100 % compute) + its part of the memory, there is room"
        " for 6 from 1970-01-01T00:02:30Z to 1970-01-01T00:04:10Z"
    )


def test_a_reservation_of_another_tenant_is_counted_and_not_named() -> None:
    others = [reserved("secret", 100, 200, tenant="vision")]
    said = judge_reservation(reserved("c", 150, 250), others, cards("1x1xT4"), (), tenant(), 0)
    assert said is not None
    assert said.sentence.startswith("collides with 1 reservation of other tenants: needs ")
    assert "secret" not in said.sentence


def test_a_later_occurrence_collides_as_the_first_would() -> None:
    once = reserved("demo", 3 * DAY, 3 * DAY + HOUR)
    daily = reserved("daily", 60, 60 + HOUR, every=DAY)
    said = judge_reservation(daily, [once], cards("1x1xT4"), (), tenant(), 0)
    assert said is not None
    assert "collides with reservation demo" in said.sentence
    assert judge_reservation(daily, [once], cards("1x2xT4"), (), tenant(), 0) is None


def test_jobs_that_may_not_have_ended_are_told_apart_from_reservations() -> None:
    pool = cards("1x2xT4", used=used_by("node-1/0"))
    job = running("a", pool, "node-1/0", ends=None)
    said = judge_reservation(reserved("c", 100, 200, want=whole(2)), [], pool, [job], tenant(), 0)
    assert said is not None
    assert said.dominant is RejectionReason.TOO_FEW_CARDS
    assert said.sentence.startswith(
        "jobs that run now may not have ended by then: needs 2 × [1.00 GPU"
    )
    known = running("a", pool, "node-1/0", ends=100)
    assert (
        judge_reservation(reserved("c", 100, 200, want=whole(2)), [], pool, [known], tenant(), 0)
        is None
    )


def test_one_larger_than_the_pool_is_refused_whatever_the_time() -> None:
    said = judge_reservation(
        reserved("c", 100, 200, replicas=9), [], cards("2x4xT4"), (), tenant(), 0
    )
    assert said is not None
    assert not said.fits_ever
    assert said.sentence.endswith("the whole pool, with nothing running, has room for 8")
    assert said.hint == "ask for at most 8"


def test_one_beyond_its_tenants_quota_is_refused_with_both_numbers() -> None:
    view = tenant(nominal=2000, borrowing=1000)
    said = judge_reservation(reserved("c", 100, 200, replicas=4), [], cards("1x8xT4"), (), view, 0)
    assert said is not None
    assert said.dominant is RejectionReason.QUOTA
    assert "4.00 GPU is beyond tenant nlp's maximum of 3.00 GPU" in said.sentence


def test_a_shape_that_no_card_has_is_refused_as_a_claim_is() -> None:
    said = judge_reservation(
        reserved("c", 100, 200, want=Shape(500, model="H200")), [], cards("1x8xT4"), (), tenant(), 0
    )
    assert said is not None
    assert said.dominant is RejectionReason.MODEL


def test_a_card_that_serves_mps_clients_is_reserved_from_their_end_on() -> None:
    share = Shape(300, 4 * GIB, sharing=SharingKind.MPS, owner="nlp/alice")
    pool = replace(cards("1x1xH200", used={"node-1/0": (300, 4 * GIB)}), owners={0: "nlp/alice"})
    job = replace(running("a", pool, "node-1/0", ends=100, milli=300, size=4 * GIB), shape=share)
    want = Shape(500, 8 * GIB)
    early = judge_reservation(reserved("r", 50, 90, want=want), (), pool, (job,), tenant(), 0)
    assert early is not None
    assert early.sentence.startswith("jobs that run now may not have ended by then")
    late = reserved("r", 200, 300, want=want)
    assert judge_reservation(late, (), pool, (job,), tenant(), 0) is None
    # Beside a share without MPS there is room at once.
    plain = replace(job, shape=Shape(300, 4 * GIB))
    free = replace(pool, owners={})
    soon = reserved("r", 50, 90, want=want)
    assert judge_reservation(soon, (), free, (plain,), tenant(), 0) is None
