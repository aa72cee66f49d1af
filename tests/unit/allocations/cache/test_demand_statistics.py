"""Statistics of past jobs: how long they ran, and which shapes are requested."""

from __future__ import annotations

from gpupool.allocations.cache.demand_statistics import DemandStatistics, round_up_seconds
from gpupool.model.claim import Shape
from gpupool.scheduling.scoring.demand_knowledge import ENDING, FILLING, FIRST_CLAIMS, MOST_JOBS
from tests.support.house import House


def test_an_array_is_expected_as_often_as_it_has_jobs_but_256_at_most_after_a_restart_too(
    house: House,
) -> None:
    house.submit(250, 8, name="sweep", array=1000)
    house.submit(1000, None, name="small", array=20)
    for number in range(6):
        house.submit(500, 8, name=f"one{number}")
    live = house.allocations.cache.build_snapshot().expected
    learnt = DemandStatistics()
    with house.store.read() as connection:
        learnt.load(connection, house.store.clock.now_ns())
    for expected in (live, learnt.expected_demand):
        weights = dict(
            zip((shape.gpu_milli for shape in expected.shapes), expected.counts, strict=True)
        )
        assert 254 < weights[250] <= MOST_JOBS
        assert 19 < weights[1000] <= 20
        assert 5.9 < weights[500] <= 6


HALF, EIGHTH, SHARE = Shape(500), Shape(125), Shape(300, 8 << 30)


def test_what_was_asked_for_is_expected_and_fades(house: House) -> None:
    for _ in range(FIRST_CLAIMS - 1):
        house.submit(200, 4, name=None)
    assert house.allocations.cache.build_snapshot().expected.shapes == ()
    house.submit(200, 4, name=None)
    expected = house.allocations.cache.build_snapshot().expected
    assert [shape.gpu_milli for shape in expected.shapes] == [200]
    assert expected.counts[0] > FIRST_CLAIMS * 0.99


def test_a_pool_that_starts_again_expects_the_same_as_before(house: House) -> None:
    for number in range(3 * FIRST_CLAIMS):
        house.submit(200 if number % 3 else 1000, 4 if number % 3 else None, name=f"j{number}")
    for item in house.work():
        house.finish(item.job_name)
    before = house.allocations.cache.build_snapshot().expected
    house.restart()
    after = house.allocations.cache.build_snapshot().expected
    assert (after.shapes, after.returned_pct) == (before.shapes, before.returned_pct)
    assert sum(after.counts) > 3 * FIRST_CLAIMS * 0.95


def test_a_pool_notices_that_claims_end_also_after_a_restart(house: House) -> None:
    def returned() -> int:
        return house.allocations.cache.build_snapshot().expected.returned_pct

    for number in range(FIRST_CLAIMS):
        house.submit(1000, None, name=f"keeps{number}")
    assert returned() == FILLING, "whatever waits or runs, nothing has come back"
    while house.work():
        for item in house.work():
            house.finish(item.job_name)
        house.allocations.placer.run_cycle()
    assert returned() == ENDING
    house.restart()
    assert returned() == ENDING


def test_what_no_note_told_of_is_learnt_at_the_next_look_at_the_ledger(house: House) -> None:
    for number in range(FIRST_CLAIMS):
        house.submit(1000, None, name=f"j{number}")
    cache, learnt = house.allocations.cache, DemandStatistics()
    held = dict(cache._held.holders)
    learnt.set_capacity(1000 * len(cache.build_snapshot().cards))
    for _ in range(FIRST_CLAIMS):
        learnt.record_claim(Shape(1000), 1)
    learnt.record_differences({}, held)
    assert (len(held) > 0, learnt.expected_demand.returned_pct) == (True, FILLING)
    learnt.record_differences(held, held)
    assert learnt.expected_demand.returned_pct == FILLING
    learnt.record_differences(held, {})
    assert learnt.expected_demand.returned_pct == ENDING


def test_a_second_look_at_the_ledger_teaches_nothing_that_is_known(house: House) -> None:
    for number in range(FIRST_CLAIMS):
        house.submit(1000, None, name=f"j{number}")
    for item in house.work():
        house.finish(item.job_name)
    cache = house.allocations.cache
    before = cache._statistics._knowledge.returned_pct
    with house.store.read() as connection:
        cache.load(connection, house.store.clock.now_ns())
    assert cache._statistics._knowledge.returned_pct == before > 0


def test_jobs_without_a_limit_are_expected_to_run_as_long_as_before(house: House) -> None:
    learnt = DemandStatistics()
    for _ in range(3):
        learnt.record_runtime("default", "train", HALF, 1000)
    assert learnt.estimate_seconds("default", "train", HALF, None) == round_up_seconds(1000) == 1024
    assert learnt.estimate_seconds("default", "train", HALF, 60) == 60
    assert learnt.estimate_seconds("default", "other", EIGHTH, None) is None
    for _ in range(FIRST_CLAIMS):
        house.submit(name="train")
        item = house.work()[0]
        house.report(item, "running", started_ns=5)
        house.finish("train")
    assert house.allocations.cache.estimate_seconds(
        "default", "train", SHARE, None
    ) == round_up_seconds(60)
    anew = DemandStatistics()
    with house.store.read() as connection:
        anew.load(connection, house.store.clock.now_ns())
    assert anew.estimate_seconds("default", "train", SHARE, None) == round_up_seconds(60)
    assert anew.expected_demand.shapes == (SHARE,)
