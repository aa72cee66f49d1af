"""Judged once, when a reservation is asked for: does its calendar make sense, and is there room beside the others?

Nothing here raises: the caller turns the answers into its error classes. Reservations of other tenants are counted and
not named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpupool.base.units import format_duration, format_instant
from gpupool.model.claim import Reason, Rejection
from gpupool.model.quota import Amount
from gpupool.model.reservation import Reservation
from gpupool.scheduling.columns import Columns, empty_columns, free_columns
from gpupool.scheduling.ends import SECOND, owner_of
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.pool_size import pool_size
from gpupool.scheduling.quota_tree import Tree
from gpupool.scheduling.quotas import beyond
from gpupool.scheduling.refusal import never
from gpupool.scheduling.reservation import Occurrence, enough, hold_all, horizon, upcoming
from gpupool.scheduling.seating import claims_in, most, pick
from gpupool.scheduling.snapshot import Cards, Running, TenantView
from gpupool.scheduling.timeline import NEVER, Jobs, Timeline
from gpupool.scheduling.wording import listed, plural

_ELSEWHEN = "gpupool reservation list shows what is held; choose another time, or less"


def bad_times(asked: Reservation, now_ns: int) -> str | None:
    """What does not make sense about its calendar, in one sentence; None where all of it does."""
    start, end, every = asked.start_ns, asked.end_ns, asked.every_ns
    if start < now_ns:
        return f"the start {format_instant(start)} is in the past: it is {format_instant(now_ns)}"
    if end is not None and end <= start:
        return f"the end {format_instant(end)} is not after the start {format_instant(start)}"
    if every is None:
        return "what does not come again needs no last time" if asked.until_ns is not None else None
    if end is None:
        return "what comes again needs an end"
    if every < end - start:
        period, length = (format_duration(span // SECOND) for span in (every, end - start))
        return f"it would come again every {period} and lasts {length}: it would meet itself"
    if asked.until_ns is not None and asked.until_ns <= start:
        return f"the last time {format_instant(asked.until_ns)} is not after the start {format_instant(start)}"
    return None


def judge(
    asked: Reservation,
    others: Sequence[Reservation],
    cards: Cards,
    running: Sequence[Running],
    view: TenantView,
    now_ns: int,
) -> Rejection | None:
    """Why the reservation cannot be had, or None. Its times make sense (`bad_times`); `others` are all that are kept.

    Looked at are its occurrences up to `horizon`: the next of each reservation and one more of the longest period.
    """
    free = Free(cards)
    fit = Fit(asked.shape, free)
    return _too_large(fit, free, asked, view) or _collides(fit, free, asked, others, running, now_ns)


def _too_large(fit: Fit, free: Free, asked: Reservation, view: TenantView) -> Rejection | None:
    amount = Amount(fit.shape.held_milli * fit.shape.count * asked.replicas, fit.least_bytes * asked.replicas)
    tree = Tree({asked.tenant: view}, {}, pool_size(free.cards))
    said = never(fit, free) or beyond(tree, asked.tenant, tree.ask(asked.shape, amount))
    if said is not None:
        return said
    room = int(most(fit, free, empty_columns(free)).sum())
    if room >= asked.replicas:
        return None
    sentence = f"needs room for {_needs(asked)}; the whole pool, with nothing running, has room for {room}"
    return Rejection(sentence, Reason.TOO_FEW_CARDS, fits_ever=False, hint=f"ask for at most {room}")


def _collides(
    fit: Fit, free: Free, asked: Reservation, others: Sequence[Reservation], running: Sequence[Running], now_ns: int
) -> Rejection | None:
    timeline = Timeline(free.cards, running, now_ns)
    until = horizon((*others, asked), now_ns)
    hold_all(timeline, free, others, running, until)
    now = free_columns(free)
    for occurrence in upcoming(asked, now_ns, until):
        window = now.plus(timeline.low(occurrence.start_ns, occurrence.end_ns))
        found = pick(fit, free, window, asked.replicas)
        if not enough(found, asked):
            room = claims_in(found, asked.shape.count)
            return _collision(fit, free, asked, occurrence, room, others, timeline)
    return None


def _collision(
    fit: Fit,
    free: Free,
    asked: Reservation,
    at: Occurrence,
    room: int,
    others: Sequence[Reservation],
    timeline: Timeline,
) -> Rejection:
    emptied: Columns = empty_columns(free).plus(timeline.low(at.start_ns, at.end_ns, jobs=Jobs.NONE))
    end = "on" if at.end_ns == NEVER else f"to {format_instant(at.end_ns)}"
    numbers = f"needs {_needs(asked)}, there is room for {room} from {format_instant(at.start_ns)} {end}"
    if enough(pick(fit, free, emptied, asked.replicas), asked):
        sentence = f"jobs that run now may not have ended by then: {numbers}"
        return Rejection(sentence, Reason.TOO_FEW_CARDS, hint="start later, or stop jobs: gpupool ps")
    sentence = f"collides with {_named(asked, at, others, timeline)}: {numbers}"
    return Rejection(sentence, Reason.RESERVED, fits_ever=False, hint=_ELSEWHEN)


def _named(asked: Reservation, at: Occurrence, others: Sequence[Reservation], timeline: Timeline) -> str:
    met = {hold.owner for hold in timeline.holds if hold.start_ns < at.end_ns and at.start_ns < hold.end_ns}
    held = [one for one in others if owner_of(one.tenant, one.name or one.id) in met]
    mine = sorted(one.name or one.id for one in held if one.tenant == asked.tenant)
    foreign = len(held) - len(mine)
    words = [f"reservation {name}" for name in mine]
    return listed([*words, plural(foreign, "reservation") + " of other tenants"] if foreign else words)


def _needs(asked: Reservation) -> str:
    one = replace(asked.shape, count=1)
    each = str(one) if asked.shape.count == 1 else f"{asked.shape.count} × [{one}]"
    return each if asked.replicas == 1 else f"{asked.replicas} × {each}"
