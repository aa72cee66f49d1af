"""What the arbiter counts of each share's promise, for reports: borrowed and denied. Virtual
time, the shipped code."""

from pathlib import Path

import pytest

from tests.support.compute import LONG, SMALL, Outcome, Tenant, simulate

SECONDS = 8.0
#: A second's worth of promise at both ends is not counted yet.
AHEAD_NS = 1e9


def run(simulation: Path, *tenants: Tenant) -> Outcome:
    return simulate(simulation, tenants, SECONDS)


@pytest.mark.parametrize("work", [SMALL, LONG])
def test_a_share_that_gets_its_promise_is_denied_and_borrows_nothing(
    simulation: Path, work: str
) -> None:
    outcome = run(simulation, Tenant("a", 0.3, work=work), Tenant("b", 0.7, work=work))
    assert outcome.denied_ns == {"a": 0, "b": 0}
    assert outcome.borrowed_ns == {"a": 0, "b": 0}


@pytest.mark.parametrize("sharing", ["burst", "best-effort", "offline"])
def test_what_a_share_uses_beyond_its_promise_is_borrowed(simulation: Path, sharing: str) -> None:
    share = 0.3 if sharing == "burst" else 0.0
    outcome = run(simulation, Tenant("a", share, sharing))
    beyond = outcome.used_ns["a"][-1] - share * SECONDS * 1e9
    assert outcome.borrowed_ns["a"] == pytest.approx(beyond, abs=share * AHEAD_NS + 0.01e9)
    assert outcome.denied_ns["a"] == 0


def test_use_within_the_promise_of_each_second_is_not_borrowed(simulation: Path) -> None:
    outcome = run(simulation, Tenant("a", 0.3, "burst", "k20us*15000,s,h700ms"))
    assert outcome.used_ns["a"][-1] >= 2e9
    assert outcome.borrowed_ns["a"] == 0


def test_a_fixed_share_pays_a_long_kernel_back_and_borrows_nothing(simulation: Path) -> None:
    outcome = run(simulation, Tenant("a", 0.3, "fixed", "k900ms"), Tenant("b", 0.5, "burst"))
    assert outcome.used_ns["a"][-1] >= 1.5e9
    assert outcome.borrowed_ns["a"] == 0
    assert outcome.denied_ns["a"] <= 0.02e9


def test_an_idle_share_is_denied_nothing(simulation: Path) -> None:
    outcome = run(simulation, Tenant("a", 0.6, "burst", "k1ms,s,h100ms"), Tenant("b", 0.4))
    assert outcome.denied_ns["a"] <= 0.1e9


def test_promised_time_that_passes_while_a_share_waits_is_denied(simulation: Path) -> None:
    service = Tenant("a", 0.8, "burst", "k20us*50,s,h5ms")
    beside = {}
    for sharing in ("best-effort", "offline"):
        outcome = run(simulation, service, Tenant("b", 0.0, sharing, "k300us"))
        beside[sharing] = outcome.denied_ns["a"]
    assert beside["best-effort"] >= 0.3 * SECONDS * 1e9
    assert 0 < beside["offline"] <= beside["best-effort"] / 10
