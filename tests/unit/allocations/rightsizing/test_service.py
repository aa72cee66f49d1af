"""Advice from what agents report: by family, in the caller's scope, priced, and judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import jobs
from gpupool.base.errors import BadOption, NotFound, UnknownTenant
from gpupool.base.errors.people import UnknownFamily
from gpupool.base.units import GIB, NANOS_PER_SECOND
from gpupool.fleet.tables import devices
from gpupool.model.partition import PartitionProfile, write_profiles
from gpupool.model.tenant import Principal
from gpupool.wire.billing.prices import PriceListIn
from gpupool.wire.rightsizing.advice import AdviceOut
from gpupool.wire.submissions import JobIn, LaunchIn, ShapeIn
from tests.support.idle_house import IdleHouse
from tests.support.measured_runs import measure, run_family
from tests.support.resizing import resize, running

DAY_NS = 86400 * NANOS_PER_SECOND


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdleHouse]:
    """A pool with prices and MIG profiles, and families that tests only read."""
    made = IdleHouse(tmp_path_factory.mktemp("families"))
    run_family(made, "train", [0.1] * 5)
    running(made, "train-5", 500, 16)
    made.finish("train-5")
    running(made, "train-6", 500, 16)
    run_family(made, "eval", [0.3] * 5, milli=300)
    run_family(made, "grown", [0.1] * 5 + [0.4])
    run_family(made, "ours", [0.1] * 2, principal=made.ann)
    run_family(made, "unnamed", [0.1] * 2)
    with made.store.write() as write:
        # As the pool names jobs that nobody named: by their program and the end of their id.
        for number in range(2):
            mine = jobs.c.name == f"unnamed-{number}"
            public_id = write.execute(sa.select(jobs.c.public_id).where(mine)).scalar_one()
            write.execute(jobs.update().where(mine).values(name=f"python-{public_id[-4:]}"))
    running(made, "dark-0", 300)
    rates = [
        {"model": "H200", "price_micro": 10_000_000},
        {"model": "L4", "price_micro": 2_000_000},
    ]
    prices = PriceListIn.model_validate({"from_ns": 0, "currency": "EUR", "rates": rates})
    made.allocations.billing.prices.put("now", prices)
    small = PartitionProfile("1g.18gb", 1, 17 * GIB, (0, 1, 2, 3, 4, 5, 6), 7, 142)
    large = PartitionProfile("2g.35gb", 2, 34 * GIB, (0, 2, 4), 3, 285)
    mode = {"mode": "mig", "profiles": write_profiles([small, large])}
    with made.store.write() as write:
        write.execute(devices.update().values(facts={"modes": [mode]}))
        second = devices.c.idx == 1
        write.execute(devices.update().where(second).values(model="L4", facts={}))
    yield made
    made.close()


def advise(house: IdleHouse, who: Principal | None = None, **options: Any) -> list[AdviceOut]:
    since_ns = house.store.clock.now_ns() - DAY_NS
    return house.allocations.rightsizing.list_advice(who or house.admin, since_ns, **options)


def test_a_family_that_uses_a_fifth_of_its_share_is_advised_less(families: IdleHouse) -> None:
    (found,) = advise(families, family="train")

    assert found.advice == "shrink"
    assert (found.runs, found.measured_runs) == (7, 5)
    assert (found.requested_milli, found.requested_bytes) == (500, 16 * GIB)
    assert (found.used_p95_milli, found.used_bytes) == (100, GIB)
    # 100 x 1.15, up to 150; 1 GiB and a tenth, up to the next 256 MiB.
    assert (found.gpu_milli, found.memory_bytes) == (150, 1280 * 2**20)
    assert (found.confidence, found.limited_percent) == ("low", 0.0)
    assert [(one.name, one.gpu_milli, one.fixed) for one in found.live] == [("train-6", 500, "")]
    # 5 runs of 150 s, 0.35 of a card each, of a day.
    assert found.saved_milli == round(350 * 5 * 150 / 86400)
    assert found.models == ["H200", "L4"]


def test_jobs_that_the_pool_named_are_a_family_by_their_program(families: IdleHouse) -> None:
    (found,) = advise(families, family="python")
    assert (found.runs, found.measured_runs) == (2, 2)


def test_an_array_that_nobody_named_is_of_the_family_of_its_program(house: IdleHouse) -> None:
    for _ in range(2):
        house.allocations.jobs.submit_job(
            JobIn(
                shape=ShapeIn(gpu_milli=100, memory_bytes=GIB),
                launch=LaunchIn(argv=["/opt/sweep"]),
                array=3,
            ),
            house.admin,
            None,
        )
    for _ in range(6):
        item = next(one for one in house.work() if not one.started)
        house.report(item, "running", started_ns=5)
        measure(house, item.job, 0.02)
        assert house.report(item, "ended", exit_code=0) == []

    (found,) = advise(house, family="sweep")
    assert found.measured_runs == 6
    member = advise(house, job=item.job)
    assert [one.family for one in member] == [found.family]


def test_the_saving_is_priced_by_the_list_in_force(families: IdleHouse) -> None:
    (found,) = advise(families, family="train")

    # 0.35 of 10 EUR for 30 times the 750 s of a day.
    assert found.currency == "EUR"
    assert found.saved_micro_per_month == pytest.approx(3.5e6 * 750 / 3600 * 30, rel=1e-3)


def test_the_smallest_partition_is_named_also_of_cards_that_are_not_cut(
    families: IdleHouse,
) -> None:
    (found,) = advise(families, family="train")

    # 0.15 of a card is more than the 0.142 of the smallest.
    assert found.partition is not None
    assert (found.partition.profile, found.partition.per_card) == ("2g.35gb", 3)


def test_a_cheaper_model_with_enough_memory_is_named(families: IdleHouse) -> None:
    (found,) = advise(families, family="train")

    assert found.cheaper is not None
    assert found.cheaper.model == "L4"
    # 0.15 of 8 EUR for 30 times the 750 s of a day.
    saved = found.cheaper.saved_micro_per_month
    assert saved == pytest.approx(1.2e6 * 750 / 3600 * 30, rel=1e-3)
    assert advise(families, family="dark")[0].cheaper is None


def test_tenants_are_summed_and_another_one_is_not_seen(families: IdleHouse) -> None:
    since_ns = families.store.clock.now_ns() - DAY_NS
    rightsizing = families.allocations.rightsizing

    default, theirs = rightsizing.list_tenants(families.admin, since_ns)

    assert (default.tenant, default.families, default.advised_families) == ("default", 5, 3)
    assert (default.grow_families, default.runs) == (1, 21)
    rows = [one for one in advise(families) if one.tenant == "default"]
    assert default.saved_milli == sum(one.saved_milli or 0 for one in rows)
    assert (theirs.tenant, theirs.saved_milli, theirs.saved_micro_per_month) == ("nlp", None, None)
    assert [one.tenant for one in rightsizing.list_tenants(families.ann, since_ns)] == ["nlp"]


def test_the_layout_holds_the_most_partitions_at_one_time(families: IdleHouse) -> None:
    since_ns = families.store.clock.now_ns() - DAY_NS
    rightsizing = families.allocations.rightsizing

    (found,) = rightsizing.list_layouts(families.admin, since_ns)

    # train fits into two sevenths; another family needs more than any partition has.
    assert (found.model, found.cards, found.families, found.unfit_families) == ("H200", 1, 1, 1)
    assert found.demand == {"2g.35gb": 1}
    assert [(one.mix, one.cards) for one in found.mixes] == [("2g.35gb", 1)]
    assert (found.cards_needed, found.missing) == (1, {})
    assert rightsizing.list_layouts(families.ann, since_ns) == []


def test_a_family_at_its_limit_is_advised_half_more(families: IdleHouse) -> None:
    (found,) = advise(families, family="eval")

    assert (found.advice, found.gpu_milli, found.limited_percent) == ("grow", 450, 100.0)
    assert found.saved_milli is not None
    assert found.saved_milli < 0


def test_nothing_is_advised_of_what_was_not_measured(families: IdleHouse) -> None:
    (found,) = advise(families, family="dark")

    assert (found.advice, found.runs, found.measured_runs) == ("unknown", 1, 0)
    assert found.reason == "measured runs: 0, at least 5 are needed"
    assert (found.gpu_milli, found.memory_bytes, found.saved_milli) == (None, None, None)
    assert (found.requested_milli, found.used_p95_milli, found.used_bytes) == (None, None, None)


def test_another_tenants_families_are_not_found(families: IdleHouse) -> None:
    ann = families.ann

    assert [one.pattern for one in advise(families, ann)] == ["ours"]
    assert {one.pattern for one in advise(families)} >= {"train", "ours"}
    assert [one.pattern for one in advise(families, tenant="nlp")] == ["ours"]
    with pytest.raises(UnknownFamily):
        advise(families, ann, family="train")
    with pytest.raises(NotFound):
        advise(families, ann, job="train-0")
    with pytest.raises(UnknownTenant):
        advise(families, ann, tenant="default")
    with pytest.raises(UnknownTenant):
        advise(families, tenant="nobody")
    since_ns = families.store.clock.now_ns() - DAY_NS
    backtest = families.allocations.rightsizing.run_backtest
    assert backtest(ann, since_ns).families == 1
    assert backtest(families.admin, since_ns).families == 5


def test_a_family_is_named_by_pattern_by_whole_name_and_by_a_job(families: IdleHouse) -> None:
    whole = advise(families, family="train")[0].family

    assert [one.family for one in advise(families, family=whole)] == [whole]
    assert [one.family for one in advise(families, job="train-1")] == [whole]
    with pytest.raises(BadOption):
        advise(families, job="train-1", family="train")


def test_the_backtest_judges_later_runs_by_earlier_ones(families: IdleHouse) -> None:
    since_ns = families.store.clock.now_ns() - DAY_NS

    found = families.allocations.rightsizing.run_backtest(families.admin, since_ns)

    methods = {one.method: one for one in found.methods}
    assert (found.judged_runs, found.unjudged_runs) == (1, 19)
    assert methods["advised"].starved_percent == 100.0
    assert methods["as-requested"].starved_percent == 0.0
    assert methods["advised"].saved_percent == 70.0


def test_a_time_that_begins_in_the_future_is_refused(families: IdleHouse) -> None:
    with pytest.raises(BadOption):
        families.allocations.rightsizing.list_advice(
            families.admin, families.store.clock.now_ns() + 1
        )


def test_an_applied_advice_is_the_request_from_then_on(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 4)
    running(house, "train-9", 500, 16)
    measure(house, "train-9", 0.1)
    resize(house, "train-9", 150)

    (after,) = advise(house)

    # What was pending was counted with the resize.
    assert (after.measured_runs, after.requested_milli, after.gpu_milli) == (5, 150, 150)
    assert after.advice == "shrink"  # of memory, which was not resized
    assert (after.saved_milli, after.saved_micro_per_month, after.partition) == (0, None, None)
