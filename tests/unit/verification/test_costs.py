"""What a context and an allocation take: on a whole card, and as a fence charges them."""

from __future__ import annotations

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.base.units import GIB, MIB
from gpupool.verification.costs import measure_charges, measure_costs
from tests.support.verification_pool import ScriptedPool, build_bench

COSTS = {
    "kind": "costs",
    "context_bytes": 400 * MIB,
    "visible_bytes": 300 * MIB,
    "granule_bytes": 2 * MIB,
    "driver_version": 12080,
}


def test_costs_are_measured_on_a_whole_card() -> None:
    pool = ScriptedPool({"costs": [COSTS]})
    assert measure_costs(build_bench(pool)) == {
        "context_bytes": 400 * MIB,
        "granule_bytes": 2 * MIB,
        "driver_version": 12080,
    }
    (job,) = pool.jobs.values()
    shape = job["body"]["shape"]
    assert (shape["gpu_milli"], shape["memory_bytes"]) == (1000, None)


def test_charges_are_what_a_share_of_half_a_card_sees() -> None:
    pool = ScriptedPool({"charged": [COSTS]})
    charges = measure_charges(build_bench(pool), 15 * GIB + 3 * MIB)
    assert charges == {"context_bytes": 300 * MIB, "granule_bytes": 2 * MIB}
    (job,) = pool.jobs.values()
    # Whole MiB: a fence counts no parts of one.
    assert job["body"]["shape"]["memory_bytes"] == 15 * GIB // 2 + MIB


def test_charges_without_a_fence_are_unknown() -> None:
    pool = ScriptedPool({"charged": [COSTS]}, ended={"charged": {"fence": "none"}})
    assert measure_charges(build_bench(pool), 16 * GIB) is None


def test_costs_of_a_job_that_does_not_answer_are_an_error() -> None:
    with pytest.raises(ServiceUnavailable, match="never came to its measurements"):
        measure_costs(build_bench(ScriptedPool()))
