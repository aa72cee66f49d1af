"""What fences say in the words of the wire: bounded, beside what the card says, unknown where
nobody does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.agent.monitoring.fence_counters import make_job_sample, sum_used_bytes
from gpupool.agent.monitoring.usage import TreeUsage
from gpupool.mechanisms.regions import (
    FenceDeviceUsage,
    FenceProcess,
    FenceUsage,
    PromiseSums,
)
from gpupool.model.device import DeviceProcess, DeviceUsage
from gpupool.wire.common import BIG
from gpupool.wire.fleet import ReportsIn

MIB = 1 << 20
TREE = TreeUsage(1500, 40 * MIB, frozenset({71, 72}))


def ledger(*processes: FenceProcess, departed: FenceDeviceUsage = FenceDeviceUsage()) -> FenceUsage:  # noqa: B008
    return FenceUsage(processes, {"GPU-a": 0}, {"GPU-a": departed}, 0)


def process(pid: int, **use: int) -> FenceProcess:
    return FenceProcess(pid, 1, False, {"GPU-a": FenceDeviceUsage(**use)})


def test_processes_and_those_that_have_ended_add_up() -> None:
    said = ledger(
        process(71, committed_bytes=3 * MIB, pending_bytes=MIB, gpu_ns=2_000_000, launches=4),
        process(72, committed_bytes=5 * MIB, wait_ns=7, throttled_ns=5, refusals=1),
        departed=FenceDeviceUsage(gpu_ns=8_000_000, launches=10),
    )
    sample = make_job_sample("j-1", TREE, {}, said)
    assert (sample.gpu_milliseconds, sample.gpu_memory_bytes, sample.cpu_milliseconds) == (
        10,
        8 * MIB,
        1500,
    )
    assert sample.cards is not None
    (card,) = sample.cards
    assert (card.used_bytes, card.reserved_bytes, card.launches) == (8 * MIB, 9 * MIB, 14)
    assert (card.wait_nanoseconds, card.throttled_nanoseconds, card.refusals) == (7, 5, 1)
    assert card.unaccounted_bytes is None
    assert [(one.pid, one.cards[0].used_bytes) for one in sample.processes] == [
        (71, 3 * MIB),
        (72, 5 * MIB),
    ]


def test_what_the_card_says_of_the_same_processes_stands_beside_the_ledger() -> None:
    on_card = DeviceUsage(
        processes=(
            DeviceProcess(71, memory_bytes=10 * MIB),
            DeviceProcess(999, memory_bytes=50 * MIB),
        )
    )
    sample = make_job_sample(
        "j-1", TREE, {"GPU-a": on_card}, ledger(process(71, committed_bytes=8 * MIB))
    )
    assert sample.cards is not None
    assert (sample.gpu_memory_bytes, sample.cards[0].unaccounted_bytes) == (10 * MIB, 2 * MIB)


def test_a_job_without_a_fence_has_no_ledger_and_no_zeros() -> None:
    sample = make_job_sample("j-1", TREE, {}, None)
    assert (sample.cards, sample.gpu_milliseconds, sample.gpu_memory_bytes) == (None, None, None)


def test_a_tenant_that_writes_nonsense_into_its_region_holds_up_nobodys_report() -> None:
    most = 2**64 - 1
    said = ledger(
        process(
            71,
            committed_bytes=most,
            pending_bytes=most,
            gpu_ns=most,
            launches=most,
            refusals=2**32 - 1,
        )
    )
    sample = make_job_sample("j-1", TREE, {}, said)
    assert ReportsIn.model_validate(ReportsIn(jobs=[sample]).model_dump()).jobs == [sample]
    assert sample.cards is not None
    assert sample.cards[0].gpu_nanoseconds == BIG


def test_the_sums_of_the_promise_are_of_all_cards_or_unknown() -> None:
    cards = {"GPU-a": FenceDeviceUsage(), "GPU-b": FenceDeviceUsage()}
    known = {"GPU-a": PromiseSums(3_000_000, 5_000_000), "GPU-b": PromiseSums(1_000_000, 0)}
    charged = dict.fromkeys(cards, 0)
    whole = make_job_sample("j-1", TREE, {}, FenceUsage((), charged, cards, 0, known))
    assert (whole.borrowed_milliseconds, whole.denied_milliseconds) == (4, 5)
    del known["GPU-b"]
    part = make_job_sample("j-1", TREE, {}, FenceUsage((), charged, cards, 0, known))
    assert (part.borrowed_milliseconds, part.denied_milliseconds) == (None, None)
    assert part.cards is not None
    assert [card.borrowed_nanoseconds for card in part.cards] == [3_000_000, None]


@pytest.mark.parametrize(
    ("driver_bytes", "on_card", "used"),
    [
        ({}, None, 8 * MIB),
        ({"GPU-a": 3 * MIB}, None, 8 * MIB),
        ({"GPU-a": 12 * MIB}, None, 12 * MIB),
        ({"GPU-a": 12 * MIB}, 10 * MIB, 12 * MIB),
        ({"GPU-a": 3 * MIB}, 10 * MIB, 10 * MIB),
    ],
)
def test_memory_is_the_most_that_fence_driver_and_card_count(
    driver_bytes: dict[str, int], on_card: int | None, used: int
) -> None:
    counted = replace(ledger(process(71, committed_bytes=8 * MIB)), driver_bytes=driver_bytes)
    seen = DeviceUsage(processes=(DeviceProcess(71, memory_bytes=on_card),))
    sample = make_job_sample("j-1", TREE, {"GPU-a": seen}, counted)
    assert sample.gpu_memory_bytes == used
    assert sum_used_bytes(counted) == max(8 * MIB, driver_bytes.get("GPU-a", 0))
