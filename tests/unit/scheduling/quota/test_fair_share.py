"""What each tenant is due: its guarantee, then by weight what is left, never more than it wants."""

import pytest

from gpupool.base.units import WHOLE
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.quota.fair_share import compute_fair_shares, list_overdrawn_lots
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.usage_decay import MICRO_PER_CARD
from tests.support.quota_builders import cohort, gpus, member, runs, tree
from tests.support.scheduling_builders import cards


def due(found: QuotaTree, **wants: float) -> dict[str, float]:
    """In cards, of the tenants and cohorts."""
    each = compute_fair_shares(
        found, {name: ResourceAmount(round(count * WHOLE)) for name, count in wants.items()}
    )
    return {node.name: each[node.number] / MICRO_PER_CARD for node in found._nodes if node.parent}


def test_what_nobody_is_guaranteed_goes_by_weight() -> None:
    assert due(tree("1x8xH200", a=member(weight=3), b=member()), a=8, b=8) == {"a": 6, "b": 2}


def test_nobody_is_due_more_than_it_wants_and_the_others_share_the_rest() -> None:
    assert due(tree("1x8xH200", a=member(), b=member(), c=member()), a=1, b=8, c=8) == {
        "a": 1,
        "b": 4,
        "c": 3,
    }


def test_the_guarantee_comes_first_as_far_as_it_is_wanted() -> None:
    found = tree("1x8xH200", a=member(gpu=(6, None)), b=member(gpu=(0, None)))
    assert due(found, a=8, b=8) == {"a": 7, "b": 1}
    assert due(found, a=2, b=8) == {"a": 2, "b": 6}


def test_parts_of_a_card_are_made_whole_for_the_largest_rest() -> None:
    found = tree("1x8xH200", a=member(gpu=(4, None), weight=4), b=member(gpu=(2, None), weight=2))
    assert due(found, a=7, b=3) == {"a": 5, "b": 3}


def test_shares_that_are_all_wanted_stay_as_they_are() -> None:
    assert due(tree("1x2xH200", a=member(), b=member()), a=0.5, b=2) == {"a": 0.5, "b": 1.5}


def test_a_maximum_bounds_the_due() -> None:
    assert due(tree("1x8xH200", a=member(gpu=(1, 1)), b=member()), a=8, b=8) == {"a": 2, "b": 6}


def test_a_cohorts_due_is_shared_among_its_tenants() -> None:
    found = tree(
        "1x8xH200",
        {"lab": cohort(weight=1), "shop": cohort(weight=3)},
        a=member("lab"),
        b=member("shop"),
    )
    assert due(found, a=8, b=8) == {"lab": 2, "shop": 6, "a": 2, "b": 6}


@pytest.mark.parametrize(("count", "taken"), [(2, ["g3", "g2"]), (3, [])])
def test_only_a_claim_within_its_due_takes_and_only_down_to_the_others(
    count: int, taken: list[str]
) -> None:
    found = tree("1x4xH200", mine=member(), guest=member(holds=4))
    running = [runs(f"g{n}", "guest", n, started=n) for n in range(4)]
    each = compute_fair_shares(
        found, {"mine": ResourceAmount(count * WHOLE), "guest": ResourceAmount(4 * WHOLE)}
    )
    lots = list_overdrawn_lots(found, "mine", gpus(count), running, cards("1x4xH200"), each, 0)
    assert [job.job for lot in lots for job in lot.jobs] == taken


def test_what_is_inside_anothers_guarantee_is_not_taken() -> None:
    found = tree(
        "1x4xH200", mine=member(gpu=(0, None), weight=9), guest=member(gpu=(3, None), holds=4)
    )
    running = [runs(f"g{n}", "guest", n, started=n) for n in range(4)]
    each = compute_fair_shares(
        found, {"mine": ResourceAmount(WHOLE), "guest": ResourceAmount(4 * WHOLE)}
    )
    lots = list_overdrawn_lots(found, "mine", gpus(1), running, cards("1x4xH200"), each, 0)
    assert [job.job for lot in lots for job in lot.jobs] == ["g3"]


def test_a_sibling_over_its_due_gives_though_the_cohort_is_over_its_own() -> None:
    cohorts = {"lab": cohort(weight=1), "shop": cohort(weight=1)}
    found = tree(
        "1x4xH200", cohorts, a=member("lab", holds=3), b=member("lab"), web=member("shop", holds=1)
    )
    running = [runs(f"a{n}", "a", n, started=n) for n in range(3)] + [runs("w", "web", 3)]
    wants = {
        "a": ResourceAmount(3 * WHOLE),
        "b": ResourceAmount(WHOLE),
        "web": ResourceAmount(WHOLE),
    }
    lots = list_overdrawn_lots(
        found, "b", gpus(1), running, cards("1x4xH200"), compute_fair_shares(found, wants), 0
    )
    assert [job.job for lot in lots for job in lot.jobs] == ["a2"]


def test_a_tenant_of_weight_0_is_due_its_guarantee_and_what_its_siblings_do_not_want() -> None:
    found = tree("1x8xH200", a=member(gpu=(2, None), weight=0), b=member())
    assert due(found, a=8, b=8) == {"a": 2, "b": 6}
    assert due(found, a=8, b=3) == {"a": 5, "b": 3}


def test_tenants_of_weight_0_share_alike() -> None:
    assert due(tree("1x8xH200", a=member(weight=0), b=member(weight=0)), a=8, b=8) == {
        "a": 4,
        "b": 4,
    }
