from __future__ import annotations

import numpy as np

from gpupool.scheduling.rebalancing.defragment import plan_defragmentation
from gpupool.scheduling.rebalancing.defragment_cp_sat import make_cp_sat_solver
from tests.support.moving_builders import NOW, job, pool


def test_the_solver_is_never_worse_than_the_greedy_plan() -> None:
    solve = make_cp_sat_solver(2.0)
    assert solve is not None
    for seed in range(5):
        random = np.random.default_rng(seed)
        jobs = [
            job(f"j{row}", int(row), ran=int(random.integers(1, 999)))
            for row in random.choice(48, 25, replace=False)
        ]
        before = pool("6x8xH200", *jobs)
        alone, helped = (
            plan_defragmentation(before, NOW),
            plan_defragmentation(before, NOW, solver=solve),
        )
        assert helped.rank <= alone.rank
