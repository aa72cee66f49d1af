"""What the fences of jobs say in the words of the wire. A region is its tenant's to write: a claim, kept within bounds.

Beside it stands what the card says of the same processes, where it says anything; the difference is told and
judged elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from gpupool.agent.usage import TreeUsage
from gpupool.mechanisms.fence import usage_of
from gpupool.mechanisms.regions import FenceDeviceUsage, FenceUsage, RegionDamaged
from gpupool.model.device import DeviceUsage
from gpupool.wire.common import BIG
from gpupool.wire.fleet import CardUse, JobSample, ProcessUse

_MS = 10**6

log = logging.getLogger(__name__)


def ledger_of(allocation: str, state_dir: Path) -> FenceUsage | None:
    """What an allocation's processes say; None without a fence, and where its region cannot be believed at all."""
    try:
        return usage_of(allocation, state_dir)
    except (FileNotFoundError, RegionDamaged) as problem:
        log.warning("allocation %s: %s", allocation, problem)
        return None


def used_bytes(ledger: FenceUsage) -> int:
    """Memory that the driver has given, over all cards."""
    return min(BIG, sum(one.committed_bytes for one in ledger.totals().values()))


def job_sample(
    job: str, tree: TreeUsage | None, usages: Mapping[str, DeviceUsage], ledger: FenceUsage | None
) -> JobSample:
    """What one job uses: its processes by the kernel, its cards by its fence and by what they say themselves."""
    on_cards = {uuid: _said(usage, tree) for uuid, usage in usages.items()} if tree else {}
    known = [size for size in on_cards.values() if size is not None]
    sample = JobSample(
        job=job,
        cpu_milliseconds=tree.cpu_milliseconds if tree else None,
        rss_bytes=tree.resident_bytes if tree else None,
        gpu_memory_bytes=sum(known) if known else None,
    )
    return sample if ledger is None else _fenced(sample, ledger, on_cards)


def _fenced(sample: JobSample, ledger: FenceUsage, on_cards: Mapping[str, int | None]) -> JobSample:
    totals = ledger.totals()
    memory = used_bytes(ledger) if sample.gpu_memory_bytes is None else sample.gpu_memory_bytes
    cards = [_card(uuid, one, on_cards.get(uuid)) for uuid, one in totals.items()]
    return sample.model_copy(
        update={
            "gpu_memory_bytes": memory,
            "gpu_milliseconds": sum(card.gpu_nanoseconds for card in cards) // _MS,
            "cards": cards,
            "processes": [
                ProcessUse(
                    pid=process.pid,
                    foreign_driver=process.foreign_driver,
                    cards=[_card(uuid, one, None) for uuid, one in process.devices.items()],
                )
                for process in ledger.processes
            ],
        }
    )


def _card(uuid: str, one: FenceDeviceUsage, on_card: int | None) -> CardUse:
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
        unaccounted_bytes=None if on_card is None else on_card - reserved,
    )


def _said(usage: DeviceUsage, tree: TreeUsage) -> int | None:
    """What a card says that a job's processes hold of it; None where it names none of them."""
    sizes = [process.memory_bytes for process in usage.processes or () if process.pid in tree.pids]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None
