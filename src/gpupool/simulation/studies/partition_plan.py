"""Answers which partitions the cards of a pool get for a demand, from what the API says of them.

It reads cards and jobs as documents, asks the scheduler's planner, and returns a document. Needs no
server of its own and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpupool.base.errors import BadOption, UnknownProfile, WrongState
from gpupool.base.units import WHOLE
from gpupool.model.device import CardMode
from gpupool.model.partition import (
    PartitionProfile,
    PartitionSlot,
    format_mix,
    list_foreign_slots,
    read_profiles,
)
from gpupool.scheduling.rebalancing.partition_layout import (
    LayoutPlan,
    PartitionedCard,
    RunningPartition,
    plan_layout,
)
from gpupool.simulation.studies.mode_candidates import CandidateList, ModeCandidate

#: Partitions in one demand: far beyond any pool, it only stops a slip of the finger.
MOST_WANTED = 10_000
_NO_OTHERS = CandidateList()


def parse_demand(text: str) -> dict[str, int]:
    """Read `3x1g.18gb,2g.35gb` as a number for each name. Raises BadOption.

    >>> parse_demand("3x1g.18gb,2g.35gb,1g.18gb")
    {'1g.18gb': 4, '2g.35gb': 1}
    """
    demand = dict[str, int]()
    for part in text.split(","):
        head, by, tail = part.strip().lower().partition("x")
        count, name = (head, tail) if by and head.isdigit() else ("1", part.strip().lower())
        if not name or not 1 <= int(count) <= MOST_WANTED:
            raise BadOption(
                f"cannot read the demand {part.strip()!r}",
                hint="a number and a profile, separated by commas: 3x1g.18gb,1x3g.71gb",
            )
        demand[name] = demand.get(name, 0) + int(count)
    return demand


def read_cards(
    devices: Iterable[Mapping[str, Any]], jobs: Iterable[Mapping[str, Any]]
) -> tuple[PartitionedCard, ...]:
    """Return the cards in partition mode with the jobs in their partitions.

    A partition of which the job is unknown, or that may not be evicted, stays where it is.
    """
    owners = dict[tuple[str, int], Mapping[str, Any]]()
    for job in jobs:
        for seat in job["seats"]:
            if seat["start"] is not None:
                owners[seat["uuid"], seat["start"]] = job
    cards = []
    for device in devices:
        if device["partitions"] is None:
            continue
        running = []
        for piece in device["partitions"]:
            slot = PartitionSlot(piece["start"], piece["size"], piece["profile"])
            owner = owners.get((device["uuid"], slot.start))
            name = "" if owner is None else owner["name"]
            # A gang's members start together, so none is moved alone.
            movable = owner is not None and owner["preemptible"] and owner["gang"] is None
            running.append(RunningPartition(slot, name, movable))
        own = [one.slot for one in running]
        running += map(RunningPartition, list_foreign_slots(device["facts"], own))
        profiles = read_profiles(device["facts"].get("profiles", ()))
        cards.append(PartitionedCard(device["name"], profiles, tuple(running)))
    return tuple(cards)


def read_pending(jobs: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the partitions that waiting jobs ask for, by profile."""
    demand = dict[str, int]()
    for job in jobs:
        if job["profile"] is not None:
            demand[job["profile"]] = demand.get(job["profile"], 0) + int(job["count"])
    return demand


def plan_partitions(
    cards: Sequence[PartitionedCard],
    demand: Mapping[str, int],
    all_cards: int,
    others: CandidateList = _NO_OTHERS,
) -> dict[str, Any]:
    """Plan a demand and return the plan as a document.

    Cards are switched to partition mode only for what finds no slot on the others, and as few as
    possible.

    Args:
        cards: the cards in partition mode.
        demand: by profile name, full or short, as in claims.
        all_cards: number of cards of the pool, for refusals.
        others: cards that could be switched to partition mode, the best first.

    Raises:
        WrongState: no card is in partition mode, and none can be switched to it.
        UnknownProfile: no card has a profile of that name.
    """
    if not cards and not others.candidates:
        raise WrongState(
            f"of {all_cards} cards none is in partition mode, and none can be switched to it"
            + _format_rejected(others.rejected or {}),
            hint="gpupool mechanisms shows what each card can do",
        )
    wanted = dict[str, int]()
    for name, count in demand.items():
        full = _resolve_name(name, cards, [one.card for one in others.candidates])
        wanted[full] = wanted.get(full, 0) + count
    found, chosen = _plan_with_switches(cards, others.candidates, wanted)
    every = (*cards, *(one.card for one in chosen))
    rejected = dict(others.rejected or {}) if found.missing else {}
    return {
        "cards": [_describe_card(card, found) for card in every],
        "demand": wanted,
        "switches": [_describe_switch(one) for one in chosen],
        "moves": [
            {
                "job": move.job,
                "from": {"card": move.from_card, "start": move.from_slot.start},
                "to": {"card": move.card, "start": move.slot.start},
                "profile": move.slot.profile,
            }
            for move in found.moves
        ],
        "missing": dict(found.missing),
        "rejected": [{"card": name, "why": why} for name, why in rejected.items()],
        "exact": found.is_exact,
    }


