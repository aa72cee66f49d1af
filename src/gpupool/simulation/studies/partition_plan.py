"""Answers which partitions the cards of a pool get for a demand, from what the API says of them.

It reads cards and jobs as documents, asks the scheduler's planner, and returns a document. Needs no
server of its own and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpupool.base.errors import BadOption, UnknownProfile, WrongState
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

#: Partitions in one demand: far beyond any pool, it only stops a slip of the finger.
MOST_WANTED = 10_000


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
    cards: Sequence[PartitionedCard], demand: Mapping[str, int], all_cards: int
) -> dict[str, Any]:
    """Plan a demand and return the plan as a document.

    Args:
        cards: the cards in partition mode.
        demand: by profile name, full or short, as in claims.
        all_cards: number of cards of the pool, for refusals.

    Raises:
        WrongState: no card is in partition mode.
        UnknownProfile: no card has a profile of that name.
    """
    if not cards:
        raise WrongState(
            f"of {all_cards} cards none is in partition mode", hint="gpupool gpus lists the cards"
        )
    wanted = dict[str, int]()
    for name, count in demand.items():
        full = _resolve_name(name, cards)
        wanted[full] = wanted.get(full, 0) + count
    found = plan_layout(cards, wanted)
    return {
        "cards": [_describe_card(card, found) for card in cards],
        "demand": wanted,
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
        "exact": found.is_exact,
    }


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


def _resolve_name(name: str, cards: Sequence[PartitionedCard]) -> str:
    """Return the full name of a profile; `3g` is the plain one with the least memory."""
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
    if plain:
        return min(plain, key=lambda one: one.memory_bytes).name
    raise UnknownProfile(
        f"no card in partition mode has a profile {name!r}", hint=f"known: {', '.join(known)}"
    )
