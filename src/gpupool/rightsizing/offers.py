"""Finds what an advice fits: partitions of a card, and models with enough memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpupool.model.partition import PartitionProfile


@dataclass(frozen=True)
class CardOffer:
    """A model of the pool, and what its cards can be cut into."""

    model: str
    memory_bytes: int
    profiles: tuple[PartitionProfile, ...] = ()


@dataclass(frozen=True)
class PartitionChoice:
    """The smallest partition that holds a share, and how many of them a card has."""

    profile: str
    per_card: int
    gpu_milli: int
    memory_bytes: int


def choose_partition(offer: CardOffer, gpu_milli: int, memory_bytes: int) -> PartitionChoice | None:
    """Choose the smallest plain partition with so much of both; None: none has it."""
    fitting = list[PartitionProfile]()
    for profile in offer.profiles:
        enough = profile.gpu_milli >= gpu_milli and profile.memory_bytes >= memory_bytes
        if enough and profile.is_plain:
            fitting.append(profile)
    if not fitting:
        return None
    least = min(fitting, key=lambda one: (one.size, one.gpu_milli, one.memory_bytes, one.name))
    return PartitionChoice(least.name, least.max_count, least.gpu_milli, least.memory_bytes)


def list_models(offers: Sequence[CardOffer], memory_bytes: int) -> list[str]:
    """List the models whose cards have so much memory, the smallest first.

    Speed is not compared: what a share of one model does in an hour is not known for another.
    """
    fitting = [offer for offer in offers if offer.memory_bytes >= memory_bytes]
    return [offer.model for offer in sorted(fitting, key=lambda one: (one.memory_bytes, one.model))]


def find_offer(offers: Sequence[CardOffer], model: str) -> CardOffer | None:
    """Find the offer of a model."""
    return next((offer for offer in offers if offer.model == model), None)
