"""The sentences of a "no" and of a "not yet": words and plurals, no decisions.

Every text that the scheduler shows to people is put together here, from counts that others found.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from gpupool.base.units import GIB, MIB, format_gpu, format_mib, format_share
from gpupool.model.claim import Reason, Shape, Sharing
from gpupool.model.gang import MEMBER
from gpupool.model.quota import CELLS, MEMORY, NODE, Resource, parts

LISTED_NODES = 3
"""So many nodes are named in a sentence; the rest is summed up."""


def plural(count: int, noun: str) -> str:
    """`1 card`, `16 cards`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_gib(size: int) -> str:
    """GiB where they are whole, else with one decimal rounded down: `140 GiB`, `140.4 GiB`."""
    tenths = size * 10 // GIB
    return f"{tenths // 10} GiB" if size % GIB == 0 else f"{tenths // 10}.{tenths % 10} GiB"


def two_sizes(asked: int, given: int) -> tuple[str, str]:
    """Both sizes in GiB, or in MiB where they would read the same or are small.

    >>> two_sizes(200 * GIB, 140 * GIB), two_sizes(8193 * MIB, 8192 * MIB + 1)
    (('200 GiB', '140 GiB'), ('8193 MiB', '8192 MiB'))
    """
    wide = format_gib(asked), format_gib(given)
    alike = wide[0].replace(".0 ", " ") == wide[1].replace(".0 ", " ")
    return (format_mib(asked), format_mib(given)) if alike or min(asked, given) < GIB else wide


def named(shape: Shape, noun: str = "card") -> str:
    """`card`, `H200 card`, `H200 card with zone=a`: the kind of card that was asked for."""
    model = f"{models(shape)} " if shape.model else ""
    return f"{model}{noun}" + (f" with {labelled(shape)}" if shape.labels else "")


def models(shape: Shape) -> str:
    """`H200`, or `H200 or A100` where any of several will do."""
    return (shape.model or "").replace("|", " or ")


def format_cores(cpu_milli: int) -> str:
    """Processors with as many decimals as they have.

    >>> format_cores(8000), format_cores(3150)
    ('8', '3.15')
    """
    return f"{cpu_milli / 1000:.3f}".rstrip("0").rstrip(".")


def labelled(shape: Shape) -> str:
    return " and ".join(f"{key}={value}" for key, value in shape.labels)


def quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


# Never: what no emptying of the pool would change.


def no_cards() -> str:
    return "this pool has no cards"


def no_model(model: str, nearest: str | None, models: Sequence[str]) -> str:
    known = f"nearest: {nearest}" if nearest else f"it has {listed(models)}"
    return f"no card of model {quoted(model)} in this pool; {known}"


def no_labels(shape: Shape) -> str:
    model = f"{models(shape)} " if shape.model else ""
    return f"no {model}card of this pool is on a node with {labelled(shape)}"


def no_vendor(shape: Shape, vendors: Sequence[str]) -> tuple[str, str]:
    """What is missing, and what to do about it."""
    sentence = f"no card of vendor {shape.selector.vendor} in this pool; it has cards of {listed(vendors)}"
    return sentence, "ask for a card of a vendor that the pool has, or leave the pod to its own device plugin"


def no_named_card(shape: Shape) -> tuple[str, str]:
    """Where cards are chosen or excluded by UUID."""
    wanted = f"none of the cards {listed(shape.selector.uuids)} is" if shape.selector.uuids else "no other card is"
    return f"{wanted} in this pool, of the kind that was asked for", "gpupool gpus -o wide shows each card's UUID"


def only_excluded(shape: Shape, models: Sequence[str]) -> tuple[str, str]:
    """Where every card is of a model that the claim excludes."""
    excluded = listed(shape.selector.not_models)
    return f"this pool has only cards of {listed(models)}, and {excluded} are excluded", "exclude fewer models"


def too_large(shape: Shape, largest_model: str, largest_bytes: int, asked: str | None = None) -> str:
    wanted, has = two_sizes(shape.memory_bytes or 0, largest_bytes)
    labels = f" on a node with {labelled(shape)}" if shape.labels else ""
    model = f"{models(shape)} " if shape.model else ""
    return f"no {model}card{labels} has {asked or wanted} (largest: {largest_model} with {has})"


def too_many(shape: Shape, most: int, *, all_alike: bool) -> str:
    if all_alike:
        return f"needs {shape.count} cards on one node; the largest node has {most}"
    size = f" of at least {format_gib(shape.memory_bytes)}" if shape.memory_bytes else ""
    cards = f"{named(shape, 'cards')}{size}"
    return f"needs {shape.count} {cards} on one node; no node has more than {most} of them"


def no_profile(shape: Shape, published: Sequence[str]) -> tuple[str, str]:
    """What is missing, and what to do about it."""
    if not published:
        hint = "ask for a share:  --gpu 0.5; what a card can be cut into:  gpupool gpus -o wide"
        return f"no {named(shape)} of this pool can be cut into partitions", hint
    sentence = f"no {named(shape)} of this pool can be cut into {shape.profile}"
    return sentence, f"this pool's cards can be cut into {listed(published)}"


