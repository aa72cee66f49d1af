"""Results of the FGD paper's protocol as rows and as a page: means over the seeds."""

from __future__ import annotations

from gpupool.simulation.replay.demand_levels import DemandLevel
from gpupool.simulation.replay.protocol import ProtocolResult
from gpupool.simulation.reports.protocol_report import (
    compute_level_mean,
    list_policy_rows,
    render_page,
)


def result(policy: str, seed: int, *levels: DemandLevel) -> ProtocolResult:
    return ProtocolResult(policy, seed, levels, "online")


RESULTS = (
    result("fgd", 42, DemandLevel(100, 90.0, 4.0, None), DemandLevel(130, 95.0, 3.0, 60.0)),
    result("fgd", 43, DemandLevel(100, 94.0, 2.0, 30.0)),
    result("random", 42, DemandLevel(100, 80.0, 9.0, 45.0)),
)


def test_level_mean_counts_the_seeds_that_have_the_level() -> None:
    assert compute_level_mean(RESULTS, "fgd", 100, "allocation_pct") == 92.0
    assert compute_level_mean(RESULTS, "fgd", 130, "allocation_pct") == 95.0
    assert compute_level_mean(RESULTS, "fgd", 100, "fragment_ratio_pct") == 30.0
    assert compute_level_mean(RESULTS, "random", 130, "allocation_pct") is None


def test_policy_rows_have_one_row_per_policy_in_order() -> None:
    fgd, random = list_policy_rows(RESULTS)
    assert (fgd["policy"], fgd["seeds"], fgd["allocation_100"]) == ("fgd", 2, 92.0)
    assert (fgd["fragment_100"], fgd["fragment_130"]) == (3.0, 3.0)
    assert (random["policy"], random["seeds"], random["allocation_130"]) == ("random", 1, None)


def test_page_shows_unknown_levels_as_dashes() -> None:
    page = render_page("default <list>", RESULTS)
    assert "Means over 2 seeds (42 to 43)" in page
    assert "default &lt;list&gt; by the FGD paper" in page
    assert page.count("<svg") == 3
    assert ">92.00<" in page
    assert ">--<" in page
