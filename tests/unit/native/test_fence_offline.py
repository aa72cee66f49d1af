"""An offline share gives the card back to every other share, on virtual time: the shipped code on
the simulated card's engine."""

from pathlib import Path

import pytest

from tests.support.compute import LONG, SMALL, SPREAD, Outcome, Tenant, simulate

SETTLED_MS = 500
#: How much longer than one kernel of the offline share a launch of another share may wait.
BEYOND_A_KERNEL_MS = 1.0
#: Short work with pauses, in which the offline share has the card.
ONLINE_WORK = ("k20us*50,s,h5ms", "k20us*10,s,h700us", "k20us,s,h300us")
ONLINE = (("burst", 0.8), ("fixed", 0.8), ("best-effort", 0.0))


def run_beside(
    simulation: Path, sharing: str, share: float, work: str, offline: Tenant, seconds: float = 2.5
) -> Outcome:
    online = Tenant("online", share, sharing, work)
    return simulate(simulation, [online, offline], seconds)


@pytest.mark.parametrize("work", ONLINE_WORK)
@pytest.mark.parametrize(("sharing", "share"), ONLINE)
def test_a_launch_waits_for_an_offline_share_at_most_a_millisecond(
    simulation: Path, sharing: str, share: float, work: str
) -> None:
    offline = Tenant("offline", 0.0, "offline", SPREAD)
    outcome = run_beside(simulation, sharing, share, work, offline)
    assert 0 < outcome.longest_wait_ns["online"] <= BEYOND_A_KERNEL_MS * 1e6


@pytest.mark.parametrize(("kernel", "longest_ms"), [("k3ms", 3.3), ("k9ms", 9.9), (LONG, 22.0)])
def test_a_launch_waits_for_no_more_than_one_long_kernel(
    simulation: Path, kernel: str, longest_ms: float
) -> None:
    offline = Tenant("offline", 0.0, "offline", kernel)
    outcome = run_beside(simulation, "burst", 0.8, ONLINE_WORK[1], offline)
    waited_ms = outcome.longest_wait_ns["online"] / 1e6
    assert longest_ms / 2 < waited_ms <= longest_ms + BEYOND_A_KERNEL_MS


def test_an_offline_share_uses_the_pauses_of_the_others(simulation: Path) -> None:
    offline = Tenant("offline", 0.0, "offline", SMALL)
    outcome = run_beside(simulation, "burst", 0.8, ONLINE_WORK[0], offline, 3)
    assert outcome.share("offline", SETTLED_MS) >= 0.6


def test_an_offline_share_alone_on_its_card_has_all_of_it(simulation: Path) -> None:
    tenants = [Tenant("a", 0.0, "offline", SPREAD)]
    bare = simulate(simulation, [Tenant("a", 1.0, "fixed", SPREAD)], 3)
    outcome = simulate(simulation, tenants, 3)
    assert outcome.share("a", SETTLED_MS) >= 0.97 * bare.share("a", SETTLED_MS)


@pytest.mark.parametrize("priority", [0, 9])
@pytest.mark.parametrize("sharing", ["burst", "best-effort"])
def test_an_offline_share_gets_nothing_while_another_uses_the_card(
    simulation: Path, sharing: str, priority: int
) -> None:
    tenants = [
        Tenant("online", 0.2 if sharing == "burst" else 0.0, sharing),
        Tenant("offline", 0.0, "offline", options=f"priority={priority} weight=100"),
    ]
    outcome = simulate(simulation, tenants, 3)
    assert outcome.share("online", SETTLED_MS) >= 0.97
    assert outcome.share("offline", SETTLED_MS) <= 0.01


@pytest.mark.parametrize("offline", [SMALL, "k3ms", LONG])
def test_a_fixed_share_beside_an_offline_one_has_its_share(simulation: Path, offline: str) -> None:
    tenants = [Tenant("a", 0.4), Tenant("rest", 0.0, "offline", offline)]
    outcome = simulate(simulation, tenants, 6.6)
    assert outcome.worst_error("a", 0.4, 1000, SETTLED_MS) <= 3
    assert outcome.share("a", SETTLED_MS) >= 0.97 * 0.4
    assert outcome.share("rest", SETTLED_MS) >= 0.85 * 0.6


def test_a_whole_card_that_asks_for_no_lease_is_seen_within_a_millisecond(
    simulation: Path,
) -> None:
    tenants = [Tenant("whole", 1.0, options="start_ms=1000"), Tenant("rest", 0.0, "offline")]
    outcome = simulate(simulation, tenants, 2)
    assert outcome.share("rest", 100, 1000) >= 0.85
    assert outcome.share("whole", 1000, 1010) >= 0.9  # of ten milliseconds one is lost at most
    assert outcome.share("whole", 1010) >= 0.99


@pytest.mark.parametrize("lie", [1, 2, 3], ids=["anything", "stands-still", "grows"])
def test_an_offline_share_that_lies_about_its_work_takes_nothing(
    simulation: Path, lie: int
) -> None:
    tenants = [Tenant("liar", 0.0, "offline"), Tenant("other", 0.3, "burst")]
    outcome = simulate(simulation, tenants, 4, [f"at 1000 lie liar {lie}"])
    assert outcome.share("other", 1000 + SETTLED_MS) >= 0.97


def test_two_offline_shares_divide_what_is_left_by_weight(simulation: Path) -> None:
    tenants = [
        Tenant("a", 0.0, "offline", options="weight=1"),
        Tenant("b", 0.0, "offline", options="weight=3"),
    ]
    outcome = simulate(simulation, tenants, 4)
    assert outcome.share("a", SETTLED_MS) == pytest.approx(0.25, abs=0.02)
    assert outcome.share("b", SETTLED_MS) == pytest.approx(0.75, abs=0.02)


def test_without_an_arbiter_an_offline_share_has_the_least_static_part(simulation: Path) -> None:
    tenants = [Tenant("a", 0.0, "offline")]
    outcome = simulate(simulation, tenants, 4, ["at 1000 arbiter off"])
    assert 0.005 <= outcome.share("a", 2000) <= 0.02
