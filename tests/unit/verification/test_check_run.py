"""What the checks of one card share."""

from __future__ import annotations

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.base.units import GIB, MIB
from gpupool.verification.check_run import CheckRun, find_overlap, format_error, format_percent
from gpupool.verification.scale import QUICK
from gpupool.verification.statistics import RateEstimate, RateStretch
from tests.support.verification_pool import SHARE_BYTES, ScriptedPool, build_bench, build_run

SECOND = 10**9


def test_share_of_a_job_is_an_eighth_of_the_card_in_whole_mib() -> None:
    run = CheckRun(build_bench(ScriptedPool()), QUICK, 15 * GIB + 12345)
    assert run.share_bytes == 15 * GIB // 8
    assert run.share_bytes % MIB == 0


def test_submit_burn_uses_the_usual_share_unless_another_is_named() -> None:
    pool = ScriptedPool()
    run = build_run(pool)
    run.submit_burn("a", "--seconds", "1", milli=300)
    run.submit_burn("b", milli=200, tenant=run.second_tenant, memory_bytes=MIB)
    first, second = (job["body"] for job in pool.jobs.values())
    assert (first["tenant"], first["shape"]["memory_bytes"]) == (run.first_tenant, SHARE_BYTES)
    assert (second["tenant"], second["shape"]["memory_bytes"]) == (run.second_tenant, MIB)
    assert first["launch"]["argv"][-4:] == ["--seconds", "1", "-o", "json"]
    assert [task.id for task in run.tasks] == ["j-0", "j-1"]


def test_find_overlap_leaves_out_the_time_to_settle() -> None:
    series = [[RateStretch(0, 9 * SECOND, 1.0)], [RateStretch(SECOND, 5 * SECOND, 1.0)]]
    assert find_overlap(series) == (SECOND + 300_000_000, 5 * SECOND)
    assert find_overlap(series, settle=False) == (SECOND, 5 * SECOND)


def test_find_overlap_of_jobs_that_never_met_is_an_error() -> None:
    apart = [[RateStretch(0, 5, 1.0)], [RateStretch(5, 9, 1.0)]]
    with pytest.raises(ServiceUnavailable, match="nothing can be compared: they never ran"):
        find_overlap(apart, settle=False)
    with pytest.raises(ServiceUnavailable, match="one of them never ran"):
        find_overlap([[]])


def test_format_error_of_one_value_is_unknown() -> None:
    assert format_error(RateEstimate(0.3, None, 1)) == "unknown"
    assert format_error(RateEstimate(0.3, 0.012, 5)) == "1.2 points"
    assert format_percent(0.298, 1) == "29.8 %"
