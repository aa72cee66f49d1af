"""What stops a claim in an empty pool, and with which option it could start there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.scheduling.explain.reachability import (
    SHORT_SECONDS,
    ObstacleCause,
    find_obstacle,
    find_quota_obstacle,
    remove_jobs,
)
from gpupool.scheduling.snapshot.cards import CardStatus
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.quota_builders import member
from tests.support.scheduling_builders import cards, snapshot, tenant, waiting, whole
from tests.support.time_builders import reserved, running, used_by

ASKED = waiting("a", want=whole(2))


def guaranteed_to_others() -> Snapshot:
    """Two cards, both guaranteed to another tenant, which does not use them."""
    return snapshot("1x2xT4", ASKED, tenants={"owner": member(gpu=2), "nlp": member()})


def test_a_claim_that_waits_only_for_jobs_to_end_has_no_obstacle() -> None:
    pool = cards("1x2xT4", used=used_by("node-1/0", "node-1/1"))
    job = running("old", pool, "node-1/0", "node-1/1")
    found = find_obstacle(replace(snapshot(pool, ASKED), running=(job,)), ASKED, 0)
    assert found.can_start
    assert (found.cause, found.options) == (None, ())


@pytest.mark.parametrize("status", [CardStatus.DRAINING, CardStatus.NOT_ADOPTED])
def test_a_claim_that_lacks_open_cards_is_stopped_by_cards(status: CardStatus) -> None:
    pool = cards("1x2xT4", status={"node-1/1": status})
    found = find_obstacle(snapshot(pool, ASKED), ASKED, 0)
    assert (found.cause, found.sentence, found.options) == (ObstacleCause.CARDS, "", ())


def test_a_claim_that_would_use_a_guarantee_is_offered_preemptible() -> None:
    found = find_obstacle(guaranteed_to_others(), ASKED, 0)
    assert (found.cause, found.options) == (ObstacleCause.QUOTA, ("--preemptible",))
    assert "2.00 of the pool's 2.00 GPU are guaranteed to others" in found.sentence


def test_a_claim_longer_than_the_time_to_a_reservation_is_offered_a_limit() -> None:
    before = replace(
        snapshot("1x2xT4", ASKED),
        reservations=(reserved("demo", SHORT_SECONDS, None, want=whole(), tenant="vision"),),
    )
    found = find_obstacle(before, ASKED, 0)
    assert (found.cause, found.options) == (ObstacleCause.RESERVED, ("--max-time",))
    limited = replace(ASKED, seconds=SHORT_SECONDS)
    assert find_obstacle(before, limited, 0).can_start


def test_a_quota_obstacle_is_looked_for_only_where_a_quota_stops() -> None:
    assert find_quota_obstacle(snapshot("1x1xT4", ASKED), ASKED, 0) is None
    roomy = snapshot("1x1xT4", ASKED, tenants={"nlp": tenant(9000)})
    assert find_quota_obstacle(roomy, ASKED, 0) is None, "cards lack, and no quota"
    found = find_quota_obstacle(guaranteed_to_others(), ASKED, 0)
    assert found is not None
    assert found.cause is ObstacleCause.QUOTA


def test_a_pool_without_jobs_keeps_what_no_end_of_a_job_changes() -> None:
    pool = cards("1x2xT4", used=used_by("node-1/0"), status={"node-1/1": CardStatus.DRAINING})
    others = waiting("b", "c", want=whole(), at=1)
    held = {"nlp": tenant(2000, held=1000)}
    empty = remove_jobs(snapshot(pool, ASKED, others, tenants=held), others)
    assert empty.cards.free_milli.tolist() == [1000, 1000]
    assert empty.cards.status.tolist() == pool.status.tolist()
    assert empty.tenants["nlp"].held.gpu_milli == 0
    assert empty.tenants["nlp"].quota == held["nlp"].quota
    assert [(one.job_ids, one.count) for one in empty.waiting] == [(("b",), 1)]
