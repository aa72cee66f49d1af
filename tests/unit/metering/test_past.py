"""Past use for fair share: what is held still, what ended, and what was folded."""

from __future__ import annotations

import pytest

from gpupool.metering.past import read_past_use
from gpupool.scheduling import FORGOTTEN_HALF_LIVES
from tests.support.metering_books import DAY, HOUR, Pool

#: So long that nothing decays within a test.
LONG = 10**9
MICRO = 1_000_000


def read(pool: Pool, half_life_s: int = LONG) -> dict[str, float]:
    with pool.store.read() as connection:
        return read_past_use(connection, pool.now_s(), half_life_s)


def test_past_use_counts_what_ended_and_what_is_held_until_now(pool: Pool) -> None:
    ended = pool.grant(0, 0, 500, 1)
    pool.grant(2, 1, 250, 1)
    assert ended is not None
    pool.time.forward(100)
    pool.release(ended)
    pool.time.forward(50)
    expected = {"vision": 100 * MICRO / 2, "nlp": 150 * MICRO / 4}
    assert read(pool) == pytest.approx(expected, rel=1e-3)


def test_past_use_halves_after_a_half_life(pool: Pool) -> None:
    held = pool.grant(0, 0, 1000, 1)
    assert held is not None
    pool.time.forward(10)
    pool.release(held)
    pool.time.forward(HOUR)
    assert read(pool, HOUR)["vision"] == pytest.approx(10 * MICRO / 2, rel=1e-2)


def test_past_use_is_the_same_after_rows_are_folded(pool: Pool) -> None:
    held = pool.grant(0, 0, 1000, 1)
    assert held is not None
    pool.time.forward(3 * HOUR)
    pool.release(held)
    pool.time.forward(30 * DAY)
    before = read(pool)
    while not pool.metering.fold_old_rows():
        pass
    assert pool.oldest_interval_s() is None
    assert read(pool) == pytest.approx(before, rel=1e-3)


def test_past_use_forgets_what_has_decayed(pool: Pool) -> None:
    held = pool.grant(0, 0, 1000, 1)
    assert held is not None
    pool.time.forward(10)
    pool.release(held)
    pool.time.forward(60 * FORGOTTEN_HALF_LIVES - 5)
    assert "vision" in read(pool, 60)
    pool.time.forward(10)
    assert "vision" not in read(pool, 60)
