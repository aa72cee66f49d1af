from __future__ import annotations

from gpupool.scheduling.engine.cycle import cycle
from tests.support.partition_builders import (
    SECOND,
    asked,
    on,
    pool,
    starts,
    with_jobs,
)


def test_a_large_partition_is_promised_the_instant_at_which_its_place_is_whole_again() -> None:
    cards = pool("1xH200:mig", {"sim-0:0": [(0, "1g.18gb"), (2, "1g.18gb")]})
    jobs = [
        on(cards, "a", "sim-0:0", 0, "1g.18gb", ends=100),
        on(cards, "b", "sim-0:0", 2, "1g.18gb", ends=200),
    ]
    plan = cycle(with_jobs(cards, jobs, asked("4g.71gb", "big", seconds=500)), 0)
    start = plan.starts[asked("4g.71gb", seconds=500).key]
    assert (start.at_ns, start.reserved) == (200 * SECOND, True)


def test_the_promised_place_is_kept_from_smaller_ones_that_would_still_be_there() -> None:
    """Compute is left for both; the piece that the small one may have is not one of those that are
    promised."""
    cards = pool("1xH200:mig", {"sim-0:0": [(0, "1g.18gb"), (4, "1g.18gb"), (5, "1g.18gb")]})
    jobs = [
        on(cards, "a", "sim-0:0", 0, "1g.18gb", ends=100),
        on(cards, "b", "sim-0:0", 4, "1g.18gb", ends=9000),
        on(cards, "c", "sim-0:0", 5, "1g.18gb", ends=9000),
    ]
    big, long, other = (
        asked("4g.71gb", "big", priority=10, seconds=500),
        asked("1g.18gb", "long", "longer", seconds=5000),
        asked("1g.18gb", "short", seconds=50),
    )
    plan = cycle(with_jobs(cards, jobs, big, long, other), 0)
    assert plan.starts[big.key].at_ns == 100 * SECOND
    assert starts(plan)["long"] == ("sim-0:0", 6)
    assert "longer" not in starts(plan)
    assert starts(plan)["short"][1] in (1, 2, 3)
