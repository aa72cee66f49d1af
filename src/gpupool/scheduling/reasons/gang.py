"""Rejections of gangs: which role finds too few seats, how many it finds, and what is missing."""

from __future__ import annotations

import numpy as np

from gpupool.base.units import WHOLE, format_gpu
from gpupool.model.claim import Rejection, RejectionReason, TopologyConstraint
from gpupool.model.gang import Gang, GangRole
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.reasons import messages, phrases, rejection
from gpupool.scheduling.reasons.phrases import format_count, quote_name


def reject_too_few(
    within: TopologyConstraint,
    role: GangRole,
    room: int,
    least: int,
    fit: ClaimFit,
    free: FreeCapacity,
) -> Rejection:
    """Return the rejection of a role that finds seats for too few members.

    Args:
        within: The topology condition of the gang.
        role: The role.
        room: How many members find seats.
        least: How many must start together.
        fit: The filter's result for one member.
        free: What is free.
    """
    sentence = messages.describe_too_few_together(role.name, least, room, _describe_place(within))
    if role.shape.is_whole and role.shape.count > 1:
        sentence = f"{_describe_whole_cards(role.shape.count * least, fit, free)}; {sentence}"
    if not rejection.count_cards(fit) and role.shape.count == 1:
        return Rejection(sentence, RejectionReason.GANG)
    one = rejection.explain_not_now(fit, free)
    dominant = RejectionReason.GANG if room else one.dominant
    return Rejection(f"{sentence}; each {one.sentence}", dominant, one.cards, one.nodes)


def reject_apart(gang: Gang, members: int) -> Rejection:
    """Return the rejection of a gang whose roles fit alone but not together."""
    where = _describe_place(gang.root.within)
    sentence = (
        f"{format_count(members, 'member')} must start together{where};"
        " each role has room by itself, all have not"
    )
    return Rejection(
        sentence,
        RejectionReason.GANG if gang.root.within.required is None else RejectionReason.TOPOLOGY,
    )


def reject_no_room_beside(within: TopologyConstraint) -> Rejection:
    """Return the rejection of a member that must be near a running gang and does not fit there."""
    return Rejection(
        f"its gang runs; there is room for one more, but not{_describe_place(within)} with it",
        RejectionReason.TOPOLOGY,
    )


def reject_unknown_level(level: str, levels: list[str]) -> Rejection:
    """Return the rejection of a gang that names a level which no node has."""
    sentence = f"no node of this pool says which {quote_name(level)} it is in; a gang may ask for {', '.join(levels)}"
    hint = f"label the nodes, or ask for {levels[-1]}"
    return Rejection(sentence, RejectionReason.TOPOLOGY, fits_ever=False, hint=hint)


def reject_larger_than_pool(
    within: TopologyConstraint, role: GangRole, room: int, least: int
) -> Rejection:
    """Return the rejection of a role that does not fit in the empty pool with all cards open."""
    sentence = (
        f"{phrases.format_members(least, role.name)} must start together{_describe_place(within)};"
        f" with every card of this pool free {room} would find room"
    )
    hint = f"ask for at most {phrases.format_members(room, role.name)}" if room else ""
    return Rejection(sentence, RejectionReason.GANG, fits_ever=False, hint=hint)


def reject_never_together(gang: Gang) -> Rejection:
    """Return the rejection of a gang whose roles do not fit together in the empty pool."""
    sentence = (
        f"{format_count(gang.minimum, 'member')} must start together{_describe_place(gang.root.within)};"
        " with every card of this pool free each role has room by itself, all have not"
    )
    return Rejection(sentence, RejectionReason.GANG, fits_ever=False, hint="ask for fewer members")


def _describe_whole_cards(needed: int, fit: ClaimFit, free: FreeCapacity) -> str:
    """Count the cards that the members could have: free, shared with how much is left, and in use."""
    fits = fit.why == FITS
    left = np.clip(free.milli, 0, WHOLE)
    shared = (fit.fixed == FITS) & ~fits & (left > 0) & (left < WHOLE)
    other = int(np.count_nonzero(fit.possible & ~fits & ~shared))
    whole = int(np.count_nonzero(fits))
    parted = int(np.count_nonzero(shared))
    rest = format_gpu(int(left[shared].sum()))
    if parted and other:
        return (
            f"needs {needed} whole cards, {whole} free, {parted} shared ({rest} left) "
            f"and {other} not available"
        )
    if parted:
        return f"needs {needed} whole cards, {whole} free and {parted} shared ({rest} left)"
    if other:
        return f"needs {needed} whole cards, {whole} free and {other} not available"
    return f"needs {needed} whole cards, {whole} free"


def _describe_place(within: TopologyConstraint) -> str:
    return f" in one {within.required}" if within.required else ""
