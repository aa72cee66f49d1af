from dataclasses import replace

from gpupool.base.units import GIB, MIB
from gpupool.model.claim import RejectionReason
from gpupool.scheduling.engine.cycle import cycle
from tests.support.cycle_builders import seated, sentence
from tests.support.quota_builders import cohort, member, runs
from tests.support.scheduling_builders import shape, snapshot, tenant, waiting, whole


def test_the_sentence_counts_cards_by_reason() -> None:
    used = {f"node-1/{i}": (600 + 10 * i, GIB) for i in range(8)} | {
        f"node-2/{i}": (600, GIB) for i in range(4)
    }
    used |= {f"node-2/{i}": (100, 140 * GIB - 2048 * MIB) for i in range(4, 8)}
    before = snapshot("2x8xH200", waiting("a"), used=used)
    assert sentence(before) == (
        "needs 0.50 GPU (50 % compute) + 8192 MiB on one card; of 16 cards 12 lack compute (most free: 0.40), "
        "4 lack memory (most free: 2048 MiB)"
    )
    (said,) = cycle(before, 0).rejections.values()
    assert said.cards == {RejectionReason.COMPUTE: 12, RejectionReason.MEMORY: 4}
    assert said.nodes == {RejectionReason.COMPUTE: 1, RejectionReason.MEMORY: 1}
    assert said.dominant is RejectionReason.COMPUTE


def test_the_sentence_names_the_nodes_that_come_nearest() -> None:
    used = {"node-1/0": (100, GIB), "node-2/0": (100, GIB), "node-2/1": (100, GIB)}
    before = snapshot("2x8xH200", waiting("a", want=whole(8)), used=used)
    assert (
        sentence(before)
        == "needs 8 whole cards on one node; node-1 has 7 whole cards free, node-2 6"
    )


def test_a_queue_without_the_quota_waits_with_its_tenants_numbers() -> None:
    before = snapshot("8xH200", waiting("a"), tenants={"nlp": tenant(1000, 1000, held=1800)})
    assert (
        sentence(before)
        == "tenant nlp holds 1.80 of its maximum 2.00 GPU; this claim needs 0.50 more"
    )
    (said,) = cycle(before, 0).rejections.values()
    assert (said.dominant, said.fits_ever) == (RejectionReason.QUOTA, True)


def test_a_class_with_more_jobs_than_heads_says_why_the_rest_waits() -> None:
    plan = cycle(snapshot("1xT4", waiting("a", count=1000)), 0)
    (said,) = plan.rejections.values()
    assert said.sentence == (
        "needs 0.50 GPU (50 % compute) + 8192 MiB on one card; the only card lacks memory (free: 7168 MiB)"
    )


def test_what_a_plan_says_describes_the_pool_as_the_plan_leaves_it() -> None:
    classes = waiting("large", want=whole(), priority=100), waiting("small", want=shape(250, GIB))
    plan = cycle(snapshot("1xT4", *classes, used={"node-1/0": (500, GIB)}), 0)
    assert seated(plan) == {"small": ("node-1/0",)}
    (said,) = cycle(
        snapshot("1xT4", waiting("big"), used={"node-1/0": (700, GIB)}), 0
    ).rejections.values()
    assert said.sentence.endswith("the only card lacks compute (free: 0.30)")


def test_a_claim_larger_than_what_its_quota_became_fits_never() -> None:
    before = snapshot("8xH200", waiting("a"), tenants={"nlp": tenant(200, 100)})
    (said,) = cycle(before, 0).rejections.values()
    assert said.sentence == (
        "0.50 GPU is beyond tenant nlp's maximum of 0.30 GPU (nominal 0.20 + borrowing 0.10)"
    )
    assert not said.fits_ever


def test_a_claim_whose_cards_left_the_pool_fits_never() -> None:
    (said,) = cycle(snapshot("2x4xT4", waiting("a", want=whole(8))), 0).rejections.values()
    assert (said.sentence, said.fits_ever) == (
        "needs 8 cards on one node; the largest node has 4",
        False,
    )


def test_a_claim_is_told_which_cohort_has_nothing_left_of_which_model() -> None:
    views = {"nlp": member("research"), "vision": member("research")}
    lab = {"research": cohort(H200=(12, 0))}
    running = tuple(runs(f"v{n}", "vision", n) for n in range(12))
    taken = {f"node-{1 + n // 8}/{n % 8}": (1000, GIB) for n in range(12)}
    before = snapshot("2x8xH200", waiting("a", want=whole(2, "H200")), tenants=views, used=taken)
    plan = cycle(replace(before, cohorts=lab, running=running), 0)
    (said,) = plan.rejections.values()
    assert (
        said.sentence
        == "cohort research holds 12.00 of its maximum 12.00 H200; this claim needs 2.00 more"
    )