def all_partitioned(shape: Shape, cards: int) -> tuple[str, str]:
    """What is in the way of a share or a whole card, and what to do about it."""
    are = "the only " + named(shape) if cards == 1 else f"all {cards} {named(shape, 'cards')}"
    verb = "is" if cards == 1 else "are"
    return (
        f"{are} of this pool {verb} in partition mode (MIG) and {'takes' if cards == 1 else 'take'} partitions alone",
        "ask for a partition:  --profile NAME; gpupool gpus -o wide  shows what each card can be cut into",
    )


def small_hosts(shape: Shape, most_cpu: int, most_bytes: int) -> str:
    """`needs 64 processors beside its card; the largest node that could take it has 32`."""
    beside = "its card" if shape.count == 1 else f"its {shape.count} cards"
    wants = [f"{format_cores(shape.cpu_milli)} processors"] if shape.cpu_milli else []
    wants += [format_mib(shape.host_bytes)] if shape.host_bytes else []
    has = [format_cores(most_cpu)] if shape.cpu_milli else []
    has += [format_mib(most_bytes)] if shape.host_bytes else []
    nodes = f"nodes with such cards have at most {' and '.join(has)}"
    return f"needs {' and '.join(wants)} of its node beside {beside}; {nodes}"


def at_most_of_host(most_cpu: int, most_bytes: int) -> str:
    return f"ask for at most {format_cores(most_cpu)} processors and {format_mib(most_bytes)} of main memory"


# Not now.


def kept_whole(shape: Shape, seat_bytes: int | None, cards: int) -> str:
    needs = needs_card if shape.count == 1 else needs_node
    are = "card that fits is" if cards == 1 else "cards that fit are"
    return f"{needs(shape, seat_bytes)}; the {cards} {are} on nodes kept whole for other tenants"


def exhausted(title: str, resource: Resource, held: int, most: int, kept: int, more: int) -> str:
    """Where on the path from the tenant to the pool there is no room: `cohort research holds 12 of its 12 H200`."""
    whose = f"holds {_plain(resource, held)} of its" + (" maximum" if title != "the pool" else "")
    others = f" and keeps {counted(resource, kept)} for those in it that do not lend it" if kept else ""
    needs = counted(resource, more) if resource == MEMORY else _plain(resource, more)
    return f"{title} {whose} {counted(resource, most)}{others}; this claim needs {needs} more"


def guaranteed_to_others(title: str, resource: Resource, held: int, most: int, kept: int, more: int) -> str:
    """What a claim that may not be preempted has to leave for those to whom it is guaranteed."""
    used = f"{_plain(resource, held)} are held by jobs that may not be preempted"
    others = f"{_plain(resource, kept)} are guaranteed to others and not in such use"
    needs = counted(resource, more) if resource == MEMORY else _plain(resource, more)
    return (
        f"of {title}'s {counted(resource, most)} {used} and {others}; this claim, not preemptible, needs {needs} more"
    )


def quota_kept(tenant: str) -> str:
    """What is free in the quotas now and will be needed by a start that was promised."""
    return f"what the quota of tenant {tenant} leaves is kept for a claim of higher rank"


def beyond(title: str, resource: Resource, more: int, nominal: int, borrowing: int) -> str:
    """What is more than that node of the quota tree may ever hold."""
    most = counted(resource, nominal + borrowing)
    parts_ = f"nominal {_plain(resource, nominal)} + borrowing {_plain(resource, borrowing)}"
    return f"{counted(resource, more)} is beyond {title}'s maximum of {most} ({parts_})"


def counted(resource: Resource, amount: int) -> str:
    """`2.00 GPU`, `3.50 H200`, `8192 MiB`, `2 nodes`."""
    kind, model = parts(resource)
    if kind in CELLS:
        noun = "node" if kind == NODE else "NVLink domain"
        return plural(amount, f"{model} {noun}" if model else noun)
    return format_mib(amount) if kind == MEMORY else f"{format_gpu(amount)} {model or 'GPU'}"


def amounts(resource: Resource, *each: int) -> list[str]:
    """Of one resource, with its unit only where it is memory."""
    return [counted(resource, one) if resource == MEMORY else _plain(resource, one) for one in each]


