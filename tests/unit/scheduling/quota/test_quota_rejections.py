"""Rejections by quotas: their numbers, and the hint that helps."""

from __future__ import annotations

from gpupool.model.claim import RejectionReason
from gpupool.model.quota import GPU
from gpupool.scheduling.quota.quota_rejections import (
    HINT,
    PREEMPTIBLE,
    find_rejection_for_ever,
    reject_first,
    reject_unreachable,
)
from gpupool.scheduling.quota.tree_node import ExhaustedQuota
from tests.support.quota_builders import cohort, gpus, member, tree

BOUNDED = tree("1x8xH200", {"lab": cohort((4, 0))}, nlp=member("lab", gpu=(1, 2)))


def exhausted(held: int = 1, kept: int = 0) -> ExhaustedQuota:
    node = BOUNDED.leaves["nlp"]
    return ExhaustedQuota(node, GPU, held * 1000, 3000, kept * 1000, 2000)


def test_more_than_a_maximum_is_rejected_for_ever() -> None:
    assert find_rejection_for_ever(BOUNDED, "nlp", gpus(3)) is None
    said = find_rejection_for_ever(BOUNDED, "nlp", gpus(3.001))
    assert said is not None
    assert (said.dominant, said.fits_ever, said.hint) == (RejectionReason.QUOTA, False, HINT)
    assert "tenant nlp" in said.sentence


def test_more_than_a_cohorts_maximum_is_rejected_for_ever() -> None:
    found = tree("1x8xH200", {"lab": cohort((4, 0))}, nlp=member("lab"))
    said = find_rejection_for_ever(found, "nlp", gpus(5))
    assert said is not None
    assert "cohort lab" in said.sentence
    assert find_rejection_for_ever(found, "nlp", gpus(4)) is None


def test_the_quota_is_named_before_what_others_are_guaranteed() -> None:
    by_quota = reject_first((exhausted(2), exhausted(1)))
    assert by_quota is not None
    assert by_quota.sentence.startswith("tenant nlp holds 2.00 of its maximum 3.00 GPU")
    assert by_quota.hint == ""
    by_guarantee = reject_first((None, exhausted(1, kept=2)))
    assert by_guarantee is not None
    assert by_guarantee.hint == PREEMPTIBLE
    assert reject_first((None, None)) is None


def test_only_a_claim_that_may_not_be_preempted_is_told_to_be_preemptible() -> None:
    assert reject_unreachable(None, firm=True) is None
    for firm, hint in ((True, PREEMPTIBLE), (False, "")):
        said = reject_unreachable(exhausted(kept=3), firm=firm)
        assert said is not None
        assert said.hint == hint
        assert ("not preemptible" in said.sentence) is firm
