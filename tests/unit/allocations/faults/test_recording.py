"""What an agent's XIDs become: incidents, written once however often they are reported."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.faults.recording import MOST_EVIDENCE
from gpupool.allocations.faults.tables import fault_evidence, fault_incidents
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.faults.incident import SILENCE_NS
from gpupool.store.tables import events
from gpupool.wire.faults.incidents import CardFaultIn, IncidentCloseIn, IncidentOut
from gpupool.wire.fleet import ReportsIn
from tests.support.house import House

S = NANOS_PER_SECOND


def fault(card: int, xid: int, at_ns: int, node: str = "node-1", **more: Any) -> CardFaultIn:
    return CardFaultIn(uuid=f"GPU-{node}-{card}", xid=xid, at_ns=at_ns, **more)


def tell(house: House, *faults: CardFaultIn, agent: str = "node-1") -> None:
    house.allocations.agents.apply_reports(agent, ReportsIn(faults=list(faults)))


def incidents(house: House) -> list[IncidentOut]:
    service = house.allocations.faults
    rows = service.list_incidents(house.admin, node=None, every=True, limit=1000)
    return [service.find(house.admin, row.id) for row in reversed(rows)]


def kinds(house: House) -> list[str]:
    with house.store.read() as connection:
        query = sa.select(events.c.kind).where(events.c.kind.like("fault.%")).order_by("seq")
        return list(connection.execute(query).scalars())


def test_xids_of_one_node_are_one_incident_until_it_is_silent(house: House) -> None:
    now = house.store.clock.now_ns()
    tell(house, fault(0, 94, now), fault(1, 95, now + 100 * S))
    tell(house, fault(0, 45, now + 100 * S + SILENCE_NS))
    tell(house, fault(0, 13, now + 101 * S + 2 * SILENCE_NS))
    first, second = incidents(house)
    assert [one.xid for one in first.evidence] == [94, 95, 45]
    assert (first.xid, first.card) == (94, "node-1:0"), "the first one is blamed"
    assert (first.containment, first.repair) == ("drain-card", "reset"), "the gravest decides"
    assert (second.xid, second.repair) == (13, "none")
    assert kinds(house) == ["fault.opened", "fault.opened"]
    tell(house, fault(1, 48, now - 10 * S))
    earlier = incidents(house)[0]
    assert (earlier.xid, earlier.card) == (48, "node-1:1"), "a report may come late"
    assert earlier.first_ns == now - 10 * S


def test_the_nodes_have_incidents_of_their_own_and_other_agents_cards_are_ignored(
    house: House,
) -> None:
    house.register(1, "node-2")
    now = house.store.clock.now_ns()
    tell(house, fault(0, 79, now), fault(0, 79, now, "node-2"), fault(7, 79, now))
    tell(house, fault(0, 79, now, "node-2"), agent="node-2")
    assert [one.node for one in incidents(house)] == ["node-1", "node-2"]


def test_the_same_report_again_changes_nothing(house: House) -> None:
    now = house.store.clock.now_ns()
    report = (fault(0, 48, now, recovery="gpu-reset"), fault(0, 154, now + S, recovery="gpu-reset"))
    tell(house, *report)
    before = (incidents(house), kinds(house))
    tell(house, *report)
    house.restart()
    tell(house, *report)
    assert (incidents(house), kinds(house)) == before
    assert [one.recovery for one in before[0][0].evidence] == ["gpu-reset", "gpu-reset"]
    house.allocations.faults.close(house.admin, before[0][0].id, IncidentCloseIn())
    tell(house, *report)
    assert len(incidents(house)) == 1, "a report that comes late opens no closed incident again"


@pytest.mark.parametrize("step", ["before-commit", "after-commit"])
def test_a_server_that_dies_at_the_commit_has_all_of_a_report_or_nothing(
    house: House, step: str
) -> None:
    now = house.store.clock.now_ns()
    report = (fault(0, 94, now), fault(1, 95, now + S))

    def die(at: str, subjects: Any) -> None:
        if at == step and "fault.opened" in subjects():
            raise KeyboardInterrupt

    house.store._fault = die
    with pytest.raises(KeyboardInterrupt):
        tell(house, *report)
    house.store._fault = lambda _at, _subjects: None
    assert len(incidents(house)) == (step == "after-commit")
    house.restart()
    tell(house, *report)
    (only,) = incidents(house)
    assert [one.xid for one in only.evidence] == [94, 95]


@pytest.mark.nightly
def test_a_card_that_floods_is_one_incident_with_bounded_evidence(house: House) -> None:
    now = house.store.clock.now_ns()
    flood = [fault(0, 13, now + n) for n in range(MOST_EVIDENCE + 50)]
    tell(house, *flood)
    tell(house, *flood)
    with house.store.read() as connection:
        counts = [
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in (fault_incidents, fault_evidence)
        ]
    assert counts == [1, MOST_EVIDENCE]
    assert incidents(house)[0].last_ns == now + MOST_EVIDENCE + 49


def test_a_graver_fault_takes_the_acceptance_back(house: House) -> None:
    now = house.store.clock.now_ns()
    tell(house, fault(0, 48, now))
    (only,) = incidents(house)
    house.allocations.faults.accept(house.admin, only.id)
    tell(house, fault(0, 95, now + S))
    assert incidents(house)[0].state == "accepted", "the repair is still a reset"
    tell(house, fault(0, 79, now + 2 * S))
    changed = incidents(house)[0]
    assert (changed.state, changed.repair, changed.accepted_by) == ("open", "reboot", None)
    assert kinds(house) == ["fault.opened", "fault.accepted", "fault.changed"]


def test_a_third_time_after_two_resets_asks_for_an_inspection(house: House) -> None:
    begin = house.store.clock.now_ns()
    faults = house.allocations.faults
    for n in range(3):
        tell(house, fault(0, 48, begin + n * 2 * SILENCE_NS))
        latest = incidents(house)[-1]
        assert latest.repair == ("reset" if n < 2 else "inspect")
        faults.accept(house.admin, latest.id)
        faults.close(house.admin, latest.id, IncidentCloseIn(note="reset"))
