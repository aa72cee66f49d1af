"""Describes incidents for a caller. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpupool.allocations.faults.advice import FaultAdvice, RepairCard, advise
from gpupool.fleet.views import device_name
from gpupool.model.faults.actions import Containment, Repair
from gpupool.model.faults.catalogue import read_xids
from gpupool.model.faults.diagnosis import diagnose_xid
from gpupool.model.faults.incident import SILENCE_NS
from gpupool.model.tenant import Principal
from gpupool.wire.faults.incidents import FaultEvidenceOut, FaultJobOut, IncidentOut, IncidentRow


def describe_row(
    caller: Principal,
    row: Any,
    evidence: Sequence[Any],
    affected: Sequence[Any],
    now_ns: int,
) -> IncidentRow:
    """Describe an incident in a line; evidence and jobs of other ones are left out."""
    own = [one for one in affected if one.incident_id == row.id]
    seen = _select_visible(caller, row, evidence, own)
    return IncidentRow(
        id=row.public_id,
        node=row.node_name,
        card=device_name(row.node_name, row.idx),
        xid=row.xid,
        meaning=diagnose_xid(row.xid).meaning,
        state=row.state,
        containment=row.containment,
        repair=row.repair,
        first_ns=row.first_ns,
        last_ns=row.last_ns,
        going_on=row.state != "closed" and now_ns <= row.last_ns + SILENCE_NS,
        xids=len(seen),
        jobs=len({one.public_id for one in own}),
    )


def describe_incident(
    caller: Principal,
    row: Any,
    evidence: Sequence[Any],
    affected: Sequence[Any],
    cards: Sequence[RepairCard],
    now_ns: int,
) -> IncidentOut:
    """Describe an incident with its evidence and the next step."""
    line = describe_row(caller, row, evidence, affected, now_ns)
    advice = _advise_tenant(affected)
    if caller.sees_all:
        containment = Containment(row.containment)
        repair = Repair(row.repair)
        advice = advise(row.public_id, row.node_name, row.state, containment, repair, cards)
    return IncidentOut(
        **line.model_dump(),
        evidence=[
            _describe_evidence(one) for one in _select_visible(caller, row, evidence, affected)
        ],
        affected=[
            FaultJobOut(
                job=one.public_id,
                name=one.name,
                tenant=one.tenant,
                user=one.user,
                card=device_name(one.node_name, one.idx),
                state=one.state,
                ended_by_fault=bool(one.is_ended),
            )
            for one in affected
        ],
        advice=advice.sentence,
        next=advice.command,
        # Who repairs what, and what an operator notes of it, may name other tenants.
        note=row.note if caller.sees_all else "",
        accepted_by=row.accepted_by if caller.sees_all else None,
        accepted_ns=row.accepted_ns,
        closed_by=row.closed_by if caller.sees_all else None,
        closed_ns=row.closed_ns,
    )


def _select_visible(
    caller: Principal, row: Any, evidence: Sequence[Any], own: Sequence[Any]
) -> list[Any]:
    """Return the XIDs of an incident that a caller may see: a tenant's, those of its jobs' cards."""
    cards = {one.device_id for one in own}
    found = []
    for one in evidence:
        if one.incident_id == row.id and (caller.sees_all or one.device_id in cards):
            found.append(one)
    return found


def _describe_evidence(row: Any) -> FaultEvidenceOut:
    entry = read_xids().get(row.xid)
    return FaultEvidenceOut(
        card=device_name(row.node_name, row.idx),
        uuid=row.uuid,
        xid=row.xid,
        mnemonic=entry.mnemonic if entry else "",
        meaning=diagnose_xid(row.xid).meaning,
        at_ns=row.at_ns,
        recovery=row.recovery,
    )


def _advise_tenant(affected: Sequence[Any]) -> FaultAdvice:
    ended = [one for one in affected if one.is_ended]
    if not ended:
        return FaultAdvice("The operators of the pool look after the card.")
    return FaultAdvice(
        "The card failed under the job. Submit the job again; the pool uses another card. With "
        "--requeue it would have started again by itself.",
        f"gpupool show {ended[0].public_id}",
    )
