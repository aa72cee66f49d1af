"""The share file's content is a contract with programs: this text changes only with its version."""

import json
from pathlib import Path

import pytest

from gpupool.base.errors import RequestRejection, StateNewer
from gpupool.mechanisms.contract import AllocationView, FenceLevel, GrantedDevice
from gpupool.mechanisms.notes import NoteBook
from gpupool.mechanisms.registry import MECHANISMS, choose_mechanism
from gpupool.mechanisms.share import CountedShare
from gpupool.mechanisms.whole import WholeCards
from gpupool.model.device import Device
from gpupool.probes.simulated import parse_sim

CARDS = parse_sim("4xL40S")[0].devices


def view(*granted: GrantedDevice, sharing: str = "fixed") -> AllocationView:
    return AllocationView(
        "pool-a", "al-7", 3, "job-9", "physics", sharing, granted, CARDS, fence=False
    )


def part(device: Device, gpu_milli: int, memory_mib: int) -> GrantedDevice:
    return GrantedDevice(device, gpu_milli, memory_mib << 20)


def test_the_share_file_says_who_has_what_and_that_nothing_fences_it(tmp_path: Path) -> None:
    prepared = CountedShare().prepare(view(part(CARDS[1], 300, 8192)), tmp_path)
    assert json.loads((prepared.share_dir / "share.json").read_text()) == {
        "version": 1,
        "pool": "pool-a",
        "job": "job-9",
        "allocation": "al-7",
        "generation": 3,
        "tenant": "physics",
        "sharing": "fixed",
        "fence": "none",
        "fence_why": "counted only: the job asked for no fence",
        "devices": [
            {
                "uuid": CARDS[1].uuid,
                "index": 1,
                "model": "L40S",
                "gpu_milli": 300,
                "memory_bytes": 8192 << 20,
                "simulated": True,
            }
        ],
    }
    assert prepared.fence is FenceLevel.NONE
    assert "fence: none" in prepared.notes


@pytest.mark.parametrize(
    ("granted", "sharing", "chosen"),
    [
        (part(CARDS[0], 1000, 46068), "fixed", "whole"),
        (part(CARDS[0], 1000, 46068), "best-effort", "share"),
        (part(CARDS[0], 1000, 8192), "fixed", "share"),
        (part(CARDS[0], 999, 46068), "fixed", "share"),
        (part(CARDS[0], 0, 1024), "best-effort", "share"),
    ],
)
def test_a_card_is_whole_only_with_all_of_its_compute_and_memory(
    granted: GrantedDevice, sharing: str, chosen: str
) -> None:
    assert choose_mechanism(view(granted, sharing=sharing)) is MECHANISMS[chosen]


@pytest.mark.parametrize(
    ("granted", "words"),
    [
        (part(CARDS[0], 300, 46069), "46069 MiB of a card that has 46068 MiB"),
        (part(CARDS[0], 300, 0), "0 MiB"),
        (part(CARDS[0], 1001, 1024), "1001 thousandths"),
        (part(CARDS[0], -1, 1024), "-1 thousandths"),
    ],
)
def test_a_share_that_the_card_cannot_hold_is_refused_with_the_numbers(
    granted: GrantedDevice, words: str, tmp_path: Path
) -> None:
    with pytest.raises(RequestRejection, match=words):
        CountedShare().prepare(view(granted), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_allocation_without_a_card_is_served_by_the_mechanism_for_none_alone() -> None:
    empty = view()
    assert choose_mechanism(empty) is MECHANISMS["no-card"]
    refusals = {name: one.explain_refusal(empty) for name, one in MECHANISMS.items()}
    assert [name for name, reason in refusals.items() if not reason] == ["no-card"]
    assert "it has card" in MECHANISMS["no-card"].explain_refusal(view(part(CARDS[0], 300, 1024)))


def test_a_part_of_a_card_is_not_handed_over_whole(tmp_path: Path) -> None:
    with pytest.raises(RequestRejection, match="granted in part"):
        WholeCards().prepare(view(part(CARDS[0], 500, 1024)), tmp_path)


def test_a_note_of_a_newer_gpupool_is_left_alone(tmp_path: Path) -> None:
    CountedShare().prepare(view(part(CARDS[1], 300, 8192)), tmp_path)
    path = NoteBook(tmp_path).locate_folder("al-7") / "note.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    with pytest.raises(StateNewer, match="version 2"):
        CountedShare().unprepare("al-7", 9, tmp_path)
    assert path.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version": 1}', '{"version": 1, "step": "prepared"}']
)
def test_a_damaged_note_is_unknown_and_undone_like_another(tmp_path: Path, text: str) -> None:
    CountedShare().prepare(view(part(CARDS[1], 300, 8192)), tmp_path)
    book = NoteBook(tmp_path)
    (book.locate_folder("al-7") / "note.json").write_text(text)
    assert CountedShare().observe(tmp_path) == {}
    assert CountedShare().read_enforcement("al-7", tmp_path)[0] is FenceLevel.NONE
    assert "GP-5037" in CountedShare().read_enforcement("al-7", tmp_path)[1]
    assert [(one.allocation, one.error.code) for one in book.list_damaged()] == [
        ("al-7", "GP-5037")
    ]
    CountedShare().unprepare("al-7", 3, tmp_path)
    assert not book.locate_folder("al-7").exists()


def test_preparing_again_writes_a_damaged_note_anew(tmp_path: Path) -> None:
    wanted = view(part(CARDS[1], 300, 8192))
    CountedShare().prepare(wanted, tmp_path)
    (NoteBook(tmp_path).locate_folder("al-7") / "note.json").write_text("")
    CountedShare().prepare(wanted, tmp_path)
    assert CountedShare().observe(tmp_path)["al-7"].generation == 3
