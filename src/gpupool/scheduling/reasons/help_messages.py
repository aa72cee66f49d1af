"""Messages about what would help a waiting claim, and about a claim that does not have to wait."""

from __future__ import annotations

from gpupool.base.units import format_chance, format_instant, format_span
from gpupool.model.claim import NETWORK_LABEL, NO_NETWORK_LABEL, Shape, is_planes_label
from gpupool.scheduling.reasons.phrases import format_count, format_labels, format_members


def suggest_shape(shape: Shape) -> str:
    """Suggest a smaller shape that fits now."""
    kind = f" on {shape.model}" if shape.model else ""
    labels = f" with {format_labels(shape)}" if shape.labels else ""
    return f"ask for {shape}{kind}{labels}: it fits now"


def describe_mps_card(card: str, owner: str) -> str:
    """Say of which owner a card serves MPS clients, and until when."""
    return f"{card} serves MPS clients of {owner} until the last of their jobs there ends"


def suggest_adopt(count: int) -> str:
    """Suggest to adopt observed cards."""
    cards = (
        "the matching card that is" if count == 1 else f"one of the {count} matching cards that are"
    )
    return f"adopt {cards} only observed: gpupool adopt"


def suggest_free_quota(tenant: str) -> str:
    """Suggest to stop jobs of the tenant or to raise its quota."""
    return f"stop jobs of tenant {tenant}, or have an admin raise its quota: gpupool quota set"


def suggest_raise_quota() -> str:
    """Suggest to raise a quota or to lower those of others."""
    return "an admin can raise the quota, or lower what others keep: gpupool quota"


def suggest_fewer_members(role: str, count: int) -> str:
    """Suggest a smaller minimum of a gang's role."""
    return f"let {format_members(count, role)} be enough: so it could start now"


def suggest_own_jobs(tenant: str, jobs: int, cards: int) -> str:
    """Suggest to stop jobs of the own tenant."""
    held = "the card" if cards == 1 else f"the {cards} cards"
    return f"stop {format_count(jobs, 'job')} of your own: it would start on {held} that tenant {tenant} holds"


def format_start(at_ns: int, *, promised: bool, chance_pct: int | None) -> str:
    """Return a start for a column or a sentence: `by` for a promise, `about` for an estimate."""
    if promised:
        return f"by {format_instant(at_ns)}"
    often = "" if chance_pct is None else f", {format_chance(chance_pct)} start by then"
    return f"about {format_instant(at_ns)}{often}"


def suggest_wait_until(at_ns: int, *, promised: bool, chance_pct: int | None = None) -> str:
    """Suggest to wait until a promised or estimated start."""
    if promised:
        return f"wait: it starts at {format_instant(at_ns)} at the latest"
    if chance_pct is not None:
        return f"wait: it starts {format_start(at_ns, promised=False, chance_pct=chance_pct)}"
    return f"wait until about {format_instant(at_ns)}: enough is given back then, if nothing else comes first"


def suggest_wait_for_first(at_ns: int, *, promised: bool, chance_pct: int | None) -> str:
    """Suggest to wait behind an equal claim, whose start is known."""
    return f"wait: the first claim like it starts {format_start(at_ns, promised=promised, chance_pct=chance_pct)}"


def suggest_wait_for_lower(at_ns: int, protected_s: int) -> str:
    """Suggest to wait until jobs of lower priority may be preempted.

    Such jobs are protected for their first `protected_s` seconds.
    """
    past = f"when it has run for {protected_s} s"
    return f"wait: work of lower priority may be told to leave for it from {format_instant(at_ns)} on, {past}"


def suggest_limit(seconds: int) -> str:
    """Suggest a time limit that ends before what is free is needed."""
    return f"with --max-time {format_span(seconds)} it starts now"


def describe_unlimited_jobs(count: int) -> str:
    """Say why the start of the claim that cards are kept for is not known."""
    have = "has" if count == 1 else "have"
    return f"{format_count(count, 'job')} on those cards {have} no --max-time, so that start is not known"


def suggest_stop_holder(name: str) -> str:
    """Suggest to stop a waiting claim of the same user, for which cards are kept."""
    return f"the cards are kept for {name}; without it this one starts now: gpupool stop {name}"


WAIT = "wait: it starts as soon as enough is given back"


def describe_placed_now(why: str) -> str:
    """Say that the claim fits now, and why there."""
    return f"it fits now: {why}"


def suggest_labelled_nodes(shape: Shape) -> str:
    """Return the command that shows which nodes have the labels of a claim."""
    if NO_NETWORK_LABEL in shape.labels:
        return "planes of its tenant need a network: submit it again with --network NAME"
    if any(is_planes_label(key) for key, _ in shape.labels):
        return "gpupool network plane-list shows which planes are in force"
    if NETWORK_LABEL in shape.labels:
        return "gpupool network status shows the engine of each node"
    return "gpupool gpus -o wide shows each node's labels"
