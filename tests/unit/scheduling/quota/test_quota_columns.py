"""What quotas say of many claims at once is what they say of each."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.quota.quota_columns import ClaimColumns, QuotaColumns, split_amounts
from gpupool.scheduling.quota.working_quotas import WorkingQuotas
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.timeline.quotas_over_time import QuotasOverTime
from gpupool.scheduling.timeline.running_jobs_index import RunningJobsIndex
from tests.support.quota_builders import cohort, member
from tests.support.scheduling_builders import cards

POOL = cards("4x8xH200")
NAMES = ("a", "b", "c", "d")
SECOND = 10**9


def limits(chance: Random) -> tuple[float | None, ...]:
    nominal = chance.choice((0, 2, 4, 9))
    return (nominal, chance.choice((0, 3, None)), chance.choice((0, 1, None)))


def view(chance: Random) -> TenantView:
    gpu = chance.choice((None, limits(chance)))
    memory = chance.choice((None, (chance.choice((40, 400)), chance.choice((0, None)))))
    return member(chance.choice((None, "lab")), gpu, memory_gib=memory, holds=chance.randrange(8))


def made(seed: int) -> Snapshot:
    """Tenants in and out of a cohort, half of whose jobs may be preempted."""
    chance = Random(seed)
    tenants = {name: view(chance) for name in NAMES} | {"e": member(gpu=(1, None))}
    jobs = [
        RunningJob(
            f"r{n}",
            chance.choice((*NAMES, "unknown")),
            0,
            (n,),
            (WHOLE,),
            (GIB,),
            Shape(WHOLE),
            n,
            chance.choice((None, n * SECOND)),
            preemptible=chance.random() < 0.5,
        )
        for n in range(20)
    ]
    return Snapshot(
        1, POOL, tenants, (), running=tuple(jobs), cohorts={"lab": cohort(limits(chance))}
    )


@pytest.mark.parametrize("seed", range(40))
def test_columns_say_of_each_claim_what_the_tree_says(seed: int) -> None:
    before, chance = made(seed), Random(seed)
    quotas = WorkingQuotas(before, FreeCapacity(POOL))
    names = tuple(before.tenants)
    amounts = [
        ResourceAmount(chance.randrange(10) * 500, chance.randrange(9) * 60 * GIB)
        for _ in range(60)
    ]
    tenants, firm = (
        [chance.randrange(len(names)) for _ in amounts],
        [chance.random() < 0.5 for _ in amounts],
    )
    columns = QuotaColumns(quotas, names)
    asked = ClaimColumns(np.array(tenants), np.array(firm), *split_amounts(amounts))
    said = zip(
        columns.find_outranked(asked).tolist(), columns.find_exhausted(asked).tolist(), strict=True
    )
    for found, tenant, is_firm, amount in zip(said, tenants, firm, amounts, strict=True):
        quotas.firm = is_firm
        shape = Shape(amount.gpu_milli or 1, amount.memory_bytes)
        outranked = quotas.is_outranked(names[tenant], shape, amount)
        assert found == (outranked, quotas.admit_shape(names[tenant], shape, amount) is None)


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_back_by_the_columns_of_ends_is_what_the_jobs_hold(seed: int) -> None:
    before, roster = made(seed), RunningJobsIndex()
    roster.begin(POOL)
    roster.follow(before.running)
    quotas = WorkingQuotas(before, FreeCapacity(POOL))
    for instant in range(0, 25 * SECOND, 3 * SECOND):
        found = []
        for ends in (None, roster.ends):
            with QuotasOverTime(quotas, before.running, 7 * SECOND, ends).at_instant(
                instant, instant + SECOND
            ):
                found.append(
                    [
                        [dict(one.held) for one in leaf.list_ancestors()]
                        for leaf in quotas.tree.leaves.values()
                    ]
                )
        assert found[0] == found[1]