def _plan_with_switches(
    cards: Sequence[PartitionedCard],
    candidates: Sequence[ModeCandidate],
    wanted: Mapping[str, int],
) -> tuple[LayoutPlan, list[ModeCandidate]]:
    """Plan on the cards in the mode; add others while something finds no slot.

    Returns:
        The plan, and the candidates that it uses.
    """
    found = plan_layout(cards, wanted)
    left = list(candidates)
    chosen = list[ModeCandidate]()
    while found.missing:
        useful = [one for one in left if _has_profile(one.card, found.missing)]
        if not useful:
            break
        # No card holds more than its whole compute, so fewer cards cannot do.
        milli = _sum_missing([*cards, *(one.card for one in candidates)], found.missing)
        count = max(1, -(-milli // WHOLE))
        chosen.extend(useful[:count])
        left = [one for one in left if one not in chosen]
        found = plan_layout([*cards, *(one.card for one in chosen)], wanted)
    targets = {move.card for move in found.moves}
    used = [one for one in chosen if one.card.name in found.added or one.card.name in targets]
    return found, used


def _has_profile(card: PartitionedCard, names: Mapping[str, int]) -> bool:
    return any(profile.name in names for profile in card.profiles)


def _sum_missing(cards: Iterable[PartitionedCard], missing: Mapping[str, int]) -> int:
    """Return the compute of the missing partitions, each by the smallest profile of its name."""
    milli = dict[str, int]()
    for card in cards:
        for profile in card.profiles:
            known = milli.get(profile.name, profile.gpu_milli)
            milli[profile.name] = min(known, profile.gpu_milli)
    return sum(milli.get(name, 0) * count for name, count in missing.items())


def _describe_switch(one: ModeCandidate) -> dict[str, Any]:
    return {
        "card": one.card.name,
        "uuid": one.uuid,
        "mode": str(CardMode.MIG),
        "expected": str(CardMode.PLAIN),
        "needs": one.needs,
        "seconds": one.seconds,
        "waits_for": list(one.waits_for),
        "forecast": one.is_forecast,
        "under_way": one.is_under_way,
    }


def _format_rejected(rejected: Mapping[str, str]) -> str:
    return "".join(f"; {name}: {why}" for name, why in list(rejected.items())[:3])


def _describe_card(card: PartitionedCard, found: LayoutPlan) -> dict[str, Any]:
    before = [piece.slot for piece in card.running]
    left = [move.from_slot for move in found.moves if move.from_card == card.name]
    came = [move.slot for move in found.moves if move.card == card.name]
    added = found.added.get(card.name, ())
    after = sorted([*(slot for slot in before if slot not in left), *came, *added])
    return {
        "card": card.name,
        "before": _write_slots(before),
        "after": _write_slots(after),
        "added": _write_slots(added),
        "mix_before": format_mix(before),
        "mix_after": format_mix(after),
    }


def _write_slots(slots: Iterable[PartitionSlot]) -> list[dict[str, Any]]:
    return [
        {"profile": slot.profile, "start": slot.start, "size": slot.size} for slot in sorted(slots)
    ]


def _resolve_name(
    name: str, cards: Sequence[PartitionedCard], others: Sequence[PartitionedCard]
) -> str:
    """Return the full name of a profile; cards in the mode are asked before others."""
    for some in (cards, others):
        full = _find_full_name(name, some)
        if full:
            return full
    known = dict.fromkeys(one.name for card in (*cards, *others) for one in card.profiles)
    raise UnknownProfile(
        f"no card in partition mode has a profile {name!r}"
        + (", and none that can be switched to it" if others else ""),
        hint=f"known: {', '.join(known)}",
    )


def _find_full_name(name: str, cards: Sequence[PartitionedCard]) -> str:
    """Return the full name, empty if unknown; `3g` is the plain one with the least memory."""
    known = dict[str, PartitionProfile]()
    for card in cards:
        for profile in card.profiles:
            known.setdefault(profile.name, profile)
    lower = name.lower()
    for full in known:
        if full.lower() == lower:
            return full
    plain = [
        one for one in known.values() if one.name.lower().startswith(f"{lower}.") and one.is_plain
    ]
    return min(plain, key=lambda one: one.memory_bytes).name if plain else ""
