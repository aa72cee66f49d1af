"""Messages of rejections: words and plurals, no decisions.

Every text that the scheduler shows to people is built in this package, from counts that other
modules found.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.base.units import format_mib, format_share
from gpupool.model.claim import RejectionReason, Shape
from gpupool.model.quota import MEMORY, Resource
from gpupool.scheduling.reasons.phrases import (
    format_amount,
    format_cores,
    format_count,
    format_gib,
    format_kind,
    format_labels,
    format_list,
    format_members,
    format_models,
    format_number,
    format_two_sizes,
    quote_name,
)

#: So many nodes are named in a sentence; the rest is summed up.
LISTED_NODES = 3


# Never: what no emptying of the pool would change.


def describe_no_cards() -> str:
    return "this pool has no cards"


def describe_no_model(model: str, nearest: str | None, models: Sequence[str]) -> str:
    known = f"nearest: {nearest}" if nearest else f"it has {format_list(models)}"
    return f"no card of model {quote_name(model)} in this pool; {known}"


def describe_no_labels(shape: Shape) -> str:
    model = f"{format_models(shape)} " if shape.model else ""
    return f"no {model}card of this pool is on a node with {format_labels(shape)}"


def describe_no_vendor(shape: Shape, vendors: Sequence[str]) -> tuple[str, str]:
    """Return what is missing and a hint."""
    sentence = f"no card of vendor {shape.selector.vendor} in this pool; it has cards of {format_list(vendors)}"
    return (
        sentence,
        "ask for a card of a vendor that the pool has, or leave the pod to its own device plugin",
    )


def describe_no_named_card(shape: Shape) -> tuple[str, str]:
    """Return message and hint for cards that are chosen or excluded by UUID."""
    wanted = (
        f"none of the cards {format_list(shape.selector.uuids)} is"
        if shape.selector.uuids
        else "no other card is"
    )
    return (
        f"{wanted} in this pool, of the kind that was asked for",
        "gpupool gpus -o wide shows each card's UUID",
    )


def describe_only_excluded(shape: Shape, models: Sequence[str]) -> tuple[str, str]:
    """Return message and hint for a pool of which every model is excluded."""
    excluded = format_list(shape.selector.not_models)
    return (
        f"this pool has only cards of {format_list(models)}, and {excluded} are excluded",
        "exclude fewer models",
    )


def describe_too_large(
    shape: Shape, largest_model: str, largest_bytes: int, asked: str | None = None
) -> str:
    wanted, has = format_two_sizes(shape.memory_bytes or 0, largest_bytes)
    labels = f" on a node with {format_labels(shape)}" if shape.labels else ""
    model = f"{format_models(shape)} " if shape.model else ""
    return f"no {model}card{labels} has {asked or wanted} (largest: {largest_model} with {has})"


def describe_too_many(shape: Shape, most: int, *, all_alike: bool) -> str:
    if all_alike:
        return f"needs {shape.count} cards on one node; the largest node has {most}"
    size = f" of at least {format_gib(shape.memory_bytes)}" if shape.memory_bytes else ""
    cards = f"{format_kind(shape, 'cards')}{size}"
    return f"needs {shape.count} {cards} on one node; no node has more than {most} of them"


def describe_no_profile(shape: Shape, published: Sequence[str]) -> tuple[str, str]:
    """Return what is missing and a hint."""
    if not published:
        hint = "ask for a share:  --gpu 0.5; what a card can be cut into:  gpupool gpus -o wide"
        return f"no {format_kind(shape)} of this pool can be cut into partitions", hint
    sentence = f"no {format_kind(shape)} of this pool can be cut into {shape.profile}"
    return sentence, f"this pool's cards can be cut into {format_list(published)}"


def describe_large_profile(shape: Shape, least_bytes: int) -> tuple[str, str]:
    """Return what a partition has and the claim does not count, and a hint."""
    sentence = (
        f"a partition {shape.profile} has at least {format_mib(least_bytes)}; this claim counts"
        f" {format_mib(shape.partition_bytes or 0)}"
    )
    return sentence, "create the pod again: admission writes the size of its partition"


def describe_all_partitioned(shape: Shape, cards: int) -> tuple[str, str]:
    """Return what prevents a share or a whole card, and a hint."""
    are = (
        "the only " + format_kind(shape)
        if cards == 1
        else f"all {cards} {format_kind(shape, 'cards')}"
    )
    verb = "is" if cards == 1 else "are"
    return (
        f"{are} of this pool {verb} in partition mode (MIG) and {'takes' if cards == 1 else 'take'} partitions alone",
        "ask for a partition:  --profile NAME; gpupool gpus -o wide  shows what each card can be cut into",
    )


def describe_small_hosts(shape: Shape, most_cpu: int, most_bytes: int) -> str:
    """Say what the largest hosts lack.

    `needs 64 processors beside its card; the largest node that could take it has 32`
    """
    beside = "its card" if shape.count == 1 else f"its {shape.count} cards"
    wants = _list_host_amounts(shape)
    has = [format_cores(most_cpu)] if shape.cpu_milli else []
    has += [format_mib(most_bytes)] if shape.host_bytes else []
    nodes = f"nodes with such cards have at most {' and '.join(has)}"
    if shape.count == 0:
        return f"{describe_host_need(shape)}; nodes have at most {' and '.join(has)}"
    return f"needs {' and '.join(wants)} of its node beside {beside}; {nodes}"


def describe_host_need(shape: Shape) -> str:
    """Return the first half of a message about a claim without a card."""
    return f"needs {' and '.join(_list_host_amounts(shape))} of one node"


def _list_host_amounts(shape: Shape) -> list[str]:
    amounts = [f"{format_cores(shape.cpu_milli)} processors"] if shape.cpu_milli else []
    return amounts + ([format_mib(shape.host_bytes)] if shape.host_bytes else [])


def suggest_host_limits(most_cpu: int, most_bytes: int) -> str:
    return f"ask for at most {format_cores(most_cpu)} processors and {format_mib(most_bytes)} of main memory"


# Not now.


def describe_kept_whole(shape: Shape, seat_bytes: int | None, cards: int) -> str:
    needs = describe_card_need if shape.count == 1 else describe_node_need
    are = "card that fits is" if cards == 1 else "cards that fit are"
    return f"{needs(shape, seat_bytes)}; the {cards} {are} on nodes kept whole for other tenants"


def describe_exhausted(
    title: str, resource: Resource, held: int, most: int, kept: int, more: int
) -> str:
    """Say which quota is used up: `cohort research holds 12 of its 12 H200`."""
    whose = f"holds {format_number(resource, held)} of its" + (
        " maximum" if title != "the pool" else ""
    )
    others = (
        f" and keeps {format_amount(resource, kept)} for those in it that do not lend it"
        if kept
        else ""
    )
    needs = format_amount(resource, more) if resource == MEMORY else format_number(resource, more)
    return f"{title} {whose} {format_amount(resource, most)}{others}; this claim needs {needs} more"


def describe_guaranteed_to_others(
    title: str, resource: Resource, held: int, most: int, kept: int, more: int
) -> str:
    """Say what a non-preemptible claim must leave to the tenants with that guarantee."""
    used = f"{format_number(resource, held)} are held by jobs that may not be preempted"
    others = f"{format_number(resource, kept)} are guaranteed to others and not in such use"
    needs = format_amount(resource, more) if resource == MEMORY else format_number(resource, more)
    return (
        f"of {title}'s {format_amount(resource, most)} {used} and {others}; this claim, "
        f"not preemptible, needs {needs} more"
    )


def describe_quota_kept(tenant: str) -> str:
    """Say that the free quota is needed by a promised start."""
    return f"what the quota of tenant {tenant} leaves is kept for a claim of higher rank"


def describe_beyond_maximum(
    title: str, resource: Resource, more: int, nominal: int, borrowing: int
) -> str:
    """Say that a node of the quota tree can never hold that much."""
    most = format_amount(resource, nominal + borrowing)
    parts_ = f"nominal {format_number(resource, nominal)} + borrowing {format_number(resource, borrowing)}"
    return f"{format_amount(resource, more)} is beyond {title}'s maximum of {most} ({parts_})"


def describe_too_few_together(role: str, least: int, room: int, where: str) -> str:
    """Say how many members must start together; `where` is empty or ` in one rack`."""
    if least == 1:
        return f"{format_members(1, role)} must be there from the start and finds no room"
    found = {0: "none finds", 1: "1 finds"}.get(room, f"{room} find")
    return f"{format_members(least, role)} must start together{where} and {found} room"


def describe_evictions(cards: int, grace_s: int) -> str:
    kept = f"{format_count(cards, 'card')} {'is' if cards == 1 else 'are'}"
    return f"{kept} kept for it; the jobs that give way have {grace_s} s to leave"


def describe_behind(placed: int) -> str:
    return f"there is room; it comes in the next round, after {format_count(placed, 'claim')} placed in this one"


def describe_card_need(shape: Shape, seat_bytes: int | None) -> str:
    """Return the first half of a message about one card."""
    if shape.profile is not None:
        return (
            f"needs a partition of {_format_share(shape, seat_bytes)} on one {format_kind(shape)}"
        )
    if shape.is_whole:
        memory = f" with {format_mib(shape.memory_bytes)}" if shape.memory_bytes else ""
        return f"needs a whole {format_kind(shape)}{memory}"
    return f"needs {_format_share(shape, seat_bytes)} on one {format_kind(shape)}"


def describe_node_need(shape: Shape, seat_bytes: int | None) -> str:
    """Return the first half of a message about several cards of one node, or none."""
    if shape.count == 0:
        return describe_host_need(shape)
    if shape.is_whole:
        memory = f" with {format_mib(shape.memory_bytes)} each" if shape.memory_bytes else ""
        return f"needs {shape.count} whole {format_kind(shape, 'cards')}{memory} on one node"
    kind = f" ({format_kind(shape, 'cards')})" if shape.model or shape.labels else ""
    return f"needs {shape.count} × [{_format_share(shape, seat_bytes)}] on one node{kind}"


def _format_share(shape: Shape, seat_bytes: int | None) -> str:
    return format_share(
        shape.gpu_milli,
        seat_bytes,
        unpromised=shape.sharing.unpromised_text,
        profile=shape.profile,
    )


def describe_cards_out(
    counts: Sequence[tuple[RejectionReason, int]], total: int, most: dict[RejectionReason, str]
) -> str:
    """Return why cards cannot take the claim, shorter if one reason covers all.

    `of 16 cards 12 lack compute (most free: 0.40), 4 are draining`
    """
    if total == 1:
        reason = counts[0][0]
        return f"the only card {_get_verb(reason, 1)}{_format_most(reason, most, only=True)}"
    if counts[0][1] == total:
        reason = counts[0][0]
        return f"all {total} cards {_get_verb(reason, total)}{_format_most(reason, most)}"
    parts = list[str]()
    for reason, count in counts:
        parts.append(f"{count} {_get_verb(reason, count)}{_format_most(reason, most)}")
    return f"of {total} cards " + ", ".join(parts)


def describe_nodes(shape: Shape, nodes: Sequence[tuple[str, int]]) -> str:
    """Return what nodes have free, most first: `node-1 has 7 whole cards free, node-2 6`."""
    (first, count), *others = nodes[:LISTED_NODES]
    cards = (
        format_count(count, "whole card") + " free"
        if shape.is_whole
        else "room on " + format_count(count, "card")
    )
    text = f"{first} has {cards}"
    text += "".join(f", {node} {'' if shape.is_whole else 'on '}{count}" for node, count in others)
    rest = nodes[LISTED_NODES:]
    if not rest:
        return text
    return (
        text
        + f", {format_count(len(rest), 'other node')} {'' if shape.is_whole else 'on '}at most {rest[0][1]}"
    )


def describe_unavailable(reason: RejectionReason, count: int) -> str:
    """Return cards that exist but cannot be given out: `4 cards are not adopted`."""
    return f"{format_count(count, 'card')} {_get_verb(reason, count)}"


def _format_most(
    reason: RejectionReason, most: dict[RejectionReason, str], *, only: bool = False
) -> str:
    if reason not in most:
        return ""
    if reason is RejectionReason.CARD_TOO_SMALL:
        return f" (has {most[reason]})" if only else f" (largest: {most[reason]})"
    return f" (free: {most[reason]})" if only else f" (most free: {most[reason]})"


_DOES = {
    RejectionReason.MODEL: ("is of another model", "are of another model"),
    RejectionReason.VENDOR: ("is of another vendor", "are of another vendor"),
    RejectionReason.EXCLUDED: ("is excluded", "are excluded"),
    RejectionReason.LABELS: ("is on a node with other labels", "are on nodes with other labels"),
    RejectionReason.PARTITIONED: ("is in partition mode", "are in partition mode"),
    RejectionReason.PROFILE: ("has no such profile", "have no such profile"),
    RejectionReason.ISOLATION: ("does not isolate as asked", "do not isolate as asked"),
    RejectionReason.PLACE: ("has no free place for it", "have no free place for it"),
    RejectionReason.CARD_TOO_SMALL: ("is too small", "are too small"),
    RejectionReason.UNHEALTHY: ("is not healthy", "are not healthy"),
    RejectionReason.NOT_ADOPTED: ("is not adopted", "are not adopted"),
    RejectionReason.DRAINING: ("is draining", "are draining"),
    RejectionReason.NOT_WHOLE: ("is in use", "are in use"),
    RejectionReason.SERVES_MPS: (
        "serves MPS clients of one owner",
        "serve MPS clients of one owner each",
    ),
    RejectionReason.NOT_MPS: ("is in use without MPS", "are in use without MPS"),
    RejectionReason.COMPUTE: ("lacks compute", "lack compute"),
    RejectionReason.MEMORY: ("lacks memory", "lack memory"),
    RejectionReason.CPU: (
        "is on a node that lacks processors",
        "are on nodes that lack processors",
    ),
    RejectionReason.HOST_MEMORY: (
        "is on a node that lacks main memory",
        "are on nodes that lack main memory",
    ),
}


def _get_verb(reason: RejectionReason, count: int) -> str:
    return _DOES[reason][0 if count == 1 else 1]
