"""Advice from what agents report: by family, in the caller's scope, priced, and judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadOption, NotFound, UnknownTenant
from gpupool.base.errors.people import UnknownFamily
from gpupool.base.units import GIB, NANOS_PER_SECOND
from gpupool.fleet.tables import devices
from gpupool.model.partition import PartitionProfile, write_profiles
from gpupool.model.tenant import Principal
from gpupool.wire.billing.prices import PriceListIn
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.rightsizing.advice import AdviceOut
from gpupool.wire.samples import CardUse, JobSample
from tests.support.idle_house import IdleHouse
from tests.support.resizing import resize, running

DAY_NS = 86400 * NANOS_PER_SECOND
GPU = "GPU-node-1-0"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[IdleHouse]:
    made = IdleHouse(tmp_path)
    yield made
    made.close()


def measure(house: IdleHouse, name: str, part: float, samples: int = 8, gib: int = 1) -> None:
    """Report that a running job uses a part of its card, every half minute."""
    job = house.job(name).id
    for number in range(samples):
        use = CardUse(
            uuid=GPU,
            gpu_nanoseconds=int(number * 30 * part * NANOS_PER_SECOND),
            reserved_bytes=gib * GIB,
        )
        sample = JobSample(job=job, gpu_milliseconds=use.gpu_nanoseconds // 10**6, cards=[use])
        house.allocations.agents.apply_reports("node-1", ReportsIn(jobs=[sample]))
        house.time.forward(30)


def run_family(
    house: IdleHouse, name: str, uses: list[float], milli: int = 500, **options: Any
) -> None:
    for number, part in enumerate(uses):
        running(house, f"{name}-{number}", milli, 16, **options)
        measure(house, f"{name}-{number}", part)
        house.finish(f"{name}-{number}")


def advise(house: IdleHouse, who: Principal | None = None, **options: Any) -> list[AdviceOut]:
    since_ns = house.store.clock.now_ns() - DAY_NS
    return house.allocations.rightsizing.list_advice(who or house.admin, since_ns, **options)


def test_a_family_that_uses_a_fifth_of_its_share_is_advised_less(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 5)
    running(house, "train-live", 500, 16)
    running(house, "train-5", 500, 16)

    (found,) = [one for one in advise(house) if one.pattern == "train"]

    assert found.advice == "shrink"
    assert (found.runs, found.measured_runs) == (6, 5)
    assert (found.requested_milli, found.requested_bytes) == (500, 16 * GIB)
    assert (found.used_p95_milli, found.used_bytes) == (100, GIB)
    # 100 x 1.15, up to 150; 1 GiB and a tenth, up to the next 256 MiB.
    assert (found.gpu_milli, found.memory_bytes) == (150, 1280 * 2**20)
    assert (found.confidence, found.limited_percent) == ("low", 0.0)
    assert [(one.name, one.gpu_milli, one.fixed) for one in found.live] == [("train-5", 500, "")]
    # 5 runs of 210 s, 0.35 of a card each, of a day.
    assert found.saved_milli == round(350 * 5 * 210 / 86400)
    assert (found.saved_micro_per_month, found.models) == (None, ["H200"])


def test_a_family_at_its_limit_is_advised_half_more(house: IdleHouse) -> None:
    run_family(house, "eval", [0.3] * 5, milli=300)

    (found,) = advise(house)

    assert (found.advice, found.gpu_milli, found.limited_percent) == ("grow", 450, 100.0)
    assert found.saved_milli is not None
    assert found.saved_milli < 0


def test_nothing_is_advised_of_what_was_not_measured(house: IdleHouse) -> None:
    for number in range(6):
        running(house, f"dark-{number}", 300)
        house.finish(f"dark-{number}")

    (found,) = advise(house)

    assert (found.advice, found.runs, found.measured_runs) == ("unknown", 6, 0)
    assert found.reason == "measured runs: 0, at least 5 are needed"
    assert (found.gpu_milli, found.memory_bytes, found.saved_milli) == (None, None, None)
    assert (found.requested_milli, found.used_p95_milli, found.used_bytes) == (None, None, None)


def test_another_tenants_families_are_not_found(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 5)
    run_family(house, "ours", [0.1] * 5, principal=house.ann)

    assert [one.pattern for one in advise(house, house.ann)] == ["ours"]
    assert {one.pattern for one in advise(house)} == {"train", "ours"}
    assert [one.pattern for one in advise(house, tenant="nlp")] == ["ours"]
    with pytest.raises(UnknownFamily):
        advise(house, house.ann, family="train")
    with pytest.raises(NotFound):
        advise(house, house.ann, job="train-0")
    with pytest.raises(UnknownTenant):
        advise(house, house.ann, tenant="default")
    with pytest.raises(UnknownTenant):
        advise(house, tenant="nobody")
    since_ns = house.store.clock.now_ns() - DAY_NS
    backtest = house.allocations.rightsizing.run_backtest
    assert backtest(house.ann, since_ns).families == 1
    assert backtest(house.admin, since_ns).families == 2


def test_a_family_is_named_by_pattern_by_whole_name_and_by_a_job(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 2)
    run_family(house, "eval", [0.1] * 2)

    whole = advise(house, family="train")[0].family

    assert [one.family for one in advise(house, family=whole)] == [whole]
    assert [one.family for one in advise(house, job="train-1")] == [whole]
    with pytest.raises(BadOption):
        advise(house, job="train-1", family="train")


def test_the_saving_is_priced_by_the_list_in_force(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 5)
    rates = [{"model": "H200", "price_micro": 10_000_000}]
    prices = PriceListIn.model_validate({"from_ns": 0, "currency": "EUR", "rates": rates})
    house.allocations.billing.prices.put("now", prices)

    (found,) = advise(house)

    # 0.35 of 10 EUR for 30 times the 1,050 s of a day.
    assert found.currency == "EUR"
    assert found.saved_micro_per_month == pytest.approx(3.5e6 * 1050 / 3600 * 30, rel=1e-3)


def test_the_smallest_partition_is_named_also_of_cards_that_are_not_cut(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 5)
    small = PartitionProfile("1g.18gb", 1, 17 * GIB, (0, 1, 2, 3, 4, 5, 6), 7, 142)
    large = PartitionProfile("2g.35gb", 2, 34 * GIB, (0, 2, 4), 3, 285)
    mode = {"mode": "mig", "profiles": write_profiles([small, large])}
    with house.store.write() as write:
        write.execute(devices.update().values(facts={"modes": [mode]}))

    (found,) = advise(house)

    # 0.15 of a card is more than the 0.142 of the smallest.
    assert found.partition is not None
    assert (found.partition.profile, found.partition.per_card) == ("2g.35gb", 3)


def test_an_applied_advice_is_the_request_from_then_on(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 5)
    (before,) = advise(house)
    running(house, "train-9", 500, 16)
    measure(house, "train-9", 0.1, samples=2)
    assert before.gpu_milli is not None
    resize(house, "train-9", before.gpu_milli)
    measure(house, "train-9", 0.1)

    (after,) = advise(house)

    assert (after.requested_milli, after.gpu_milli) == (150, 150)
    assert after.advice == "shrink"  # of memory, which was not resized
    assert after.saved_milli == 0


def test_the_backtest_judges_later_runs_by_earlier_ones(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 5 + [0.4])

    since_ns = house.store.clock.now_ns() - DAY_NS
    found = house.allocations.rightsizing.run_backtest(house.admin, since_ns)

    methods = {one.method: one for one in found.methods}
    assert (found.families, found.judged_runs, found.unjudged_runs) == (1, 1, 5)
    assert methods["advised"].starved_percent == 100.0
    assert methods["as-requested"].starved_percent == 0.0
    assert methods["advised"].saved_percent == 70.0


def test_a_time_that_begins_in_the_future_is_refused(house: IdleHouse) -> None:
    with pytest.raises(BadOption):
        house.allocations.rightsizing.list_advice(house.admin, house.store.clock.now_ns() + 1)
