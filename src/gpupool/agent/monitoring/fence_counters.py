"""Translates the usage counters of fences and cards into the samples that an agent sends.

The tenant can write the memory region of its fence, so its counters are a claim and are kept within
bounds. Where the card itself reports the same processes, both numbers are sent; `audit` judges the
difference.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpupool.agent.monitoring.usage import TreeUsage
from gpupool.base.units import NANOS_PER_MILLISECOND
from gpupool.mechanisms.fenced_files import read_allocation_usage
from gpupool.mechanisms.regions import DamagedRegion, FenceDeviceUsage, FenceUsage, PromiseSums
from gpupool.mechanisms.registry import MEMORY_LIMITS
from gpupool.model.device import DeviceUsage
from gpupool.wire.common import BIG
from gpupool.wire.samples import CardUse, JobSample, ProcessUse

log = logging.getLogger(__name__)


def read_fence_usage(allocation: str, state_dir: Path) -> FenceUsage | None:
    """Read the usage counters of an allocation.

    Returns:
        None where the allocation has no fence, or its memory region is damaged.
    """
    try:
        usage = read_allocation_usage(allocation, state_dir)
    except (FileNotFoundError, DamagedRegion) as problem:
        log.warning("allocation %s: %s", allocation, problem)
        return None
    if usage is None:
        return None
    return replace(usage, driver_bytes=MEMORY_LIMITS.read_used(allocation, state_dir))


def sum_used_bytes(ledger: FenceUsage) -> int:
    """Sum the bytes of card memory that the driver granted, over all cards.

    A driver that limits memory by cgroup counts what avoids the fence; the fence counts managed
    memory too.
    """
    used = 0
    for uuid, one in ledger.sum_totals().items():
        used += max(one.committed_bytes, ledger.driver_bytes.get(uuid, 0))
    return min(BIG, used)


def make_job_sample(
    job: str, tree: TreeUsage | None, usages: Mapping[str, DeviceUsage], ledger: FenceUsage | None
) -> JobSample:
    """Make the sample of one job.

    Args:
        job: The job's id.
        tree: The use of its processes as the kernel counts it; None for a job that has ended.
        usages: The use of each card as the card counts it, by uuid.
        ledger: The counters of the job's fence; None without a fence.
    """
    on_cards: dict[str, int | None] = {}
    if tree:
        for uuid, usage in usages.items():
            on_cards[uuid] = _sum_card_memory(usage, tree)
    known = [size for size in on_cards.values() if size is not None]
    sample = JobSample(
        job=job,
        cpu_milliseconds=tree.cpu_milliseconds if tree else None,
        rss_bytes=tree.resident_bytes if tree else None,
        gpu_memory_bytes=sum(known) if known else None,
    )
    return sample if ledger is None else _add_fence_counters(sample, ledger, on_cards)


def _add_fence_counters(
    sample: JobSample, ledger: FenceUsage, on_cards: Mapping[str, int | None]
) -> JobSample:
    totals = ledger.sum_totals()
    memory = sum_used_bytes(ledger) if sample.gpu_memory_bytes is None else sample.gpu_memory_bytes
    memory = max(memory, min(BIG, sum(ledger.driver_bytes.values())))
    cards = []
    for uuid, one in totals.items():
        cards.append(_make_card_use(uuid, one, on_cards.get(uuid), ledger.promises.get(uuid)))
    processes = []
    for process in ledger.processes:
        uses = [_make_card_use(uuid, one, None) for uuid, one in process.devices.items()]
        processes.append(
            ProcessUse(pid=process.pid, foreign_driver=process.foreign_driver, cards=uses)
        )
    return sample.model_copy(
        update={
            "gpu_memory_bytes": memory,
            "gpu_milliseconds": sum(card.gpu_nanoseconds for card in cards)
            // NANOS_PER_MILLISECOND,
            "borrowed_milliseconds": _sum_milliseconds(cards, "borrowed_nanoseconds"),
            "denied_milliseconds": _sum_milliseconds(cards, "denied_nanoseconds"),
            "cards": cards,
            "processes": processes,
        }
    )


def _sum_milliseconds(cards: Sequence[CardUse], name: str) -> int | None:
    """Sum one figure over all cards; None if one of them does not know it."""
    known = [value for card in cards if (value := getattr(card, name)) is not None]
    return sum(known) // NANOS_PER_MILLISECOND if len(known) == len(cards) else None


def _make_card_use(
    uuid: str, one: FenceDeviceUsage, on_card: int | None, promise: PromiseSums | None = None
) -> CardUse:
    reserved = min(BIG, one.reserved_bytes)
    return CardUse(
        uuid=uuid,
        used_bytes=min(BIG, one.committed_bytes),
        reserved_bytes=reserved,
        gpu_nanoseconds=min(BIG, one.gpu_ns),
        wait_nanoseconds=min(BIG, one.wait_ns),
        throttled_nanoseconds=min(BIG, one.throttled_ns),
        launches=min(BIG, one.launches),
        refusals=min(BIG, one.refusals),
        borrowed_nanoseconds=None if promise is None else min(BIG, promise.borrowed_ns),
        denied_nanoseconds=None if promise is None else min(BIG, promise.denied_ns),
        unaccounted_bytes=None if on_card is None else on_card - reserved,
    )


def _sum_card_memory(usage: DeviceUsage, tree: TreeUsage) -> int | None:
    """Sum the memory of a job's processes as the card reports it; None where it names none."""
    sizes = [process.memory_bytes for process in usage.processes or () if process.pid in tree.pids]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None
