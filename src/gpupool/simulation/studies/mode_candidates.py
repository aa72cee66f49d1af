"""Reads which cards could be switched to MIG mode, and which jobs such a switch waits for.

A card that is not in MIG mode has no partitions yet, so its profiles are a forecast: those that its
driver reports without the mode, else those that the board is known for. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpupool.model.device import CardMode
from gpupool.model.partition import PartitionProfile, read_profiles
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.scheduling.rebalancing.partition_layout import PartitionedCard


@dataclass(frozen=True)
class ModeCandidate:
    """A card that could be switched to MIG mode.

    Attributes:
        card: the card as it would be: with its profiles and without partitions.
        waits_for: names of the jobs that the switch waits for.
        endless: those of them that have no time limit.
        needs: what the switch needs, a word of `ModeNeed`.
        is_forecast: the profiles are the board's, and its driver did not report them.
        is_under_way: the card is being switched already.
        is_near: its node has cards in MIG mode already.
    """

    card: PartitionedCard
    uuid: str
    waits_for: tuple[str, ...] = ()
    endless: tuple[str, ...] = ()
    needs: str = "nothing"
    seconds: float | None = None
    is_forecast: bool = True
    is_under_way: bool = False
    is_near: bool = False


@dataclass(frozen=True)
class CandidateList:
    """Cards that could be switched, the best first, and why others with MIG cannot.

    Attributes:
        rejected: by name of the card, the reason for people.
    """

    candidates: tuple[ModeCandidate, ...] = ()
    rejected: Mapping[str, str] | None = None


def read_candidates(
    devices: Sequence[Mapping[str, Any]],
    jobs: Iterable[Mapping[str, Any]],
    *,
    with_endless: bool = False,
) -> CandidateList:
    """Read which cards could be switched to MIG mode.

    Cards on their way to it come first, then those with the fewest jobs, then those of nodes that
    have such cards already, so that other nodes stay whole.

    Args:
        devices: the cards as the API has them.
        jobs: the jobs that run on them.
        with_endless: also take cards with jobs that have no time limit.
    """
    holders = _list_holders(jobs)
    partitioned = {one.get("node") for one in devices if one["partitions"] is not None}
    found = []
    rejected = {}
    for device in devices:
        offer = find_mig_offer(device)
        if offer is None or device["partitions"] is not None or device.get("cluster"):
            continue
        near = device.get("node") in partitioned
        candidate = _describe_candidate(device, offer, holders, is_near=near)
        problem = _find_problem(device, offer)
        if not problem and candidate.endless and not with_endless:
            problem = f"{format_endless(candidate.endless)} (--with-endless waits for it)"
        if problem:
            rejected[device["name"]] = problem
        else:
            found.append(candidate)
    found.sort(key=lambda one: (not one.is_under_way, len(one.waits_for), not one.is_near))
    return CandidateList(tuple(found), rejected)


def find_mig_offer(device: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what a card's agent publishes about a switch to MIG mode; None if it never has it."""
    for offer in device["facts"].get("modes", ()):
        if offer.get("mode") == CardMode.MIG:
            found: Mapping[str, Any] = offer
            return found
    return None


def list_offered_profiles(
    device: Mapping[str, Any], offer: Mapping[str, Any] | None
) -> tuple[PartitionProfile, ...]:
    """Return the profiles of a card in MIG mode, or those that it is expected to have there."""
    facts = device["facts"]
    published = facts.get("profiles") or (offer or {}).get("profiles")
    return read_profiles(published) if published else list_mig_profiles(device.get("model", ""))


def format_endless(names: Sequence[str]) -> str:
    """Return why a card with jobs that have no time limit is not switched."""
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    noun = (
        "1 job without a time limit runs"
        if len(names) == 1
        else (f"{len(names)} jobs without a time limit run")
    )
    return f"{noun} on it: {shown}"


def _describe_candidate(
    device: Mapping[str, Any],
    offer: Mapping[str, Any],
    holders: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    is_near: bool,
) -> ModeCandidate:
    jobs = holders.get(device["uuid"], ())
    switch = device.get("switch")
    return ModeCandidate(
        PartitionedCard(device["name"], list_offered_profiles(device, offer)),
        device["uuid"],
        tuple(job["name"] for job in jobs),
        tuple(job["name"] for job in jobs if job.get("max_seconds") is None),
        str(offer.get("needs", "nothing")),
        offer.get("seconds"),
        is_forecast=not offer.get("profiles"),
        is_under_way=switch is not None and switch["wanted"] == CardMode.MIG,
        is_near=is_near,
    )


def _find_problem(device: Mapping[str, Any], offer: Mapping[str, Any]) -> str:
    """Return why a card cannot be switched now, for people; empty if it can."""
    mode = device.get("mode", str(CardMode.PLAIN))
    switch = device.get("switch")
    if mode != CardMode.PLAIN:
        return f"it is in mode {mode}"
    if switch is not None:
        if switch["wanted"] != CardMode.MIG:
            return f"it is being switched to mode {switch['wanted']}"
        return ""
    if device.get("state", "adopted") != "adopted":
        return f"it is not handed out ({device['state']}); gpupool adopt {device['name']}"
    if device.get("health") == "failed":
        return "its health is failed"
    return str(offer.get("blocked_by", ""))


def _list_holders(
    jobs: Iterable[Mapping[str, Any]],
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the jobs of each card, by its uuid."""
    holders = dict[str, list[Mapping[str, Any]]]()
    for job in jobs:
        for uuid in dict.fromkeys(seat["uuid"] for seat in job["seats"]):
            holders.setdefault(uuid, []).append(job)
    return holders
