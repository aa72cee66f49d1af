"""Why a shape goes nowhere: counts per reason, what dominates, and the sentence for people.

`never` is about the pool however empty, `not_now` about what is free now; what quotas refuse is in `quotas`. None of
them changes anything or knows who holds what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gpupool.base.units import MIB, format_gpu, format_mib
from gpupool.model.catalogue import nearest_model
from gpupool.model.claim import Reason, Rejection
from gpupool.scheduling import wording
from gpupool.scheduling.feasible import CODE, FITS, ORDER, Fit, vendors_of
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Bools, Cards, Ints

_PASSING = (Reason.COMPUTE, Reason.MEMORY, Reason.NOT_WHOLE, Reason.PLACE, Reason.CPU, Reason.HOST_MEMORY)
_STATUS = (Reason.DRAINING, Reason.NOT_ADOPTED, Reason.UNHEALTHY)
_MODES = (Reason.PROFILE, Reason.PARTITIONED)
_KINDS = ((Reason.LABELS,), (Reason.EXCLUDED,), (Reason.MODEL,), (Reason.VENDOR,))
_DOMINANCE = (_PASSING, _STATUS, (Reason.CARD_TOO_SMALL,), _MODES, *_KINDS)
"""What dominates: reasons that pass by themselves before those that an operator or the asker must change."""


def never(fit: Fit, free: Free, known_models: Iterable[str] = (), asked_memory: str | None = None) -> Rejection | None:
    """The refusal when not even the empty pool could take the shape, with every card in it open."""
    cards = free.cards
    if len(cards) == 0:
        return _never(fit, free, Reason.TOO_FEW_CARDS, wording.no_cards(), "gpupool doctor shows what was found")
    if not fit.possible.any():
        return _no_such_card(fit, free, known_models, asked_memory)
    most = int(free.count_by_node(fit.possible).max())
    if most >= fit.shape.count:
        return _no_such_host(fit, free)
    sentence = wording.too_many(fit.shape, most, all_alike=bool(fit.possible.all()))
    return _never(fit, free, Reason.TOO_FEW_CARDS, sentence, f"ask for at most {wording.plural(most, 'card')}")


def _no_such_host(fit: Fit, free: Free) -> Rejection | None:
    """The refusal when no node with enough possible cards is large enough beside them, however empty."""
    hosts, shape = free.cards.hosts, fit.shape
    if hosts is None:
        return None
    enough = free.count_by_node(fit.possible) >= shape.count
    cpu, memory = hosts.cpu_milli >= shape.cpu_milli, hosts.memory_bytes >= shape.host_bytes
    if (enough & cpu & memory).any():
        return None
    most_cpu, most_bytes = int(hosts.cpu_milli[enough].max()), int(hosts.memory_bytes[enough].max())
    reason = Reason.HOST_MEMORY if (enough & cpu).any() else Reason.CPU
    sentence = wording.small_hosts(shape, most_cpu, most_bytes)
    return _never(fit, free, reason, sentence, wording.at_most_of_host(most_cpu, most_bytes))


def _no_such_card(fit: Fit, free: Free, known: Iterable[str], asked_memory: str | None) -> Rejection:
    too_small = fit.fixed == CODE[Reason.CARD_TOO_SMALL]
    if too_small.any():
        return _too_large(fit, free, np.flatnonzero(too_small), asked_memory)
    if (fit.wanted == CODE[Reason.PROFILE]).any():
        published = [profile.name for cut in free.cards.cuts.values() for profile in cut.profiles]
        sentence, hint = wording.no_profile(fit.shape, tuple(dict.fromkeys(published)))
        return _never(fit, free, Reason.PROFILE, sentence, hint)
    if (cut := int(np.count_nonzero(fit.wanted == CODE[Reason.PARTITIONED]))) > 0:
        return _never(fit, free, Reason.PARTITIONED, *wording.all_partitioned(fit.shape, cut))
    if (fit.wanted == CODE[Reason.LABELS]).any():
        hint = "gpupool gpus -o wide shows each node's labels"
        return _never(fit, free, Reason.LABELS, wording.no_labels(fit.shape), hint)
    if (fit.wanted == CODE[Reason.EXCLUDED]).any():
        return _never(fit, free, Reason.EXCLUDED, *wording.no_named_card(fit.shape))
    if (fit.wanted == CODE[Reason.MODEL]).any():
        return _no_model(fit, free, tuple(known))
    return _never(fit, free, Reason.VENDOR, *wording.no_vendor(fit.shape, vendors_present(free.cards)))


def _too_large(fit: Fit, free: Free, rows: Ints, asked_memory: str | None) -> Rejection:
    cards = free.cards
    largest = rows[int(np.argmax(cards.memory_bytes[rows]))]
    model, size = cards.models[cards.model[largest]], int(cards.memory_bytes[largest])
    sentence = wording.too_large(fit.shape, model, size, asked_memory)
    return _never(fit, free, Reason.CARD_TOO_SMALL, sentence, f"write --memory {size // MIB}MiB or less")


def _no_model(fit: Fit, free: Free, known: tuple[str, ...]) -> Rejection:
    models, model = present_models(free.cards), fit.shape.model
    if model is None:
        return _never(fit, free, Reason.MODEL, *wording.only_excluded(fit.shape, models))
    near = nearest_model(model, models)
    meant = nearest_model(model, known)
    hint = f"write --model {near or models[0]}"
    if meant and meant not in models:
        hint = f"{meant} is a model that no card here has; {hint}"
    return _never(fit, free, Reason.MODEL, wording.no_model(model, near, models), hint)


def _never(fit: Fit, free: Free, dominant: Reason, sentence: str, hint: str) -> Rejection:
    cards, nodes = card_counts(fit), node_counts(fit, free)
    return Rejection(sentence, dominant, cards, nodes, fits_ever=False, hint=hint)


def present_models(cards: Cards) -> tuple[str, ...]:
    """Models of which the pool has a card, in the order of the snapshot."""
    return tuple(cards.models[i] for i in np.unique(cards.model))


def vendors_present(cards: Cards) -> tuple[str, ...]:
    """Vendors of which the pool has a card."""
    vendors = vendors_of(cards)
    return tuple(sorted({vendors[number] for number in np.unique(cards.model)} - {""}))


def not_now(fit: Fit, free: Free) -> Rejection:
    """Why no node takes the shape now; `fit` is fresh and something of `never` does not hold."""
    cards, nodes = card_counts(fit), node_counts(fit, free)
    if fit.shape.count > 1 and fit.fitting.any():
        return Rejection(_nodes_sentence(fit, free, cards), Reason.TOO_FEW_CARDS, cards, nodes)
    return Rejection(_cards_sentence(fit, free, cards), dominant(cards), cards, nodes)


def card_counts(fit: Fit) -> dict[Reason, int]:
    """How many cards fell out for which reason, in the order of the tests."""
    counts = np.bincount(fit.why, minlength=len(ORDER) + 1)
    return {reason: int(counts[code]) for reason, code in CODE.items() if counts[code]}


def node_counts(fit: Fit, free: Free) -> dict[Reason, int]:
    """How many nodes fell out: for too few fitting cards, or for the reason nearest to fitting."""
    worst = free.highest_by_node(fit.why)
    worst[fit.fitting > 0] = FITS
    counts = np.bincount(worst, minlength=len(ORDER) + 1)
    found = {reason: int(counts[code]) for reason, code in CODE.items() if counts[code]}
    few = int(np.count_nonzero((fit.fitting > 0) & (fit.fitting < fit.shape.count)))
    return found | ({Reason.TOO_FEW_CARDS: few} if few else {})


def dominant(cards: Mapping[Reason, int]) -> Reason:
    """The reason to name first: the most frequent of the kind that is nearest to passing."""
    for kind in _DOMINANCE:
        found = [reason for reason in kind if reason in cards]
        if found:
            return max(found, key=lambda reason: cards[reason])
    return Reason.TOO_FEW_CARDS


def _cards_sentence(fit: Fit, free: Free, counts: Mapping[Reason, int]) -> str:
    needs = wording.needs_card if fit.shape.count == 1 else wording.needs_node
    first = sorted(counts.items(), key=lambda item: (-item[1], ORDER.index(item[0])))
    out = wording.cards_out(first, len(free.cards), _most(fit, free))
    return f"{needs(fit.shape, seat_bytes(fit))}; {out}"


def _nodes_sentence(fit: Fit, free: Free, counts: Mapping[Reason, int]) -> str:
    best = np.argsort(-fit.fitting, kind="stable")[: int(np.count_nonzero(fit.fitting))]
    nodes = [(free.cards.nodes[i], int(fit.fitting[i])) for i in best]
    parts = [wording.needs_node(fit.shape, seat_bytes(fit)), wording.nodes_have(fit.shape, nodes)]
    parts += [wording.also_out(reason, counts[reason]) for reason in _STATUS if reason in counts]
    return "; ".join(parts)


def seat_bytes(fit: Fit) -> int | None:
    """What one seat takes when it is the same on every card that could take it, else None."""
    needs = fit.need[fit.possible]
    return int(needs[0]) if len(needs) and bool((needs == needs[0]).all()) else None


def _most(fit: Fit, free: Free) -> dict[Reason, str]:
    lacking = {reason: fit.why == CODE[reason] for reason in (Reason.COMPUTE, Reason.MEMORY, Reason.CARD_TOO_SMALL)}
    columns = {Reason.COMPUTE: free.milli, Reason.MEMORY: free.size, Reason.CARD_TOO_SMALL: free.cards.memory_bytes}
    found = {reason: int(columns[reason][mask].max()) for reason, mask in lacking.items() if mask.any()}
    said = {r: format_gpu(most) if r is Reason.COMPUTE else format_mib(most) for r, most in found.items()}
    return said | _most_of_hosts(fit, free)


def _most_of_hosts(fit: Fit, free: Free) -> dict[Reason, str]:
    cpu, memory = (free.cards.node[fit.why == CODE[reason]] for reason in (Reason.CPU, Reason.HOST_MEMORY))
    said = {Reason.CPU: wording.format_cores(int(free.cpu_milli[cpu].max()))} if len(cpu) else {}
    return said | ({Reason.HOST_MEMORY: format_mib(int(free.host_bytes[memory].max()))} if len(memory) else {})


def kept_whole(fit: Fit, free: Free, closed: Bools) -> Rejection | None:
    """The refusal when what would fit is on nodes or NVLink domains that are kept whole for others."""
    fits = fit.why == FITS
    if (free.count_by_node(fits & ~closed) >= fit.shape.count).any():
        return None
    kept = fits & closed
    sentence = wording.kept_whole(fit.shape, seat_bytes(fit), int(np.count_nonzero(kept)))
    return Rejection(sentence, Reason.RESERVED, {Reason.RESERVED: int(np.count_nonzero(kept))})


def behind(placed: int) -> Rejection:
    """There is room, but this plan was full or the claim's turn has not come."""
    return Rejection(wording.behind(placed), Reason.BEHIND)
