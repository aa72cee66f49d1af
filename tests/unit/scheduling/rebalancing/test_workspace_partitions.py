from __future__ import annotations

from gpupool.scheduling.rebalancing.defragment import plan_defragmentation
from gpupool.scheduling.rebalancing.load_balance import measure_loads, plan_rebalancing
from gpupool.scheduling.rebalancing.workspace import is_movable
from tests.support.partition_builders import (
    on,
    pool,
    with_jobs,
)


def test_partitions_are_not_moved_and_their_cards_are_no_load_to_spread() -> None:
    cards = pool("2xH200:mig+2xH200", {"sim-0:0": [(0, "1g.18gb"), (1, "1g.18gb")]})
    jobs = [on(cards, f"j{n}", "sim-0:0", n, "1g.18gb", preemptible=True) for n in (0, 1)]
    snapshot = with_jobs(cards, jobs)
    assert not any(is_movable(job) for job in jobs)
    assert measure_loads(snapshot).tolist() == [0, 0, 0, 0]
    assert plan_rebalancing(snapshot, 10**12, use_free_cards=True).moves == ()
    assert plan_defragmentation(snapshot, 10**12, block=1).moves == ()
