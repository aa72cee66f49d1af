"""What a machine of a pair decides, alone and against the other one of the pair."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from gpupool.agent.network.gateways.decision import (
    SETTLE_SECONDS,
    SILENT_SECONDS,
    UNANSWERED_SECONDS,
    UNKNOWN_SECONDS,
    GatewayChange,
    GatewayDecision,
    GatewaySight,
)
from gpupool.network.gateways.model import GatewayRole, make_priority, read_role

ACTIVE = GatewayRole.ACTIVE
STANDBY = GatewayRole.STANDBY
AWAY = GatewayRole.AWAY


def priorities(one: GatewayRole, two: GatewayRole) -> dict[str, int]:
    return {"c1": make_priority(one, is_first=True), "c2": make_priority(two, is_first=False)}


def first() -> GatewayDecision:
    return GatewayDecision("c1", "c2", is_first=True, names={"c1": "one", "c2": "two"})


def second() -> GatewayDecision:
    return GatewayDecision("c2", "c1", is_first=False, names={"c1": "one", "c2": "two"})


def sight(now: float, roles: Mapping[str, int], **more: object) -> GatewaySight:
    return GatewaySight(now=now, priorities=roles, **more)  # type: ignore[arg-type]


def test_a_dead_uplink_gives_gateways_to_the_standby_in_one_change() -> None:
    change = first().decide(
        sight(0, priorities(ACTIVE, STANDBY), uplink_fault="eth1 has no carrier"), lambda: True
    )
    assert change == GatewayChange({"c1": AWAY, "c2": ACTIVE}, "one: eth1 has no carrier")


def test_a_dead_uplink_promotes_no_machine_that_is_away() -> None:
    roles = priorities(ACTIVE, AWAY)
    change = first().decide(sight(0, roles, uplink_fault="dead"), lambda: True)
    assert change is not None
    assert change.roles == {"c1": AWAY}


def test_a_machine_stands_by_only_after_a_while_and_with_its_flows() -> None:
    decision = first()
    roles = priorities(AWAY, ACTIVE)
    assert decision.decide(sight(0, roles), lambda: True) is None
    # A fault in between: the time counts from its end.
    assert decision.decide(sight(1, roles, uplink_fault="dead"), lambda: True) is None
    assert decision.decide(sight(1.1, roles), lambda: True) is None
    assert decision.decide(sight(SETTLE_SECONDS + 0.1, roles), lambda: True) is None
    settled = sight(1.1 + SETTLE_SECONDS, roles)
    assert decision.decide(settled, lambda: False) is None
    change = decision.decide(settled, lambda: True)
    assert change is not None
    assert change.roles == {"c1": STANDBY}


def test_a_silent_active_machine_is_demoted_by_one_that_reaches_others() -> None:
    decision = second()
    roles = priorities(ACTIVE, STANDBY)
    assert decision.decide(sight(0, roles), lambda: True) is None
    assert decision.decide(sight(1, roles, is_peer_up=False), lambda: True) is None
    later = 1 + SILENT_SECONDS
    assert decision.decide(sight(later - 0.01, roles, is_peer_up=False), lambda: True) is None
    change = decision.decide(sight(later, roles, is_peer_up=False), lambda: True)
    assert change is not None
    assert change.roles == {"c1": AWAY, "c2": ACTIVE}
    assert change.reason == "one does not answer"


def test_a_machine_that_reaches_no_other_one_judges_none() -> None:
    decision = second()
    roles = priorities(ACTIVE, STANDBY)
    decision.decide(sight(0, roles), lambda: True)
    for tick in range(400):
        alone = sight(1 + tick / 20, roles, is_peer_up=False, is_any_up=False)
        assert decision.decide(alone, lambda: True) is None
    # A pool of two machines: there is no third one that could answer.
    pair = sight(30, roles, is_peer_up=False, is_any_up=False, has_others=False)
    decision.decide(pair, lambda: True)
    later = sight(30 + SILENT_SECONDS, roles, is_peer_up=False, is_any_up=False, has_others=False)
    assert decision.decide(later, lambda: True) is not None


def test_a_tunnel_that_begins_is_given_more_time() -> None:
    decision = second()
    roles = priorities(ACTIVE, STANDBY)
    # There is no gateway yet, so OVN watches no tunnel.
    decision.decide(sight(0, roles, is_watched=False), lambda: True)
    decision.decide(sight(1, roles, is_peer_up=False), lambda: True)
    early = sight(1 + UNKNOWN_SECONDS - 0.01, roles, is_peer_up=False)
    assert decision.decide(early, lambda: True) is None
    late = sight(1 + UNKNOWN_SECONDS, roles, is_peer_up=False)
    assert decision.decide(late, lambda: True) is not None


def test_an_address_without_an_answer_moves_gateways() -> None:
    decision = second()
    roles = priorities(ACTIVE, STANDBY)
    assert decision.decide(sight(0, roles, is_address_answered=False), lambda: True) is None
    late = sight(UNANSWERED_SECONDS, roles, is_address_answered=False)
    change = decision.decide(late, lambda: True)
    assert change is not None
    assert change.reason == "the address of the gateways does not answer on one"


def test_a_drained_machine_that_is_alone_keeps_gateways() -> None:
    drained = sight(0, priorities(ACTIVE, AWAY), is_drained=True)
    assert first().decide(drained, lambda: True) is None
    change = first().decide(sight(0, priorities(ACTIVE, STANDBY), is_drained=True), lambda: True)
    assert change is not None
    assert change.roles == {"c1": AWAY, "c2": ACTIVE}


def test_one_of_two_active_machines_stands_by() -> None:
    roles = priorities(ACTIVE, ACTIVE)
    assert first().decide(sight(0, roles), lambda: True) is None
    change = second().decide(sight(0, roles), lambda: True)
    assert change is not None
    assert change.roles == {"c2": STANDBY}


def test_nothing_is_written_before_the_database_was_read() -> None:
    assert first().decide(sight(0, {}, uplink_fault="dead"), lambda: True) is None
    assert first().retire(sight(0, {})) is None
    assert not first().has_gateways(sight(0, {}))


def test_a_machine_that_leaves_gives_gateways_away() -> None:
    change = first().retire(sight(0, priorities(ACTIVE, STANDBY)))
    assert change is not None
    assert change.roles == {"c1": AWAY, "c2": ACTIVE}


@pytest.mark.parametrize(
    ("one", "two", "peer_up", "any_up", "has"),
    [
        (ACTIVE, STANDBY, True, True, True),
        (STANDBY, ACTIVE, True, True, False),
        # OVN takes the standby the moment that the active one is silent.
        (STANDBY, ACTIVE, False, True, True),
        (ACTIVE, STANDBY, False, False, False),
    ],
)
def test_the_address_is_where_ovn_sends_packets(
    one: GatewayRole, two: GatewayRole, peer_up: bool, any_up: bool, has: bool
) -> None:
    seen = sight(0, priorities(one, two), is_peer_up=peer_up, is_any_up=any_up)
    assert first().has_gateways(seen) is has


class Rig:
    """Two machines, one database, and faults that come and go."""

    def __init__(self) -> None:
        self.roles = priorities(ACTIVE, STANDBY)
        self.machines = {"c1": first(), "c2": second()}
        self.faults = dict[str, str]()
        self.dead = set[str]()
        self.now = 0.0

    def tick(self, order: list[str]) -> None:
        self.now += 0.05
        for chassis in order:
            if chassis in self.dead:
                continue
            (peer,) = self.machines.keys() - {chassis}
            seen = sight(
                self.now,
                dict(self.roles),
                uplink_fault=self.faults.get(chassis, ""),
                is_peer_up=peer not in self.dead,
                is_any_up=True,
            )
            change = self.machines[chassis].decide(seen, lambda: True)
            if change is not None:
                self.roles.update(self.machines[chassis].make_priorities(change.roles))

    def list_active(self) -> list[str]:
        return [name for name, value in self.roles.items() if read_role(value) is ACTIVE]

    def is_well(self, chassis: str) -> bool:
        return chassis not in self.dead and not self.faults.get(chassis)


@pytest.mark.parametrize("seed", range(30))
def test_two_machines_agree_after_any_faults(seed: int) -> None:
    chance = random.Random(seed)
    rig = Rig()
    quiet = 0.0
    for _ in range(1500):
        if chance.random() < 0.02:
            chassis = chance.choice(["c1", "c2"])
            if chance.random() < 0.5:
                rig.faults[chassis] = chance.choice(["", "dead"])
            elif chassis in rig.dead:
                # Its switch starts: the agent demotes it first.
                is_first = chassis == "c1"
                rig.roles[chassis] = make_priority(AWAY, is_first=is_first)
                rig.machines[chassis] = first() if is_first else second()
                rig.dead.remove(chassis)
            else:
                rig.dead.add(chassis)
            quiet = rig.now
        rig.tick(chance.sample(["c1", "c2"], 2))
        well = [name for name in ("c1", "c2") if rig.is_well(name)]
        if rig.now - quiet > UNKNOWN_SECONDS + SETTLE_SECONDS + 0.2 and well:
            # A single active machine, and one that works.
            assert len(rig.list_active()) == 1, (rig.roles, rig.faults, rig.dead)
            assert rig.list_active()[0] in well
