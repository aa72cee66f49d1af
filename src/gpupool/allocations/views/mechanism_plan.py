"""Which mechanism a claim would get, as answers show it."""

from __future__ import annotations

from collections.abc import Collection

from gpupool.model.claim import Shape
from gpupool.scheduling import CardGroup, Snapshot, find_best_group, survey_mechanisms
from gpupool.wire.jobs import MechanismPlanOut, RejectedMechanismOut


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
