"""Which machine a load balancer of HTTP leads to, decided from what a machine sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.agent.network.balancing.proxy_moves import (
    ARMED_SECONDS,
    DISARM_SECONDS,
    FOLLOW_SECONDS,
    SILENT_SECONDS,
    SILENT_STANDBY_SECONDS,
    Durations,
    PairClock,
    PairSight,
    ProxyStep,
    RowSight,
    decide_step,
)
from gpupool.network.gateways.model import GatewayRole

ACTIVE = PairSight(GatewayRole.ACTIVE, GatewayRole.STANDBY, True, True, True)
STANDBY = replace(ACTIVE, role=GatewayRole.STANDBY, peer_role=GatewayRole.ACTIVE)
AWAY = replace(STANDBY, role=GatewayRole.AWAY)
HERE = RowSight(is_here=True, is_ready=True, is_peer_ready=True)
THERE = replace(HERE, is_here=False)
ARMED = replace(THERE, is_armed=True)


def decide(pair: PairSight, row: RowSight, **times: float) -> ProxyStep | None:
    return decide_step(pair, row, Durations(**times))


@pytest.mark.parametrize("pair", [ACTIVE, STANDBY, AWAY])
def test_a_machine_whose_proxy_died_gives_at_once_whatever_its_role(pair: PairSight) -> None:
    dead = replace(HERE, is_ready=False)
    assert decide(pair, dead) is ProxyStep.GIVE
    assert decide(pair, replace(dead, is_peer_ready=False)) is None
    assert decide(replace(pair, is_peer_up=False), dead) is None


@pytest.mark.parametrize("pair", [ACTIVE, STANDBY, AWAY])
def test_a_machine_takes_from_a_dead_proxy_unless_its_own_is_dead(pair: PairSight) -> None:
    row = replace(THERE, is_peer_ready=False)
    assert decide(pair, row) is ProxyStep.TAKE
    assert decide(pair, replace(row, is_ready=False)) is None


def test_a_planned_move_follows_the_gateways() -> None:
    assert decide(ACTIVE, THERE, wanted=FOLLOW_SECONDS - 0.1) is None
    assert decide(ACTIVE, THERE, wanted=FOLLOW_SECONDS) is ProxyStep.TAKE
    assert decide(ACTIVE, HERE, wanted=FOLLOW_SECONDS) is None


def test_the_standby_arms_what_a_silent_machine_has_and_then_takes_it() -> None:
    silent = replace(STANDBY, is_peer_up=False)
    assert decide(silent, THERE, silent=SILENT_SECONDS - 0.01) is None
    assert decide(silent, THERE, silent=SILENT_SECONDS) is ProxyStep.ARM
    assert decide(silent, ARMED, silent=9, armed=ARMED_SECONDS - 0.01) is None
    assert decide(silent, ARMED, silent=9, armed=ARMED_SECONDS) is ProxyStep.TAKE
    # It answers again: what has begun is ended.
    assert decide(STANDBY, ARMED, armed=ARMED_SECONDS) is ProxyStep.TAKE


def test_what_a_machine_armed_before_it_died_is_disarmed() -> None:
    armed = replace(HERE, is_armed=True)
    assert decide(ACTIVE, armed, armed=DISARM_SECONDS - 0.1) is None
    assert decide(ACTIVE, armed, armed=DISARM_SECONDS) is ProxyStep.DISARM


def test_two_machines_without_a_tunnel_between_them_do_not_fight() -> None:
    """Both are silent to each other; only one of them is the standby."""
    seconds = SILENT_STANDBY_SECONDS - 0.01
    assert decide(replace(STANDBY, is_peer_up=False), THERE, silent=seconds) is ProxyStep.ARM
    assert decide(replace(ACTIVE, is_peer_up=False), THERE, silent=seconds) is None
    # By then the other one has demoted it, if it lives.
    assert decide(replace(AWAY, is_peer_up=False), THERE, silent=100) is None
    still_active = replace(ACTIVE, is_peer_up=False)
    assert decide(still_active, THERE, silent=SILENT_STANDBY_SECONDS) is ProxyStep.ARM


def test_a_machine_that_is_or_was_cut_off_takes_nothing() -> None:
    dead = replace(THERE, is_peer_ready=False)
    assert decide(replace(STANDBY, is_any_up=False, is_peer_up=False), dead, silent=9) is None
    assert decide(replace(STANDBY, is_informed=False), dead) is None
    assert decide(replace(STANDBY, is_informed=False), ARMED, armed=9) is None


def test_a_clock_counts_from_the_first_sight() -> None:
    clock = PairClock()
    clock.note_peer(1.0, is_up=False)
    clock.note_peer(2.0, is_up=False)
    for now in (1.0, 2.0):
        clock.note_row(now, "a", ACTIVE, ARMED)
    assert clock.measure(3.0, "a") == Durations(silent=2.0, armed=2.0, wanted=2.0)
    assert clock.is_waiting(3.0)
    clock.note_peer(3.0, is_up=True)
    clock.note_row(3.0, "a", ACTIVE, HERE)
    assert clock.measure(4.0, "a") == Durations()
    assert not clock.is_waiting(4.0)


def test_a_clock_does_not_wait_for_a_machine_that_is_dead() -> None:
    clock = PairClock()
    clock.note_peer(1.0, is_up=False)
    assert clock.is_waiting(1.0 + SILENT_STANDBY_SECONDS)
    assert not clock.is_waiting(10.0)
    assert clock.measure(10.0, "a").silent == 9.0


@pytest.mark.parametrize(
    ("pair", "row"),
    [
        (STANDBY, THERE),
        (AWAY, THERE),
        (replace(ACTIVE, peer_role=GatewayRole.ACTIVE), THERE),
        (replace(ACTIVE, is_peer_up=False), THERE),
        (PairSight(None, None, True, True, True), THERE),
        (ACTIVE, replace(THERE, is_ready=False)),
        (ACTIVE, HERE),
    ],
)
def test_no_other_machine_plans_a_move(pair: PairSight, row: RowSight) -> None:
    clock = PairClock()
    clock.note_row(1.0, "a", pair, row)
    assert clock.measure(9.0, "a").wanted == 0


def test_rows_that_are_gone_are_forgotten() -> None:
    clock = PairClock()
    clock.note_row(1.0, "a", ACTIVE, ARMED)
    clock.forget_others(["b"])
    assert not clock.is_waiting(1.0)
