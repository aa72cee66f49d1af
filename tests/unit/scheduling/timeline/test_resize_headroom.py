"""How much more a running job may have on its own cards, by the quotas."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import RejectionReason
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.quota.quota_rejections import HINT
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.resize_headroom import ResizeHeadroom
from gpupool.scheduling.timeline.unreserved_capacity import UnreservedCapacity
from tests.support.moving_builders import NOW, job, pool
from tests.support.scheduling_builders import tenant, waiting, whole

JOB = job("small", 0, 1, milli=300)


def snapshot_with(gpu_milli: int | None, memory: int | None = None) -> Snapshot:
    """A job that holds 0.30 on each of two cards, of a tenant with this maximum."""
    view = tenant(gpu_milli, memory=memory, held=600, held_memory=2 * GIB)
    return replace(pool("1x4xH200", JOB), tenants={"nlp": view})


def headroom(before: Snapshot) -> ResizeHeadroom:
    spare = UnreservedCapacity(before, FreeCapacity(before.cards), NOW)
    return ResizeHeadroom(before, JOB, spare, NOW)


def test_a_job_may_grow_up_to_its_tenants_maximum_and_not_beyond() -> None:
    room = headroom(snapshot_with(1000))
    assert room.find_rejection([(0, 200, 0), (1, 200, 0)]) is None
    said = room.find_rejection([(0, 200, 0), (1, 201, 0)])
    assert said is not None
    assert (said.dominant, said.hint) == (RejectionReason.QUOTA, HINT)


def test_the_rest_of_a_quota_is_shared_by_all_cards_of_the_job() -> None:
    most = headroom(snapshot_with(1001, memory=5 * GIB)).get_most()
    assert (most.milli, most.size) == (200, 3 * GIB // 2)
    free = headroom(snapshot_with(None)).get_most()
    assert (free.milli, free.size) == (None, None)


def test_quota_that_a_promised_start_needs_is_not_for_growing() -> None:
    claim = waiting("next", want=whole())
    start = PlannedStart(NOW + 10**9, (2,), True, (1000,), (GIB,), claim="next", firm=True)
    before = replace(snapshot_with(1700), previous_starts={claim.key: start})
    room = headroom(before)
    assert room.find_rejection([(0, 100, 0)]) is None
    said = room.find_rejection([(0, 101, 0)])
    assert said is not None
    assert said.sentence.endswith("is kept for a claim of higher rank from 1970-01-01T02:46:41Z on")
    assert said.hint == "try again when that one has started"
