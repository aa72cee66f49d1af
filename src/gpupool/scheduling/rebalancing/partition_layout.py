"""Plans which partitions cards get for a demand, and which running ones must move for it.

One card's layouts are searched exactly: what fits together beside fixed partitions is always found by
placing the largest first in the slot that leaves the most slots open (compared with the exhaustive
search over all layouts in `tests/properties/test_partition_search.py`). Several cards are searched by
dynamic programming over what is left of the demand. If the demand does not fit, jobs of one card alone
are moved, those with the least compute first. Pure; changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

from gpupool.model.partition import PartitionProfile, PartitionSlot, find_open_slot

#: States of the search that are kept for each card; beyond it the plan is no longer exact.
STATE_LIMIT = 400
#: Mixes that are tried in all; then no further set of jobs is tried for a move. About 2 s.
WORK_LIMIT = 1_000_000
#: No known card holds more partitions.
MOST_PARTITIONS = 8


@dataclass(frozen=True)
class RunningPartition:
    """A partition in use.

    Attributes:
        job: name of its job; empty for one that gpupool did not make.
        is_movable: the job may be stopped and started elsewhere.
    """

    slot: PartitionSlot
    job: str = ""
    is_movable: bool = False


@dataclass(frozen=True)
class PartitionedCard:
    """A card in partition mode."""

    name: str
    profiles: tuple[PartitionProfile, ...]
    running: tuple[RunningPartition, ...] = ()


@dataclass(frozen=True)
class PartitionMove:
    """A job that is stopped on one card and started on another, or in another slot."""

    job: str
    from_card: str
    from_slot: PartitionSlot
    card: str
    slot: PartitionSlot


@dataclass(frozen=True)
class LayoutPlan:
    """What each card gets.

    Attributes:
        added: new partitions by card, lowest start first.
        moves: jobs that must move first; all of one card.
        missing: what finds no slot, by profile.
        is_exact: whether the search was complete, so that no better plan exists.
    """

    added: Mapping[str, tuple[PartitionSlot, ...]] = field(default_factory=dict)
    moves: tuple[PartitionMove, ...] = ()
    missing: Mapping[str, int] = field(default_factory=dict)
    is_exact: bool = True


@dataclass(frozen=True)
class _FillResult:
    """New slots by position of the card, and what is left of the demand."""

    added: tuple[tuple[PartitionSlot, ...], ...]
    missing: Counter[str]
    is_exact: bool
    work: int


def plan_layout(cards: Sequence[PartitionedCard], demand: Mapping[str, int]) -> LayoutPlan:
    """Plan a demand on cards.

    Args:
        cards: the cards in partition mode, in the order in which equal ones are filled.
        demand: number of partitions by name of the profile.

    Returns:
        The plan that places everything and moves the least compute, else the one that places the
        most compute and moves nothing.
    """
    wanted = Counter({name: count for name, count in demand.items() if count > 0})
    still = _fill(cards, wanted)
    if not still.missing:
        return LayoutPlan(_name_cards(cards, still))
    exact = still.is_exact
    work = still.work
    for card, moving in _iterate_moves(cards):
        if work > WORK_LIMIT:
            exact = False
            break
        emptied = [_without(one, moving) if one is card else one for one in cards]
        more = wanted + Counter(piece.slot.profile for piece in moving)
        found = _fill(emptied, more)
        exact = exact and found.is_exact
        work += found.work
        if not found.missing:
            return _describe_moves(cards, card, moving, found)
    return LayoutPlan(_name_cards(cards, still), missing=dict(still.missing), is_exact=exact)


def _iterate_moves(
    cards: Sequence[PartitionedCard],
) -> Iterator[tuple[PartitionedCard, tuple[RunningPartition, ...]]]:
    """Yield sets of movable partitions of one card, those with the least compute first."""
    found = list[tuple[int, int, int, tuple[RunningPartition, ...]]]()
    for position, card in enumerate(cards):
        milli = {profile.name: profile.gpu_milli for profile in card.profiles}
        movable = [piece for piece in card.running if piece.is_movable]
        for count in range(1, len(movable) + 1):
            for moving in combinations(movable, count):
                compute = sum(milli[piece.slot.profile] for piece in moving)
                found.append((compute, count, position, moving))
    for _, _, position, moving in sorted(found, key=lambda entry: entry[:3]):
        yield cards[position], moving


def _fill(cards: Sequence[PartitionedCard], wanted: Counter[str]) -> _FillResult:
    """Place as much of a demand as fits, nothing moved."""
    names = tuple(sorted(wanted))
    start = tuple(wanted[name] for name in names)
    # Cards that are in use already come first, so that empty ones stay whole.
    order = sorted(range(len(cards)), key=lambda at: (not cards[at].running, at))
    milli = _measure_compute(cards)
    paths: dict[tuple[int, ...], tuple[tuple[int, tuple[PartitionSlot, ...]], ...]] = {start: ()}
    is_exact = True
    work = 0
    for position in order:
        card = cards[position]
        taken = tuple(piece.slot for piece in card.running)
        following = dict(paths)
        for left, path in paths.items():
            wanted_here = tuple(min(count, MOST_PARTITIONS) for count in left)
            mixes = _list_largest_mixes(card.profiles, taken, names, wanted_here)
            work += 1 + len(mixes)
            for counts, slots in mixes:
                rest = tuple(have - used for have, used in zip(left, counts, strict=True))
                following.setdefault(rest, (*path, (position, slots)))
        if len(following) > STATE_LIMIT:
            is_exact = False
            best = sorted(following, key=lambda left: _sum_compute(names, left, milli))
            following = {left: following[left] for left in best[:STATE_LIMIT]}
        paths = following
        if (0,) * len(names) in paths:
            break
    least = min(paths, key=lambda left: (_sum_compute(names, left, milli), sum(left)))
    added = dict(paths[least])
    missing = Counter({name: count for name, count in zip(names, least, strict=True) if count})
    every = tuple(added.get(position, ()) for position in range(len(cards)))
    return _FillResult(every, missing, is_exact, work)


@lru_cache(maxsize=1 << 14)
def _list_largest_mixes(
    profiles: tuple[PartitionProfile, ...],
    taken: tuple[PartitionSlot, ...],
    names: tuple[str, ...],
    left: tuple[int, ...],
) -> tuple[tuple[tuple[int, ...], tuple[PartitionSlot, ...]], ...]:
    """Return the mixes of the demand that a card can add and that no larger one contains."""
    order = [profile for profile in profiles if profile.name in names]
    order.sort(key=lambda one: (one.size, one.gpu_milli, one.media), reverse=True)
    found = dict[tuple[int, ...], tuple[PartitionSlot, ...]]()

    def extend(at: int, counts: dict[str, int], added: tuple[PartitionSlot, ...]) -> None:
        if at == len(order):
            found[tuple(counts.get(name, 0) for name in names)] = added
            return
        name = order[at].name
        most = left[names.index(name)]
        chosen = added
        for count in range(most + 1):
            extend(at + 1, {**counts, name: count}, chosen)
            slot = _find_slot(profiles, tuple(sorted((*taken, *chosen))), name)
            if slot is None or count == most:
                break
            chosen = (*chosen, slot)

    extend(0, {}, ())
    largest = []
    for counts, added in found.items():
        if any(counts) and not any(_contains(other, counts) for other in found):
            largest.append((counts, tuple(sorted(added))))
    return tuple(largest)


@lru_cache(maxsize=1 << 14)
def _find_slot(
    profiles: tuple[PartitionProfile, ...], taken: tuple[PartitionSlot, ...], name: str
) -> PartitionSlot | None:
    return find_open_slot(profiles, taken, name)


def _contains(larger: tuple[int, ...], counts: tuple[int, ...]) -> bool:
    pairs = zip(larger, counts, strict=True)
    return larger != counts and all(more >= less for more, less in pairs)


def _measure_compute(cards: Sequence[PartitionedCard]) -> dict[str, int]:
    milli = {}
    for card in cards:
        for profile in card.profiles:
            milli[profile.name] = profile.gpu_milli
    return milli


def _sum_compute(names: tuple[str, ...], left: tuple[int, ...], milli: Mapping[str, int]) -> int:
    return sum(milli.get(name, 0) * count for name, count in zip(names, left, strict=True))


def _without(card: PartitionedCard, moving: Sequence[RunningPartition]) -> PartitionedCard:
    running = tuple(piece for piece in card.running if piece not in moving)
    return PartitionedCard(card.name, card.profiles, running)


def _name_cards(
    cards: Sequence[PartitionedCard], found: _FillResult
) -> dict[str, tuple[PartitionSlot, ...]]:
    pairs = zip(cards, found.added, strict=True)
    return {card.name: slots for card, slots in pairs if slots}


def _describe_moves(
    cards: Sequence[PartitionedCard],
    source: PartitionedCard,
    moving: Sequence[RunningPartition],
    found: _FillResult,
) -> LayoutPlan:
    """Give each moved job one of the new slots of its profile; a slot that it has it keeps."""
    left = {name: list(slots) for name, slots in _name_cards(cards, found).items()}
    moves = []
    pending = list[RunningPartition]()
    for piece in moving:
        if piece.slot in left.get(source.name, ()):
            left[source.name].remove(piece.slot)
        else:
            pending.append(piece)
    for piece in pending:
        card, slot = _pick_slot(left, piece.slot.profile, source.name)
        left[card].remove(slot)
        moves.append(PartitionMove(piece.job, source.name, piece.slot, card, slot))
    added = {name: tuple(slots) for name, slots in left.items() if slots}
    return LayoutPlan(added, tuple(moves), is_exact=found.is_exact)


def _pick_slot(
    left: Mapping[str, Sequence[PartitionSlot]], profile: str, source: str
) -> tuple[str, PartitionSlot]:
    """Return a new slot of a profile, on another card where one has it."""
    for card in sorted(left, key=lambda name: (name == source, name)):
        for slot in left[card]:
            if slot.profile == profile:
                return card, slot
    raise ValueError(f"the plan has no slot for {profile}")
