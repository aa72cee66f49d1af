"""Intervals of differences: they hold what is true as often as they say, and know how little a few
days say."""

from __future__ import annotations

import numpy as np
import pytest

from gpupool.simulation.replay.measure import summarize_waits
from gpupool.simulation.studies.bootstrap import WaitDifferences, compute_percentile

SECOND = 10**9


def waits(blocks: int, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Exponential waits of ten minutes on the mean, whose mean differs from block to block; and
    each one's block."""
    chance = np.random.default_rng(seed)
    busy = chance.gamma(4.0, 0.25, blocks)
    block = np.repeat(np.arange(blocks), each)
    return (chance.exponential(600, blocks * each) * busy[block] * SECOND).astype(np.int64), block


@pytest.mark.parametrize("part", [50, 95])
def test_the_percentile_is_that_of_all_other_figures(part: int) -> None:
    found, _ = waits(10, 37, 1)
    told = summarize_waits(found.tolist(), 0)
    assert round(compute_percentile(found, part) / SECOND, 3) == {50: told.p50, 95: told.p95}[part]


def test_the_same_waits_differ_by_nothing() -> None:
    before, block = waits(20, 30, 2)
    assert WaitDifferences(before, block, level=0.95, seed=1).compute_interval(before, 95) == (
        0.0,
        0.0,
        0.0,
    )


def test_half_of_every_wait_is_found_to_be_shorter() -> None:
    before, block = waits(20, 30, 3)
    found = WaitDifferences(before, block, level=0.99, seed=1).compute_interval(before // 2, 95)
    assert found.low < found.estimate < found.high < 0
    assert found.estimate == pytest.approx(-compute_percentile(before, 95) / 2 / SECOND, rel=1e-6)


def test_one_bad_day_of_eight_is_no_finding() -> None:
    before, block = waits(8, 40, 4)
    after = np.where(block == 3, before // 10, before)
    found = WaitDifferences(before, block, level=0.95, seed=1).compute_interval(after, 95)
    assert found.high == 0.0, "a history without that day is as likely as one with it"


def test_an_interval_is_the_wider_the_surer_it_is() -> None:
    before, block = waits(20, 30, 5)
    after = before * 9 // 10
    wide, narrow = (
        WaitDifferences(before, block, level=level, seed=1).compute_interval(after, 50)
        for level in (0.999, 0.8)
    )
    assert wide.low < narrow.low < narrow.high < wide.high


def test_it_says_the_same_again() -> None:
    before, block = waits(10, 20, 6)
    first, second = (
        WaitDifferences(before, block, level=0.95, seed=7).compute_interval(before // 3, 95)
        for _ in range(2)
    )
    assert first == second


def test_noise_alone_is_called_a_finding_as_rarely_as_promised() -> None:
    """After is before with other noise of the same size; of 200 such pools about 5 % may look
    different."""
    found = 0
    for seed in range(200):
        before, block = waits(20, 20, 1000 + seed)
        factors = np.random.default_rng(seed).choice([0.8, 1.25], size=20)
        after = (before * factors[block]).astype(np.int64)
        said = WaitDifferences(before, block, level=0.95, seed=seed, draws=400).compute_interval(
            after, 50
        )
        found += said.low > 0 or said.high < 0
    assert found <= 20
