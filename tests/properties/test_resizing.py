"""However jobs start, grow, shrink and end: the quota tree holds after each step, as after a
placement."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.allocations.store.tables import jobs
from gpupool.base.errors import RequestRejection
from gpupool.base.units import GIB
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.working_quotas import WorkingQuotas
from gpupool.wire.jobs import ResizeIn
from gpupool.wire.people import LimitIn, QuotaIn
from tests.support.house import House
from tests.support.properties import whole_pools

TENANTS = ("red", "blue", "green")
MILLI = st.sampled_from([100, 200, 300, 500, 800])
GIBS = st.sampled_from([4, 16, 60])
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("submit"),
            st.sampled_from(TENANTS),
            MILLI,
            GIBS,
            st.booleans(),
            st.integers(1, 2),
        ),
        st.tuples(st.just("resize"), st.integers(0, 20), MILLI, GIBS),
        st.tuples(st.just("finish"), st.integers(0, 20)),
    ),
    max_size=14,
)
PARTS = st.sampled_from([None, 0, 200, 500])


def limits(
    milli: int | None, model: int | None, borrowing: int | None, lending: int | None
) -> QuotaIn:
    others = (
        [] if model is None else [LimitIn(resource="gpu:H200", nominal=model, borrowing=borrowing)]
    )
    return QuotaIn(
        nominal_milli=milli, borrowing_milli=borrowing, lending_milli=lending, others=others
    )


LIMITS = st.builds(limits, PARTS, PARTS, PARTS, PARTS)


@settings(whole_pools, max_examples=25)
@given(st.lists(LIMITS, min_size=3, max_size=3), STEPS)
def test_no_node_of_the_quota_tree_takes_more_than_it_may_after_any_resize(
    quotas: list[QuotaIn], steps: list[tuple[Any, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        house = House(Path(directory), cards=3)
        try:
            _found_tenants(house, quotas)
            for step in steps:
                _live(house, *step)
                _check(house)
        finally:
            house.close()


def _found_tenants(house: House, quotas: list[QuotaIn]) -> None:
    """Two in one cohort, the third beside it; together they are guaranteed no more than there
    is."""
    house.tenancy.cohorts.put("lab", QuotaIn(nominal_milli=1500, borrowing_milli=500))
    for name, quota in zip(TENANTS, quotas, strict=True):
        cohort = None if name == "green" else "lab"
        house.tenancy.tenants.create(house.admin, name, quota.model_copy(update={"cohort": cohort}))


def _live(house: House, what: str, *parts: Any) -> None:
    if what == "submit":
        tenant, milli, gib, preemptible, count = parts
        try:
            house.submit(milli, gib, tenant=tenant, preemptible=preemptible, count=count)
        except RequestRejection:
            return
        for item in house.work():
            house.report(item, "running", started_ns=5)
        return
    with house.store.read() as connection:
        found = connection.execute(
            sa.select(jobs.c.public_id).where(jobs.c.state == "running").order_by(jobs.c.id)
        )
        running = list(found.scalars())
    if running and what == "finish":
        house.finish(running[parts[0] % len(running)])
    elif running:
        _resize(house, running[parts[0] % len(running)], *parts[1:])


def _resize(house: House, job: str, milli: int, gib: int) -> None:
    try:
        house.allocations.resizes.resize_job(
            job, ResizeIn(gpu_milli=milli, memory_bytes=gib * GIB), house.admin
        )
    except RequestRejection as refusal:
        assert refusal.hint


def _check(house: House) -> None:
    house.allocations.placer.refresh_cache()
    snapshot = house.allocations.cache.build_snapshot()
    tree = WorkingQuotas(snapshot, FreeCapacity(snapshot.cards)).tree
    for side in (tree, *([tree.firm] if tree.firm else [])):
        _check_side(side)


def _check_side(tree: QuotaTree) -> None:
    for leaf in tree.leaves.values():
        for node in leaf.list_ancestors():
            for resource, limit in node.limits.items():
                taken = node.get_taken(resource)
                assert limit.maximum is None or taken <= max(limit.maximum, limit.unlent), (
                    node.title,
                    resource,
                    taken,
                )