def _plain(resource: Resource, amount: int) -> str:
    return str(amount // MIB) if resource == MEMORY else counted(resource, amount).split(" ")[0]


def too_few_together(role: str, least: int, room: int, where: str) -> str:
    """`where` is empty or ` in one rack`."""
    if least == 1:
        return f"{of_role(1, role)} must be there from the start and finds no room"
    found = {0: "none finds", 1: "1 finds"}.get(room, f"{room} find")
    return f"{of_role(least, role)} must start together{where} and {found} room"


def of_role(count: int, role: str) -> str:
    """`4 members`, `4 of role worker`: the members of a gang without named roles are all of the role MEMBER."""
    return plural(count, role) if role == MEMBER else f"{count} of role {role}"


def being_left(cards: int, grace_s: int) -> str:
    kept = f"{plural(cards, 'card')} {'is' if cards == 1 else 'are'}"
    return f"{kept} kept for it; the jobs that give way have {grace_s} s to leave"


def behind(placed: int) -> str:
    return f"there is room; it comes in the next round, after {plural(placed, 'claim')} placed in this one"


def needs_card(shape: Shape, seat_bytes: int | None) -> str:
    """The first half of a sentence about one card."""
    if shape.profile is not None:
        return f"needs a partition of {_share(shape, seat_bytes)} on one {named(shape)}"
    if shape.whole:
        memory = f" with {format_mib(shape.memory_bytes)}" if shape.memory_bytes else ""
        return f"needs a whole {named(shape)}{memory}"
    return f"needs {_share(shape, seat_bytes)} on one {named(shape)}"


def needs_node(shape: Shape, seat_bytes: int | None) -> str:
    """The first half of a sentence about several cards of one node."""
    if shape.whole:
        memory = f" with {format_mib(shape.memory_bytes)} each" if shape.memory_bytes else ""
        return f"needs {shape.count} whole {named(shape, 'cards')}{memory} on one node"
    kind = f" ({named(shape, 'cards')})" if shape.model or shape.labels else ""
    return f"needs {shape.count} × [{_share(shape, seat_bytes)}] on one node{kind}"


def _share(shape: Shape, seat_bytes: int | None) -> str:
    best_effort = shape.sharing is Sharing.BEST_EFFORT
    return format_share(shape.gpu_milli, seat_bytes, best_effort=best_effort, profile=shape.profile)


def cards_out(counts: Sequence[tuple[Reason, int]], total: int, most: dict[Reason, str]) -> str:
    """`of 16 cards 12 lack compute (most free: 0.40), 4 are draining`; shorter where one reason covers all."""
    if total == 1:
        reason = counts[0][0]
        return f"the only card {_does(reason, 1)}{_at_most(reason, most, only=True)}"
    if counts[0][1] == total:
        reason = counts[0][0]
        return f"all {total} cards {_does(reason, total)}{_at_most(reason, most)}"
    parts = (f"{count} {_does(reason, count)}{_at_most(reason, most)}" for reason, count in counts)
    return f"of {total} cards " + ", ".join(parts)


def nodes_have(shape: Shape, nodes: Sequence[tuple[str, int]]) -> str:
    """`node-1 has 7 whole cards free, node-2 6`; nodes come with the most first, at least one card each."""
    (first, count), *others = nodes[:LISTED_NODES]
    cards = plural(count, "whole card") + " free" if shape.whole else "room on " + plural(count, "card")
    text = f"{first} has {cards}"
    text += "".join(f", {node} {'' if shape.whole else 'on '}{count}" for node, count in others)
    rest = nodes[LISTED_NODES:]
    if not rest:
        return text
    return text + f", {plural(len(rest), 'other node')} {'' if shape.whole else 'on '}at most {rest[0][1]}"


def also_out(reason: Reason, count: int) -> str:
    """`4 cards are not adopted`: cards that are there but cannot be given out."""
    return f"{plural(count, 'card')} {_does(reason, count)}"


def listed(words: Sequence[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else "none"


def _at_most(reason: Reason, most: dict[Reason, str], *, only: bool = False) -> str:
    if reason not in most:
        return ""
    if reason is Reason.CARD_TOO_SMALL:
        return f" (has {most[reason]})" if only else f" (largest: {most[reason]})"
    return f" (free: {most[reason]})" if only else f" (most free: {most[reason]})"


_DOES = {
    Reason.MODEL: ("is of another model", "are of another model"),
    Reason.VENDOR: ("is of another vendor", "are of another vendor"),
    Reason.EXCLUDED: ("is excluded", "are excluded"),
    Reason.LABELS: ("is on a node with other labels", "are on nodes with other labels"),
    Reason.PARTITIONED: ("is in partition mode", "are in partition mode"),
    Reason.PROFILE: ("has no such profile", "have no such profile"),
    Reason.PLACE: ("has no free place for it", "have no free place for it"),
    Reason.CARD_TOO_SMALL: ("is too small", "are too small"),
    Reason.UNHEALTHY: ("is not healthy", "are not healthy"),
    Reason.NOT_ADOPTED: ("is not adopted", "are not adopted"),
    Reason.DRAINING: ("is draining", "are draining"),
    Reason.NOT_WHOLE: ("is in use", "are in use"),
    Reason.COMPUTE: ("lacks compute", "lack compute"),
    Reason.MEMORY: ("lacks memory", "lack memory"),
    Reason.CPU: ("is on a node that lacks processors", "are on nodes that lack processors"),
    Reason.HOST_MEMORY: ("is on a node that lacks main memory", "are on nodes that lack main memory"),
}


def _does(reason: Reason, count: int) -> str:
    return _DOES[reason][0 if count == 1 else 1]
