"""Admission of a reservation: whether its calendar makes sense and it fits beside the others.

Nothing here raises: the caller maps answers to its error classes. Reservations of other tenants are
counted and not named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpupool.base.units import NANOS_PER_SECOND, format_duration, format_instant
from gpupool.model.claim import Rejection, RejectionReason
from gpupool.model.quota import ResourceAmount
from gpupool.model.reservation import Reservation
from gpupool.scheduling.filtering.capacity_columns import (
    CapacityColumns,
    build_empty_columns,
    get_free_columns,
)
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.seat_count import count_claims, count_claims_by_node, pick_cards
from gpupool.scheduling.quota.pool_size import measure_pool
from gpupool.scheduling.quota.quota_rejections import (
    find_rejection_for_ever,
)
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.reasons.phrases import format_count, format_list
from gpupool.scheduling.reasons.rejection import explain_never
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.snapshot import TenantView
from gpupool.scheduling.timeline.job_end_times import name_owner
from gpupool.scheduling.timeline.reservations import (
    ReservationOccurrence,
    compute_horizon,
    hold_all,
    is_complete,
    list_upcoming,
)
from gpupool.scheduling.timeline.timeline import NEVER, JobFilter, Timeline

_TIME_HINT = "gpupool reservation list shows what is held; choose another time, or less"


def describe_calendar_error(asked: Reservation, now_ns: int) -> str | None:
    """Describe what is wrong with the calendar, in one sentence; None where nothing is."""
    start = asked.start_ns
    end = asked.end_ns
    every = asked.every_ns
    if start < now_ns:
        return f"the start {format_instant(start)} is in the past: it is {format_instant(now_ns)}"
    if end is not None and end <= start:
        return f"the end {format_instant(end)} is not after the start {format_instant(start)}"
    if every is None:
        return "what does not come again needs no last time" if asked.until_ns is not None else None
    if end is None:
        return "what comes again needs an end"
    if every < end - start:
        period = format_duration(every // NANOS_PER_SECOND)
        length = format_duration((end - start) // NANOS_PER_SECOND)
        return f"it would come again every {period} and lasts {length}: it would meet itself"
    if asked.until_ns is not None and asked.until_ns <= start:
        return f"the last time {format_instant(asked.until_ns)} is not after the start {format_instant(start)}"
    return None


def judge_reservation(
    asked: Reservation,
    others: Sequence[Reservation],
    cards: CardTable,
    running: Sequence[RunningJob],
    view: TenantView,
    now_ns: int,
) -> Rejection | None:
    """Return why the reservation cannot be had, or None.

    Occurrences up to `compute_horizon` are looked at: the next of each reservation and one more of
    the longest period.

    Args:
        asked: the reservation; its times make sense (`describe_calendar_error`).
        others: all reservations that are kept.
        cards: the cards of the pool.
        running: the running jobs.
        view: its tenant's quota.
        now_ns: the present instant.
    """
    free = FreeCapacity(cards)
    fit = ClaimFit(asked.shape, free)
    return _reject_too_large(fit, free, asked, view) or _find_collision(
        fit, free, asked, others, running, now_ns
    )


def _reject_too_large(
    fit: ClaimFit, free: FreeCapacity, asked: Reservation, view: TenantView
) -> Rejection | None:
    amount = ResourceAmount(
        fit.shape.held_milli * fit.shape.count * asked.replicas, fit.least_bytes * asked.replicas
    )
    tree = QuotaTree({asked.tenant: view}, {}, measure_pool(free.cards))
    said = explain_never(fit, free) or find_rejection_for_ever(
        tree, asked.tenant, tree.compute_claim_use(asked.shape, amount)
    )
    if said is not None:
        return said
    room = int(count_claims_by_node(fit, free, build_empty_columns(free)).sum())
    if room >= asked.replicas:
        return None
    sentence = f"needs room for {_describe_needs(asked)}; the whole pool, with nothing running, has room for {room}"
    return Rejection(
        sentence, RejectionReason.TOO_FEW_CARDS, fits_ever=False, hint=f"ask for at most {room}"
    )


def _find_collision(
    fit: ClaimFit,
    free: FreeCapacity,
    asked: Reservation,
    others: Sequence[Reservation],
    running: Sequence[RunningJob],
    now_ns: int,
) -> Rejection | None:
    timeline = Timeline(free.cards, running, now_ns)
    until = compute_horizon((*others, asked), now_ns)
    # The same holds as in a cycle, so that what is granted here finds its cards there.
    hold_all(timeline, free, others, running, until)
    now = get_free_columns(free)
    for occurrence in list_upcoming(asked, now_ns, until):
        window = now.add_columns(timeline.get_low(occurrence.start_ns, occurrence.end_ns))
        found = pick_cards(fit, free, window, asked.replicas)
        if not is_complete(found, asked):
            room = count_claims(found, asked.shape.count)
            return _reject_collision(fit, free, asked, occurrence, room, others, timeline)
    return None


def _reject_collision(
    fit: ClaimFit,
    free: FreeCapacity,
    asked: Reservation,
    at: ReservationOccurrence,
    room: int,
    others: Sequence[Reservation],
    timeline: Timeline,
) -> Rejection:
    emptied: CapacityColumns = build_empty_columns(free).add_columns(
        timeline.get_low(at.start_ns, at.end_ns, jobs=JobFilter.NONE)
    )
    end = "on" if at.end_ns == NEVER else f"to {format_instant(at.end_ns)}"
    numbers = f"needs {_describe_needs(asked)}, there is room for {room} from {format_instant(at.start_ns)} {end}"
    if is_complete(pick_cards(fit, free, emptied, asked.replicas), asked):
        sentence = f"jobs that run now may not have ended by then: {numbers}"
        return Rejection(
            sentence, RejectionReason.TOO_FEW_CARDS, hint="start later, or stop jobs: gpupool ps"
        )
    sentence = f"collides with {_describe_holders(asked, at, others, timeline)}: {numbers}"
    return Rejection(sentence, RejectionReason.RESERVED, fits_ever=False, hint=_TIME_HINT)


def _describe_holders(
    asked: Reservation, at: ReservationOccurrence, others: Sequence[Reservation], timeline: Timeline
) -> str:
    met = set[str]()
    for hold in timeline.holds:
        if hold.start_ns < at.end_ns and at.start_ns < hold.end_ns:
            met.add(hold.owner)
    mine = list[str]()
    foreign = 0
    for one in others:
        name = one.name or one.id
        if name_owner(one.tenant, name) in met:
            # Names of other tenants' reservations are theirs alone: they are only counted.
            if one.tenant == asked.tenant:
                mine.append(name)
            else:
                foreign += 1
    words = [f"reservation {name}" for name in sorted(mine)]
    return format_list(
        [*words, format_count(foreign, "reservation") + " of other tenants"] if foreign else words
    )


def _describe_needs(asked: Reservation) -> str:
    one = replace(asked.shape, count=1)
    each = str(one) if asked.shape.count == 1 else f"{asked.shape.count} × [{one}]"
    return each if asked.replicas == 1 else f"{asked.replicas} × {each}"
