"""Energy in the books: exact sums, once, whatever fails; old slots fold; unknown stays unknown."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.base.errors import PastEnergyFactor, UnknownEnergyFactor
from gpupool.metering.energy.division import EnergyPart
from gpupool.metering.energy.tables import energy_slots
from gpupool.metering.energy.writing import EnergyOwner, SlotKey, make_rows
from gpupool.metering.rollup import roll_up
from gpupool.wire.billing.energy import EnergyFactorIn
from gpupool.wire.report import ReportOut, ReportRow
from gpupool.wire.samples import CardUse, JobSample
from tests.support.energy_books import draw, draw_for
from tests.support.metering_books import ADMIN, DAY, HOUR, START_S, Pool, S, granted


def report(pool: Pool, *by: str, since_s: int = START_S) -> ReportOut:
    pool.time.forward(1)
    return pool.metering.make_report(ADMIN, since_s * S, 2**62, by or ("tenant",))


def rows(made: ReportOut) -> dict[str, ReportRow]:
    return {row.tenant or row.kind: row for row in made.rows}


def total(pool: Pool) -> tuple[Any, ...]:
    query = sa.select(
        sa.func.sum(energy_slots.c.milliwatt_hours), sa.func.max(energy_slots.c.width_s)
    )
    with pool.store.read() as connection:
        return tuple(connection.execute(query).one())


def test_a_report_divides_what_cards_drew_among_tenants_and_idle(any_pool: Pool) -> None:
    pool = any_pool
    granted(pool)  # 0.3 of the first card
    draw_for(pool, 600, [360, 36])
    factor(pool, 1300, 500_000)
    made = report(pool, "tenant")
    found = rows(made)
    # 660 s at 360 W: 66 Wh, of which 0.3 are held; and 6.6 Wh of the other card.
    assert found["vision"].energy_milliwatt_hours == 19_800
    assert found["idle"].energy_milliwatt_hours == 46_200 + 6_600
    assert found["overhead"].energy_milliwatt_hours is None
    assert made.energy_milliwatt_hours == 72_600
    assert found["vision"].measured_card_milliseconds == 300 * 660
    assert made.measured_card_milliseconds == 2 * 660_000
    assert made.co2e_milligrams == 12_870 + 30_030 + 4_290
    by_user = report(pool, "project", "user")
    assert sum(row.energy_milliwatt_hours or 0 for row in by_user.rows) == 72_600
    by_job = report(pool, "job")
    assert {row.energy_milliwatt_hours for row in by_job.rows} == {None}
    assert by_job.energy_milliwatt_hours == 72_600


def test_use_that_was_measured_divides_a_card(pool: Pool) -> None:
    pool.grant(0, 0, 500, 1024)
    pool.grant(2, 0, 500, 1024)
    for second in (0, 10, 20):
        jobs = []
        for job, part in (("j-0000000001", 3), ("j-0000000002", 1)):
            use = CardUse(uuid="GPU-0", gpu_nanoseconds=part * second * S // 4)
            jobs.append(JobSample(job=job, cards=[use]))
        draw(pool, [720], jobs)
        pool.time.forward(10 if second < 20 else 60)
    pool.metering.write_and_fold()
    found = rows(report(pool))
    assert found["vision"].energy_milliwatt_hours == 3000
    assert found["nlp"].energy_milliwatt_hours == 1000
    assert found["idle"].energy_milliwatt_hours == 0


def test_a_gap_and_a_card_without_power_are_unknown_and_never_zero(pool: Pool) -> None:
    granted(pool)
    draw(pool, [100, None])
    pool.time.forward(HOUR)
    draw(pool, [100, None])
    made = report(pool)
    assert made.energy_milliwatt_hours is None
    assert made.co2e_milligrams is None
    assert {row.energy_milliwatt_hours for row in made.rows} == {None}


def test_a_batch_whose_answer_is_lost_counts_once(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted(pool)
    draw(pool, [360])
    pool.time.forward(10)
    dropping = pool.metering.power.drop_batch
    monkeypatch.setattr(pool.metering.power, "drop_batch", lambda batch: None)
    draw(pool, [360])
    assert total(pool)[0] == 1000
    monkeypatch.setattr(pool.metering.power, "drop_batch", dropping)
    pool.time.forward(10)
    draw(pool, [360])
    assert total(pool)[0] == 1000
    pool.time.forward(60)
    draw(pool, [360])
    assert total(pool)[0] == 1000 + 1000 + 6000


def test_a_restart_loses_what_was_not_written_and_doubles_nothing(pool: Pool) -> None:
    granted(pool)
    draw_for(pool, 120, [360])
    before = total(pool)[0]
    pool.start()
    pool.time.forward(10)
    draw_for(pool, 30, [360])
    assert before < total(pool)[0] <= before + 3000 + 6000 + 1
    made = report(pool)
    assert made.measured_card_milliseconds is not None
    assert made.measured_card_milliseconds < made.capacity_card_milliseconds


def test_old_slots_become_hours_and_days_and_add_up_to_the_same(any_pool: Pool) -> None:
    pool = any_pool
    granted(pool)
    for _ in range(3):
        draw_for(pool, 300, [360, 36])
        pool.time.forward(HOUR)
    whole = total(pool)[0]
    assert total(pool)[1] == 300
    pool.time.forward(3 * DAY)
    roll_up(pool.store)
    assert total(pool) == (whole, HOUR)
    pool.time.forward(102 * DAY)
    roll_up(pool.store)
    assert total(pool) == (whole, DAY)
    assert report(pool, since_s=START_S - START_S % DAY).energy_milliwatt_hours == whole


def test_less_than_a_milliwatt_hour_waits_for_the_rest_of_it() -> None:
    owner = EnergyOwner("tenant", 2, 2, 10)
    rests: dict[tuple[EnergyOwner, str], int] = {}
    written = 0
    for slot in range(10):
        made, rests = make_rows({SlotKey(slot * 300, owner, "L40S"): EnergyPart(1000, 1)}, rests)
        written += made[0]["milliwatt_hours"]
    assert written == 10_000 // 3600
    assert rests == {(owner, "L40S"): 10_000 % 3600}


def factor(pool: Pool, pue: int, grid: int, from_s: int | None = None) -> None:
    from_ns = None if from_s is None else from_s * S
    body = EnergyFactorIn(from_ns=from_ns, pue_milli=pue, grid_milligrams=grid)
    pool.metering.factors.set(ADMIN, body)


def test_co2e_is_of_the_factors_in_force_and_the_past_keeps_its_own(pool: Pool) -> None:
    granted(pool)
    draw_for(pool, 600, [360, 36])
    assert report(pool).co2e_milligrams is None
    factor(pool, 1300, 500_000)
    first = report(pool)
    assert first.co2e_milligrams == 30_030 + 17_160
    assert rows(first)["vision"].co2e_milligrams == 19_800 * 1300 * 500_000 // 10**9
    pool.time.forward(HOUR)
    factor(pool, 2000, 1_000_000)
    draw_for(pool, 120, [360, 36])
    both = report(pool)
    assert both.energy_milliwatt_hours is not None
    # The new factors emit 2 mg for each mWh.
    later = both.energy_milliwatt_hours - (19_800 + 46_200 + 6_600)
    assert both.co2e_milligrams == 30_030 + 17_160 + later * 2


def test_hours_that_are_over_keep_their_factors(pool: Pool) -> None:
    now_s = START_S
    factor(pool, 1200, 1, now_s - HOUR)
    factor(pool, 1200, 1, now_s - DAY)  # before the first, nothing was known
    with pytest.raises(PastEnergyFactor) as refusal:
        factor(pool, 1300, 1, now_s - 2 * HOUR)
    assert refusal.value.code == "GP-2231"
    factor(pool, 1300, 1)
    factor(pool, 1400, 1)  # the hour that runs may be corrected
    factor(pool, 1500, 1, now_s + DAY)
    shown = pool.metering.factors.list_all()
    assert [one.pue_milli for one in shown] == [1200, 1200, 1400, 1500]
    assert [one.until_ns for one in shown][1:] == [now_s * S, (now_s + DAY) * S, None]
    with pytest.raises(PastEnergyFactor):
        pool.metering.factors.delete((now_s - DAY) * S)
    with pytest.raises(UnknownEnergyFactor):
        pool.metering.factors.delete((now_s + 2 * DAY) * S)
    pool.metering.factors.delete((now_s + DAY) * S)
    assert [one.pue_milli for one in pool.metering.factors.list_all()] == [1200, 1200, 1400]


def test_metrics_count_what_each_owner_drew(pool: Pool) -> None:
    granted(pool)
    draw_for(pool, 60, [100, 10])
    drawn = pool.metering.energy.get_millijoules()
    assert drawn == {("tenant", 2): 30 * 120_000, ("idle", 0): 80 * 120_000}
