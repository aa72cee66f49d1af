"""What a node's agent prepares: never more than a card has, and whatever became of the notes of
what it prepared."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import CardNotReady
from gpupool.base.units import GIB, WHOLE
from gpupool.kubernetes.node.container_limits import ContainerLimits
from gpupool.kubernetes.node.prepare import (
    SHOWN,
    EntryPreparer,
    allocation_of,
    sum_gpu_time,
)
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.mechanisms.arbiter import ArbiterProcess
from gpupool.mechanisms.contract import FenceLevel, JobSeat
from gpupool.mechanisms.notes import NoteBook
from gpupool.mechanisms.regions import FenceDeviceUsage, FenceUsage, PromiseSums
from gpupool.model.allocation import Seat
from gpupool.probes.simulated import SimulatedProbe, parse_sim

NAME = allocation_of("uid-1", "main")


@pytest.fixture
def preparing(tmp_path: Path) -> EntryPreparer:
    (machine,) = parse_sim("1xL40S", "n0")
    arbiter = ArbiterProcess(None, lambda: 0.5)
    return EntryPreparer(
        tmp_path, machine, SimulatedProbe(machine, tmp_path), arbiter, JobSeat(SHOWN)
    )


def test_what_a_share_of_a_card_enforces_is_described(tmp_path: Path) -> None:
    (machine,) = parse_sim("1xL40S", "n0")
    probe = SimulatedProbe(machine, tmp_path)
    arbiter = ArbiterProcess(None, lambda: 0.5)
    (card,) = machine.devices
    bare = EntryPreparer(tmp_path, machine, probe, arbiter, JobSeat(SHOWN))
    assert bare.describe_share(card) is None
    limits = ContainerLimits(tmp_path, tmp_path, tmp_path / "s")
    preparing = EntryPreparer(tmp_path, machine, probe, arbiter, JobSeat(SHOWN), limits=limits)
    found = preparing.describe_share(card)
    assert found is not None
    assert (found.fence, "R615 has" in found.absence) == (FenceLevel.SOFT, True)
    assert preparing.describe_share(replace(card, partitioned=True)) is None
    assert preparing.describe_share(replace(card, vendor="amd")) is None


@pytest.fixture
def entry() -> Entry:
    (machine,) = parse_sim("1xL40S", "n0")
    seat = Seat(machine.devices[0].uuid, 300, 8 * GIB)
    return Entry("uid-1", "team", "train", "main", (seat,), "team", generation=3)


@pytest.mark.parametrize("torn", ["", '{"version": 1, "mech'])
def test_a_torn_note_counts_as_prepared_until_it_is_undone(
    preparing: EntryPreparer,
    entry: Entry,
    tmp_path: Path,
    torn: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    preparing.prepare(entry)
    folder = NoteBook(tmp_path).locate_folder(NAME)
    (folder / "note.json").write_text(torn)
    assert preparing.prepared_generations() == {entry.key: 0}
    assert preparing.measure_gpu_time(*entry.key) is None
    preparing.resume_allocations()
    with caplog.at_level(logging.ERROR):
        preparing.unprepare(*entry.key)
    assert "GP-5037" in caplog.text
    assert preparing.prepared_generations() == {}
    assert not folder.exists()
    preparing.unprepare(*entry.key)


def test_a_share_with_a_torn_note_is_prepared_anew_for_its_container(
    preparing: EntryPreparer, entry: Entry, tmp_path: Path
) -> None:
    before = preparing.prepare(entry)
    (NoteBook(tmp_path).locate_folder(NAME) / "note.json").write_text("")
    assert preparing.prepare(entry) == before
    assert preparing.prepared_generations() == {entry.key: 3}


def test_a_note_that_cannot_be_flushed_prepares_nothing_and_the_next_try_does(
    preparing: EntryPreparer, entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fails)
        broken.setattr(os, "fdatasync", fails)
        with pytest.raises(OSError, match="Input/output error"):
            preparing.prepare(entry)
    assert not (NoteBook(tmp_path).locate_folder(NAME) / "share").exists()
    preparing.prepare(entry)
    assert preparing.prepared_generations() == {entry.key: 3}


@pytest.mark.parametrize(("milli", "size"), [(WHOLE, 8 * GIB), (300, 40 * GIB)])
def test_a_card_that_a_lost_entry_still_holds_is_not_prepared_for_another(
    preparing: EntryPreparer, entry: Entry, milli: int, size: int
) -> None:
    """The ledger was restored to an older copy while the first container ran, and gave its card out
    again."""
    preparing.prepare(entry)
    (seat,) = entry.seats
    other = replace(
        entry, uid="uid-2", pod="next", seats=(replace(seat, gpu_milli=milli, memory_bytes=size),)
    )
    with pytest.raises(CardNotReady, match=rf"card {seat.device} is still held by team/train/main"):
        preparing.prepare(other)
    assert preparing.prepared_generations() == {entry.key: 3}
    preparing.unprepare(*entry.key)
    preparing.prepare(other)
    assert preparing.prepared_generations() == {other.key: 3}


def test_shares_that_fit_on_a_card_are_prepared_side_by_side_and_again(
    preparing: EntryPreparer, entry: Entry
) -> None:
    other = replace(entry, uid="uid-2")
    for one in (entry, other, entry, replace(other, generation=4)):
        preparing.prepare(one)
    assert preparing.prepared_generations() == {entry.key: 3, other.key: 4}


def test_promise_is_known_only_where_each_card_was_divided() -> None:
    """Part of a sum would look like all of it in a report."""
    millisecond = 10**6
    spent = {uuid: FenceDeviceUsage(gpu_ns=5 * millisecond) for uuid in ("GPU-0", "GPU-1")}
    usage = FenceUsage((), dict.fromkeys(spent, 0), spent)
    first = PromiseSums(2 * millisecond, 7 * millisecond)
    second = PromiseSums(1 * millisecond, 0)
    one = replace(usage, promises={"GPU-0": first})
    both = replace(usage, promises={"GPU-0": first, "GPU-1": second})
    assert sum_gpu_time(one) == GpuTime(10)
    assert sum_gpu_time(both) == GpuTime(10, 3, 7)
    assert sum_gpu_time(FenceUsage()) is None
