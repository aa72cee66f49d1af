"""Empty seats give cards and quotas back what they held, and leave the snapshot as it was."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.model.quota import ResourceAmount
from gpupool.model.suspension import IdleSuspensionRules
from gpupool.scheduling.idle_suspension import empty_seats
from tests.support.gang_builders import running
from tests.support.preemption_builders import asked, busy
from tests.support.scheduling_builders import cards, tenant

POOL = cards("2xH200")
TWICE = IdleSuspensionRules(memory_factor_milli=2000)


def test_the_seats_are_empty_and_the_rest_is_as_before() -> None:
    jobs = [
        running(POOL, name, POOL.uuids[row], want=Shape(300, 8 * GIB))
        for row, name in enumerate("ab")
    ]
    held = replace(tenant(), held=ResourceAmount(600, 16 * GIB))
    before = replace(asked(busy(POOL, *jobs)), tenants={"other": held})
    after = empty_seats(before, {"b"}, as_idle=False)
    assert after.cards.free_milli.tolist() == [700, 1000]
    assert after.cards.free_bytes.tolist() == [132 * GIB, 140 * GIB]
    assert after.tenants["other"].held == ResourceAmount(300, 8 * GIB)
    assert [(job.job, job.milli, job.sizes) for job in after.running] == [
        ("a", (300,), (8 * GIB,)),
        ("b", (0,), (0,)),
    ]
    assert before.cards.free_milli.tolist() == [700, 700]
    assert empty_seats(before, ()) is before


def test_memory_of_an_idle_job_is_kept_unless_it_is_lent_twice() -> None:
    job = running(POOL, "a", POOL.uuids[0], want=Shape(300, 8 * GIB))
    before = asked(busy(POOL, job))
    once = empty_seats(before, {"a"})
    assert once.cards.free_milli.tolist() == [1000, 1000]
    assert once.cards.free_bytes.tolist() == [132 * GIB, 140 * GIB]
    assert [(one.job, one.rows, one.sizes) for one in once.suspended] == [("a", (0,), (8 * GIB,))]
    twice = empty_seats(replace(before, idle_rules=TWICE), {"a"})
    assert twice.cards.free_bytes.tolist() == [140 * GIB, 140 * GIB]
