"""Rejections: why a shape fits nowhere, as counts per reason, the main reason and a message.

`explain_never` is about the empty pool, `explain_not_now` about what is free now. `quota` explains
what quotas reject. The functions change nothing and do not know the owners of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from gpupool.base.units import MIB, format_gpu, format_mib
from gpupool.model.catalogue import nearest_model
from gpupool.model.claim import Rejection, RejectionReason
from gpupool.scheduling.filtering.feasibility import CODE, FITS, ORDER, ClaimFit, list_model_vendors
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.isolation import list_offered_cards
from gpupool.scheduling.filtering.partition_fit import compute_partition_bytes
from gpupool.scheduling.mechanism_choice.pool_survey import describe_refusal, survey_cards
from gpupool.scheduling.reasons import help_messages, messages, phrases
from gpupool.scheduling.reasons.even_gang import find_even_gang
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.columns import Bools, Ints

_PASSING = (
    RejectionReason.COMPUTE,
    RejectionReason.MEMORY,
    RejectionReason.NOT_WHOLE,
    RejectionReason.SERVES_MPS,
    RejectionReason.NOT_MPS,
    RejectionReason.PLACE,
    RejectionReason.CPU,
    RejectionReason.HOST_MEMORY,
)
_STATUS = (RejectionReason.DRAINING, RejectionReason.NOT_ADOPTED, RejectionReason.UNHEALTHY)
_MODES = (RejectionReason.PROFILE, RejectionReason.PARTITIONED, RejectionReason.ISOLATION)
_KINDS = (
    (RejectionReason.LABELS,),
    (RejectionReason.EXCLUDED,),
    (RejectionReason.MODEL,),
    (RejectionReason.VENDOR,),
)
#: What dominates: reasons that pass by themselves before those that an operator or the asker must
#: change.
_DOMINANCE = (_PASSING, _STATUS, (RejectionReason.CARD_TOO_SMALL,), _MODES, *_KINDS)


def explain_never(
    fit: ClaimFit,
    free: FreeCapacity,
    known_models: Iterable[str] = (),
    asked_memory: str | None = None,
) -> Rejection | None:
    """Return the rejection if not even the empty pool with all cards open could take the shape.

    Args:
        fit: The filter's result for the shape.
        free: What is free.
        known_models: Models of the catalogue, to suggest a spelling.
        asked_memory: The memory as the user wrote it.
    """
    cards = free.cards
    if len(cards) == 0:
        return _build_rejection(
            fit,
            free,
            RejectionReason.TOO_FEW_CARDS,
            messages.describe_no_cards(),
            "gpupool doctor shows what was found",
        )
    if not fit.possible.any():
        return _explain_no_card(fit, free, known_models, asked_memory)
    most = int(free.count_cards_by_node(fit.possible).max())
    if most >= fit.shape.count:
        return _explain_no_host(fit, free)
    sentence = messages.describe_too_many(fit.shape, most, all_alike=bool(fit.possible.all()))
    gang = find_even_gang(fit.shape.count, free.count_cards_by_node(fit.possible))
    hint = f"ask for at most {phrases.format_count(most, 'card')}"
    if gang is not None:
        each = phrases.format_count(gang.count, "card")
        hint += f", or for a gang of {gang.members} members with {each} each"
    found = _build_rejection(fit, free, RejectionReason.TOO_FEW_CARDS, sentence, hint)
    return replace(found, gang=gang)


def _explain_no_host(fit: ClaimFit, free: FreeCapacity) -> Rejection | None:
    """Return the rejection if no node with enough possible cards has large enough a host."""
    hosts = free.cards.hosts
    shape = fit.shape
    if hosts is None:
        return None
    enough = free.count_cards_by_node(fit.possible) >= max(shape.count, 1)
    cpu = hosts.cpu_milli >= shape.cpu_milli
    memory = hosts.memory_bytes >= shape.host_bytes
    if (enough & cpu & memory).any():
        return None
    most_cpu = int(hosts.cpu_milli[enough].max())
    most_bytes = int(hosts.memory_bytes[enough].max())
    reason = RejectionReason.HOST_MEMORY if (enough & cpu).any() else RejectionReason.CPU
    sentence = messages.describe_small_hosts(shape, most_cpu, most_bytes)
    return _build_rejection(
        fit, free, reason, sentence, messages.suggest_host_limits(most_cpu, most_bytes)
    )


def _explain_no_card(
    fit: ClaimFit, free: FreeCapacity, known: Iterable[str], asked_memory: str | None
) -> Rejection:
    too_small = fit.fixed == CODE[RejectionReason.CARD_TOO_SMALL]
    if too_small.any():
        return _explain_too_large(fit, free, np.flatnonzero(too_small), asked_memory)
    unserved = np.flatnonzero(fit.wanted == CODE[RejectionReason.ISOLATION])
    if len(unserved):
        return _explain_unserved(fit, free, unserved)
    if (fit.wanted == CODE[RejectionReason.PROFILE]).any():
        published = dict[str, None]()
        for cut in free.cards.layouts.values():
            published.update((profile.name, None) for profile in cut.profiles)
        if fit.shape.partition_bytes is not None and fit.shape.profile in published:
            size = compute_partition_bytes(fit.shape.profile, free.cards)
            sentence, hint = messages.describe_large_profile(fit.shape, int(size[size > 0].min()))
        else:
            sentence, hint = messages.describe_no_profile(fit.shape, tuple(published))
        return _build_rejection(fit, free, RejectionReason.PROFILE, sentence, hint)
    in_partitions = int(np.count_nonzero(fit.wanted == CODE[RejectionReason.PARTITIONED]))
    if in_partitions > 0:
        return _build_rejection(
            fit,
            free,
            RejectionReason.PARTITIONED,
            *messages.describe_all_partitioned(fit.shape, in_partitions),
        )
    if (fit.wanted == CODE[RejectionReason.LABELS]).any():
        hint = help_messages.suggest_labelled_nodes(fit.shape)
        return _build_rejection(
            fit, free, RejectionReason.LABELS, messages.describe_no_labels(fit.shape), hint
        )
    if (fit.wanted == CODE[RejectionReason.EXCLUDED]).any():
        return _build_rejection(
            fit, free, RejectionReason.EXCLUDED, *messages.describe_no_named_card(fit.shape)
        )
    if (fit.wanted == CODE[RejectionReason.MODEL]).any():
        return _explain_no_model(fit, free, tuple(known))
    return _build_rejection(
        fit,
        free,
        RejectionReason.VENDOR,
        *messages.describe_no_vendor(fit.shape, list_present_vendors(free.cards)),
    )


def _explain_unserved(fit: ClaimFit, free: FreeCapacity, rows: Ints) -> Rejection:
    shape = fit.shape
    offered = list_offered_cards(free.cards, rows.tolist(), {})
    text = describe_refusal(shape, shape.needs, survey_cards(shape, shape.needs, offered))
    found = _build_rejection(fit, free, RejectionReason.ISOLATION, text.sentence, text.hint)
    return replace(found, lines=text.lines)


def _explain_too_large(
    fit: ClaimFit, free: FreeCapacity, rows: Ints, asked_memory: str | None
) -> Rejection:
    cards = free.cards
    largest = rows[int(np.argmax(cards.memory_bytes[rows]))]
    model = cards.models[cards.model[largest]]
    size = int(cards.memory_bytes[largest])
    sentence = messages.describe_too_large(fit.shape, model, size, asked_memory)
    return _build_rejection(
        fit,
        free,
        RejectionReason.CARD_TOO_SMALL,
        sentence,
        f"write --memory {size // MIB}MiB or less",
    )


def _explain_no_model(fit: ClaimFit, free: FreeCapacity, known: tuple[str, ...]) -> Rejection:
    models = list_present_models(free.cards)
    model = fit.shape.model
    if model is None:
        return _build_rejection(
            fit, free, RejectionReason.MODEL, *messages.describe_only_excluded(fit.shape, models)
        )
    near = nearest_model(model, models)
    meant = nearest_model(model, known)
    hint = f"write --model {near or models[0]}"
    if meant and meant not in models:
        hint = f"{meant} is a model that no card here has; {hint}"
    return _build_rejection(
        fit, free, RejectionReason.MODEL, messages.describe_no_model(model, near, models), hint
    )


def _build_rejection(
    fit: ClaimFit, free: FreeCapacity, dominant: RejectionReason, sentence: str, hint: str
) -> Rejection:
    cards = count_cards(fit)
    nodes = count_nodes(fit, free)
    return Rejection(sentence, dominant, cards, nodes, fits_ever=False, hint=hint)


def list_present_models(cards: CardTable) -> tuple[str, ...]:
    """Return the models of which the pool has a card, in the order of the snapshot."""
    return tuple(cards.models[i] for i in np.unique(cards.model))


def list_present_vendors(cards: CardTable) -> tuple[str, ...]:
    """Return the vendors of which the pool has a card."""
    vendors = list_model_vendors(cards)
    return tuple(sorted({vendors[number] for number in np.unique(cards.model)} - {""}))


def explain_not_now(fit: ClaimFit, free: FreeCapacity) -> Rejection:
    """Return why no node takes the shape now; `fit` is fresh and `explain_never` returned None."""
    cards = count_cards(fit)
    nodes = count_nodes(fit, free)
    if fit.shape.count > 1 and fit.fitting.any():
        return Rejection(
            _describe_nodes(fit, free, cards), RejectionReason.TOO_FEW_CARDS, cards, nodes
        )
    return Rejection(_describe_cards(fit, free, cards), find_dominant_reason(cards), cards, nodes)


def count_cards(fit: ClaimFit) -> dict[RejectionReason, int]:
    """Return how many cards were rejected per reason, in the order of the checks."""
    counts = np.bincount(fit.why, minlength=len(ORDER) + 1)
    return _name_counts(counts)


def count_nodes(fit: ClaimFit, free: FreeCapacity) -> dict[RejectionReason, int]:
    """Return how many nodes were rejected per reason."""
    worst = free.find_highest_by_node(fit.why)
    # A node with any fitting card is not rejected for a reason; it may still have too few.
    worst[fit.fitting > 0] = FITS
    counts = np.bincount(worst, minlength=len(ORDER) + 1)
    found = _name_counts(counts)
    few = int(np.count_nonzero((fit.fitting > 0) & (fit.fitting < fit.shape.count)))
    return found | ({RejectionReason.TOO_FEW_CARDS: few} if few else {})


def _name_counts(counts: Ints) -> dict[RejectionReason, int]:
    found = dict[RejectionReason, int]()
    for reason, code in CODE.items():
        if counts[code]:
            found[reason] = int(counts[code])
    return found


def find_dominant_reason(cards: Mapping[RejectionReason, int]) -> RejectionReason:
    """Return the main reason: the most frequent one of the kind that is nearest to passing."""
    for kind in _DOMINANCE:
        found = [reason for reason in kind if reason in cards]
        if found:
            return max(found, key=lambda reason: cards[reason])
    return RejectionReason.TOO_FEW_CARDS


def _describe_cards(
    fit: ClaimFit, free: FreeCapacity, counts: Mapping[RejectionReason, int]
) -> str:
    needs = messages.describe_card_need if fit.shape.count == 1 else messages.describe_node_need
    # Most frequent first, then in the order of the checks, so that the sentence is the same each
    # time.
    first = sorted(counts.items(), key=lambda item: (-item[1], ORDER.index(item[0])))
    out = messages.describe_cards_out(first, len(free.cards), _find_most(fit, free))
    return f"{needs(fit.shape, find_seat_bytes(fit))}; {out}"


def _describe_nodes(
    fit: ClaimFit, free: FreeCapacity, counts: Mapping[RejectionReason, int]
) -> str:
    best = np.argsort(-fit.fitting, kind="stable")[: int(np.count_nonzero(fit.fitting))]
    nodes = [(free.cards.nodes[i], int(fit.fitting[i])) for i in best]
    parts = [
        messages.describe_node_need(fit.shape, find_seat_bytes(fit)),
        messages.describe_nodes(fit.shape, nodes),
    ]
    for reason in _STATUS:
        if reason in counts:
            parts.append(messages.describe_unavailable(reason, counts[reason]))
    return "; ".join(parts)


def find_seat_bytes(fit: ClaimFit) -> int | None:
    """Return the bytes of one seat if they are equal on all possible cards, else None."""
    needs = fit.need[fit.possible]
    return int(needs[0]) if len(needs) and bool((needs == needs[0]).all()) else None


def _find_most(fit: ClaimFit, free: FreeCapacity) -> dict[RejectionReason, str]:
    columns = {
        RejectionReason.COMPUTE: free.milli,
        RejectionReason.MEMORY: free.size,
        RejectionReason.CARD_TOO_SMALL: free.cards.memory_bytes,
    }
    said = dict[RejectionReason, str]()
    for reason, column in columns.items():
        lacking = fit.why == CODE[reason]
        if lacking.any():
            most = int(column[lacking].max())
            is_compute = reason is RejectionReason.COMPUTE
            said[reason] = format_gpu(most) if is_compute else format_mib(most)
    return said | _find_most_of_hosts(fit, free)


def _find_most_of_hosts(fit: ClaimFit, free: FreeCapacity) -> dict[RejectionReason, str]:
    said = dict[RejectionReason, str]()
    nodes = free.cards.node[fit.why == CODE[RejectionReason.CPU]]
    if len(nodes):
        most_cores = phrases.format_cores(int(free.cpu_milli[nodes].max()))
        said[RejectionReason.CPU] = most_cores
    nodes = free.cards.node[fit.why == CODE[RejectionReason.HOST_MEMORY]]
    if len(nodes):
        said[RejectionReason.HOST_MEMORY] = format_mib(int(free.host_bytes[nodes].max()))
    return said


def explain_kept_whole(fit: ClaimFit, free: FreeCapacity, closed: Bools) -> Rejection | None:
    """Return the rejection if fitting cards are on nodes or NVLink domains that are kept whole.

    Args:
        fit: The filter's result for the shape.
        free: What is free.
        closed: Mask of the cards that are kept whole for other tenants.
    """
    fits = fit.why == FITS
    if (free.count_cards_by_node(fits & ~closed) >= fit.shape.count).any():
        return None
    kept = fits & closed
    sentence = messages.describe_kept_whole(
        fit.shape, find_seat_bytes(fit), int(np.count_nonzero(kept))
    )
    return Rejection(
        sentence, RejectionReason.RESERVED, {RejectionReason.RESERVED: int(np.count_nonzero(kept))}
    )


def explain_behind(placed: int) -> Rejection:
    """Return the rejection of a claim that has room, but was not reached in this plan."""
    return Rejection(messages.describe_behind(placed), RejectionReason.BEHIND)
