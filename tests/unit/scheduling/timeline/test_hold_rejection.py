"""Rejections of claims for which there is room, but it is held for others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import RejectionReason
from gpupool.scheduling.quota.promised_use import PromisedUse
from gpupool.scheduling.timeline.hold_rejection import reject_for_hold, reject_for_quota
from tests.support.quota_builders import gpus, member, tree
from tests.support.scheduling_builders import waiting
from tests.support.time_builders import hold

CLAIM = waiting("a")
LATER = "1970-01-01T00:01:40Z"


@pytest.mark.parametrize(
    ("owner", "whose"),
    [
        ("", "a claim of higher rank"),
        ("nlp/demo", "reservation demo"),
        ("vision/demo", "a reservation of another tenant"),
    ],
)
def test_a_hold_that_has_begun_names_its_owner_and_no_limit(owner: str, whose: str) -> None:
    said = reject_for_hold(CLAIM, hold(1000, 0, 0, start=100, end=200, owner=owner), 100 * SECOND)
    assert said.sentence == f"what is free is kept for {whose}"
    assert (said.dominant, said.hint) == (RejectionReason.RESERVED, "")


def test_a_later_hold_is_met_by_a_run_without_a_limit_or_too_long() -> None:
    later = hold(1000, 0, 0, start=100, end=200)
    said = reject_for_hold(CLAIM, later, 99 * SECOND)
    assert said.sentence.endswith(f" from {LATER} on, and this claim has no known end")
    assert said.hint.startswith("a --max-time that ends before then")
    limited = reject_for_hold(replace(CLAIM, seconds=751), later, 0)
    assert limited.sentence.endswith(" and this claim may run for 12:31")


def test_quota_that_is_collected_has_no_instant_and_no_hint() -> None:
    known = PromisedUse(
        tree("1x8xH200", nlp=member()), "nlp", gpus(1), True, 100 * SECOND, 200 * SECOND, ()
    )
    said = reject_for_quota(CLAIM, known)
    assert said.dominant is RejectionReason.QUOTA
    assert f"is kept for a claim of higher rank from {LATER} on" in said.sentence
    assert said.hint.startswith("a --max-time")
    collects = reject_for_quota(CLAIM, replace(known, collects=True))
    assert collects.sentence.endswith("is kept for a claim of higher rank")
    assert collects.hint == ""
