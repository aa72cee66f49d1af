"""What a claim demands of its mechanism, and how that is stored."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpupool.model.isolation.claim_needs import (
    ANY_NEEDS,
    REQUIRED_LEVELS,
    ClaimGoal,
    ClaimNeeds,
    IsolationKind,
    read_needs,
)
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import list_missing_levels


def test_each_isolation_demands_all_that_the_one_before_it_does() -> None:
    kinds = list(IsolationKind)
    for weaker, stronger in pairwise(kinds):
        assert not list_missing_levels(REQUIRED_LEVELS[stronger], REQUIRED_LEVELS[weaker])
        assert list_missing_levels(REQUIRED_LEVELS[weaker], REQUIRED_LEVELS[stronger])


def test_needs_are_read_as_they_were_written() -> None:
    needs = ClaimNeeds(IsolationKind.HARD, ClaimGoal.LATENCY, HostKind.VM)
    assert needs.write() == {"isolation": "hard", "goal": "latency", "host": "vm"}
    assert read_needs(needs.write()) == needs
    assert ANY_NEEDS.write() == {}
    assert read_needs({}) == read_needs(None) == ANY_NEEDS


def test_an_unknown_isolation_is_refused() -> None:
    with pytest.raises(ValueError, match="firm"):
        read_needs({"isolation": "firm"})


def test_only_isolation_and_host_filter_cards() -> None:
    assert not ANY_NEEDS.is_demanding
    assert not ClaimNeeds(IsolationKind.NONE, ClaimGoal.DENSITY).is_demanding
    assert ClaimNeeds(IsolationKind.SOFT).is_demanding
    assert ClaimNeeds(host=HostKind.PROCESS).is_demanding
