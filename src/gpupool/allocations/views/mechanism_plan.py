"""Which mechanism a claim would get, or which one serves its job, as answers show it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from gpupool.allocations.store.tables import allocations, jobs
from gpupool.model.claim import Shape
from gpupool.model.enforcement import read_levels
from gpupool.model.isolation.mechanism_offer import SizeClass, strengthen_levels
from gpupool.scheduling import CardGroup, Snapshot, find_best_group, survey_mechanisms
from gpupool.wire.jobs import MechanismPlanOut, RejectedMechanismOut

_PREPARED = (
    sa.select(
        allocations.c.mechanism, allocations.c.layers, allocations.c.holds, allocations.c.refused
    )
    .join(jobs, jobs.c.id == allocations.c.job_id)
    .where(
        jobs.c.public_id == sa.bindparam("job"),
        allocations.c.state != sa.literal_column("'released'"),
    )
    .order_by(allocations.c.id.desc())
    .limit(1)
)


@dataclass(frozen=True)
class PreparedMechanism:
    """What serves a job, as its node reported it.

    Attributes:
        refused: why the node refused mechanisms that the plan had before it, by name.
    """

    mechanism: str
    layers: tuple[str, ...] = ()
    holds: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def read_prepared(connection: sa.Connection, job: str) -> PreparedMechanism | None:
    """Return what serves a job, by its public id; None before its node has said so."""
    row = connection.execute(_PREPARED, {"job": job}).first()
    if row is None or row.mechanism is None or row.holds is None:
        return None
    return PreparedMechanism(row.mechanism, tuple(row.layers or ()), row.holds, row.refused or {})


def plan_mechanism(
    snapshot: Snapshot, shape: Shape, tenant: str, only: Collection[str] = ()
) -> MechanismPlanOut:
    """Return the mechanism that a claim would get, and the rejected ones with their reasons.

    Args:
        snapshot: The pool.
        shape: What the claim asks for.
        tenant: Its tenant.
        only: Uuids of the cards that count; empty for all that it may use.
    """
    groups = survey_mechanisms(snapshot, shape, tenant, only)
    best = find_best_group(groups)
    rejected = list[RejectedMechanismOut]()
    for group in groups if best is None else (best, *(one for one in groups if one is not best)):
        rejected += _list_rejected(group)
    plan = MechanismPlanOut(needs=shape.needs.write(), rejected=rejected)
    option = None if best is None else best.choice.now
    if option is None:
        return plan
    return plan.model_copy(
        update={
            "mechanism": "+".join((option.mechanism, *option.layers)),
            "holds": option.levels.write(),
            "mechanism_why": option.why,
        }
    )


def describe_prepared(
    prepared: PreparedMechanism,
    snapshot: Snapshot,
    shape: Shape,
    tenant: str,
    cards: Collection[str],
) -> MechanismPlanOut:
    """Return the mechanism that serves a job, and why it has no other one.

    Args:
        prepared: What its node reported.
        snapshot: The pool.
        shape: What the claim asks for.
        tenant: Its tenant.
        cards: Uuids of its cards.
    """
    why = ""
    holds = read_levels(prepared.holds)
    rejected = list[RejectedMechanismOut]()
    for group in survey_mechanisms(snapshot, shape, tenant, cards):
        for name, reason in prepared.refused.items():
            row = RejectedMechanismOut(
                mechanism=name,
                reason=f"its node refused it: {reason}",
                model=group.model,
                cards=len(group.cards),
            )
            rejected.append(row)
        settled = {prepared.mechanism, *prepared.refused}
        rejected += [one for one in _list_rejected(group) if one.mechanism not in settled]
        for option in group.choice.options:
            if option.mechanism == prepared.mechanism and option.switch is None:
                why = why or option.why
                if option.sizes is SizeClass.WHOLE:
                    # Its node reports that a whole card has no limits; what holds between tenants
                    # is what the node offers.
                    holds = strengthen_levels(holds, option.levels)
    return MechanismPlanOut(
        needs=shape.needs.write(),
        mechanism="+".join((prepared.mechanism, *prepared.layers)),
        holds=holds.write(),
        mechanism_why=why,
        rejected=rejected,
    )


def _list_rejected(group: CardGroup) -> list[RejectedMechanismOut]:
    """List what a card of the group does not do for the claim, with what only a switch would do."""
    cards = len(group.cards)
    found = list[RejectedMechanismOut]()
    for row in group.choice.rejected:
        found.append(
            RejectedMechanismOut(
                mechanism=row.mechanism,
                reason=row.reason,
                model=group.model,
                cards=cards,
                advice=row.advice,
            )
        )
    for option in group.choice.options:
        if option.switch is not None:
            found.append(
                RejectedMechanismOut(
                    mechanism=option.mechanism, reason=option.why, model=group.model, cards=cards
                )
            )
    return found
