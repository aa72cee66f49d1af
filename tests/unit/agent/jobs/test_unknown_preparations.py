"""What no allocation needs is undone at the agent's start, or later where it cannot be yet."""

from __future__ import annotations

import os
from pathlib import Path
from types import MappingProxyType

import pytest

from gpupool.agent.jobs import unknown_preparations
from gpupool.agent.jobs.unknown_preparations import UnknownPreparations
from gpupool.base.errors import StillInUse
from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat
from gpupool.mechanisms.notes import NoteBook
from gpupool.mechanisms.share import CountedShare
from gpupool.probes.simulated import parse_sim

CARDS = parse_sim("1xL40S")[0].devices


class BusyShare(CountedShare):
    """Refuses to undo anything while `busy`."""

    busy = True

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        if self.busy:
            raise StillInUse("process 812 has /dev/vfio/14 open")
        super().unprepare(allocation, generation, state_dir)


@pytest.fixture
def share(monkeypatch: pytest.MonkeyPatch) -> BusyShare:
    mechanism = BusyShare()
    known = MappingProxyType({mechanism.name: mechanism})
    monkeypatch.setattr(unknown_preparations, "MECHANISMS", known)
    return mechanism


def prepare(share: CountedShare, state_dir: Path, allocation: str) -> None:
    view = AllocationView(
        pool="pool",
        allocation=allocation,
        generation=1,
        job="job-1",
        tenant="team",
        sharing="fixed",
        granted=(GrantedDevice(CARDS[0], 300, 8 << 30),),
        node_devices=CARDS,
        seat=JobSeat(uid=os.getuid(), gid=os.getgid()),
        fence=False,
    )
    share.prepare(view, state_dir)


def test_what_is_in_use_stays_and_is_undone_later(share: BusyShare, tmp_path: Path) -> None:
    prepare(share, tmp_path, "al-1")
    prepare(share, tmp_path, "al-2")
    unknown = UnknownPreparations(tmp_path, lambda: ["al-2"])
    unknown.undo_all()
    assert unknown.has_rest
    assert set(share.observe(tmp_path)) == {"al-1", "al-2"}
    share.busy = False
    unknown.undo_all()
    assert not unknown.has_rest
    assert set(share.observe(tmp_path)) == {"al-2"}


def test_a_damaged_note_goes_unless_a_hand_over_can_still_be_undone(
    share: BusyShare, tmp_path: Path
) -> None:
    for allocation in ("al-1", "al-2"):
        prepare(share, tmp_path, allocation)
        (tmp_path / f"prepared/{allocation}/note.json").write_text("{")
    (tmp_path / "prepared/al-2/undo.json").write_text("{}")
    UnknownPreparations(tmp_path, list).undo_all()
    assert [one.allocation for one in NoteBook(tmp_path).list_damaged()] == ["al-2"]
