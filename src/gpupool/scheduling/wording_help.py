"""The sentences of what would help somebody who waits, and of a claim that does not have to."""

from __future__ import annotations

from gpupool.base.units import format_chance, format_instant
from gpupool.model.claim import Shape
from gpupool.scheduling.wording import labelled, of_role, plural


def fits_now(shape: Shape) -> str:
    kind = f" on {shape.model}" if shape.model else ""
    labels = f" with {labelled(shape)}" if shape.labels else ""
    return f"ask for {shape}{kind}{labels}: it fits now"


def adopt(count: int) -> str:
    cards = "the matching card that is" if count == 1 else f"one of the {count} matching cards that are"
    return f"adopt {cards} only observed: gpupool adopt"


def free_quota(tenant: str) -> str:
    return f"stop jobs of tenant {tenant}, or have an admin raise its quota: gpupool quota set"


def raise_quota() -> str:
    return "an admin can raise the quota, or lower what others keep: gpupool quota"


def fewer_members(role: str, count: int) -> str:
    return f"let {of_role(count, role)} be enough: so it could start now"


def own_jobs(tenant: str, jobs: int, cards: int) -> str:
    held = "the card" if cards == 1 else f"the {cards} cards"
    return f"stop {plural(jobs, 'job')} of your own: it would start on {held} that tenant {tenant} holds"


def start(at_ns: int, *, promised: bool, chance_pct: int | None) -> str:
    """When something starts, for a column or a part of a sentence: `by` is a promise, `about` an estimate."""
    if promised:
        return f"by {format_instant(at_ns)}"
    often = "" if chance_pct is None else f", {format_chance(chance_pct)} start by then"
    return f"about {format_instant(at_ns)}{often}"


def wait_until(at_ns: int, *, promised: bool, chance_pct: int | None = None) -> str:
    if promised:
        return f"wait: it starts at {format_instant(at_ns)} at the latest"
    if chance_pct is not None:
        return f"wait: it starts {start(at_ns, promised=False, chance_pct=chance_pct)}"
    return f"wait until about {format_instant(at_ns)}: enough is given back then, if nothing else comes first"


def wait_for_first(at_ns: int, *, promised: bool, chance_pct: int | None) -> str:
    """Of a claim behind others like it: their first one's start is none of its own."""
    return f"wait: the first claim like it starts {start(at_ns, promised=promised, chance_pct=chance_pct)}"


def wait_for_lower(at_ns: int, protected_s: int) -> str:
    """Work of lower priority is in the way that has just begun: it is left alone for so many seconds."""
    past = f"when it has run for {protected_s} s"
    return f"wait: work of lower priority may be told to leave for it from {format_instant(at_ns)} on, {past}"


WAIT = "wait: it starts as soon as enough is given back"


def placed_now(why: str) -> str:
    return f"it fits now: {why}"
