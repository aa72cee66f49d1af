"""GPU time of processes that ended between two looks: whose it is, and counted once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from gpupool.audit.card_processes import OnCards
from gpupool.audit.ended_processes import AWAITED_NS, ROOM_NS, EndedNs, EndedProcessTimes
from gpupool.audit.findings import AuditFinding, CardProcess
from gpupool.audit.granted_time import GrantedTimeCheck
from gpupool.audit.mapping_check import FencedJob
from gpupool.mechanisms.arbiter import ShareStatus
from gpupool.mechanisms.fenced_files import FencedFiles
from gpupool.mechanisms.regions import DeviceLimit, ShareLimits
from gpupool.probes.contract import EndedProcess

MS = 10**6
LOOK_NS = 400 * MS
CARD = "GPU-0"
LIMIT = DeviceLimit(CARD, 1, 1, gpu_milli=300)


def files(allocation: str, *, simulated: bool) -> FencedFiles:
    limits = ShareLimits(allocation, f"job-{allocation}", "t", "soft", (LIMIT,))
    return FencedFiles(Path("l"), Path("g"), Path("u"), (CARD,), limits, simulated=simulated)


class Node:
    """A card, its clock and its processes, as the test plays them; looked at as the reconciler
    does."""

    def __init__(self, *allocations: str, simulated: bool = True) -> None:
        self.now_ns = 100_000 * MS
        self.starts: dict[int, int] = {}
        """Of the processes that run, by pid."""
        self.shown: dict[str, dict[int, int]] = {}
        """What the card says of running processes, by allocation and pid."""
        self.told: dict[int, EndedProcess] = {}
        """What the card says of ended ones: of each pid the last."""
        self.work = EndedProcessTimes(self.ended, lambda: self.now_ns, self.starts.get)
        self.looked = [
            (FencedJob(f"job-{each}", each, 1), files(each, simulated=simulated))
            for each in allocations or ("al-1",)
        ]
        self.owns_ns = 0
        self.audit = GrantedTimeCheck(self.granted, lambda: self.now_ns)
        self.found: list[AuditFinding] = []

    def granted(self) -> tuple[int, tuple[ShareStatus, ...]]:
        return 1, tuple(ShareStatus(one.allocation, 0, self.owns_ns) for one, _ in self.looked)

    def ended(
        self, uuids: Collection[str], pids: Collection[int]
    ) -> Mapping[str, Sequence[EndedProcess]]:
        return {uuid: [one for pid, one in self.told.items() if pid in pids] for uuid in uuids}

    def begin(self, pid: int, allocation: str = "al-1", *, entered: bool = True) -> None:
        self.starts[pid] = self.now_ns
        if entered:
            self.work.note_slot(allocation, pid)

    def end(self, pid: int, gpu_ns: int, began_ns: int | None = None) -> None:
        start = self.starts.pop(pid)
        self.told[pid] = EndedProcess(pid, start if began_ns is None else began_ns, gpu_ns)
        for each in self.shown.values():
            each.pop(pid, None)

    def look(self, after_ns: int = LOOK_NS) -> EndedNs:
        self.now_ns += after_ns
        ended = self.work.query_ended(self.looked)
        seen: OnCards = {
            allocation: {CARD: [CardProcess((pid,), 0, gpu_ns) for pid, gpu_ns in each.items()]}
            for allocation, each in self.shown.items()
            if each
        }
        allowed = self.work.settle_ended(ended, seen)
        found = self.audit.find_overuse(self.looked, seen, allowed)
        self.found += [each for findings in found.values() for each in findings]
        self.work.keep_only({one.allocation for one, _ in self.looked})
        return allowed


def test_a_process_that_came_and_went_between_two_looks_is_its_allocations() -> None:
    node = Node()
    node.look()
    node.begin(7)
    node.end(7, 200 * MS)
    assert node.look() == {"al-1": {CARD: 200 * MS}}
    assert node.look() == {"al-1": {CARD: 0}}


def test_what_was_seen_of_a_process_while_it_ran_is_not_counted_again() -> None:
    node = Node()
    node.begin(7, entered=False)
    node.shown["al-1"] = {7: 150 * MS}
    assert node.look() == {}
    node.end(7, 200 * MS)
    assert node.look() == {"al-1": {CARD: 50 * MS}}


def test_a_figure_that_is_below_what_was_seen_takes_nothing_away() -> None:
    """A driver's percent of a whole life, beside samples of it."""
    node = Node()
    node.begin(7)
    node.shown["al-1"] = {7: 300 * MS}
    node.look()
    node.end(7, 250 * MS)
    assert node.look() == {"al-1": {CARD: 0}}


def test_a_process_of_nobodys_is_not_counted() -> None:
    node = Node()
    node.told[9] = EndedProcess(9, node.now_ns, 200 * MS)
    assert node.look() == {}


def test_a_pid_that_came_round_again_is_told_apart_by_its_start() -> None:
    node = Node("al-1", "al-2")
    node.begin(7)
    node.look()
    node.end(7, 100 * MS)
    node.look()
    node.look(after_ns=3000 * MS)
    node.begin(7, "al-2")
    node.end(7, 200 * MS)
    assert node.look() == {"al-2": {CARD: 200 * MS}}


@pytest.mark.parametrize("after_ms", [-60_000, 2_000], ids=["before", "after"])
def test_an_ended_process_that_is_not_the_one_that_was_known_is_nobodys(after_ms: int) -> None:
    """A card remembers an old process of that pid, or one came by it that is no job's."""
    node = Node()
    node.begin(7)
    began_ns = node.now_ns + after_ms * MS
    node.look()
    node.end(7, 200 * MS, began_ns=began_ns)
    assert node.look() == {}


def test_a_process_that_had_ended_before_the_arbiter_told_of_it_is_found_all_the_same() -> None:
    node = Node()
    node.told[7] = EndedProcess(7, node.now_ns - 200 * MS, 150 * MS)
    node.work.note_slot("al-1", 7)
    assert node.look() == {"al-1": {CARD: 150 * MS}}


def test_a_process_that_is_told_of_again_after_its_end_is_counted_once() -> None:
    node = Node()
    node.begin(7)
    node.look()
    node.end(7, 200 * MS)
    assert node.look() == {"al-1": {CARD: 200 * MS}}
    node.work.note_slot("al-1", 7)
    assert node.look() == {"al-1": {CARD: 0}}


def test_a_card_that_tells_late_is_awaited_and_then_forgotten() -> None:
    node = Node()
    node.begin(7)
    node.begin(8)
    for pid in (7, 8):
        node.end(pid, 200 * MS)
    late, never = node.told.pop(7), node.told.pop(8)
    node.look()
    node.told[7] = late
    assert node.look() == {"al-1": {CARD: 200 * MS}}
    node.look(after_ns=AWAITED_NS)
    node.told[8] = never
    assert (node.look(), node.work.list_awaited()) == ({}, frozenset())


def test_ended_processes_have_no_more_of_a_card_than_those_beside_them_left() -> None:
    """As of a driver that counts everybody's kernels to each process that ran meanwhile."""
    node = Node("al-1", "al-2")
    node.begin(1, "al-2")
    node.look()
    total = 0
    for look in range(100):
        node.shown["al-2"] = {1: look * LOOK_NS * 7 // 10}
        node.begin(10 + look)
        node.end(10 + look, LOOK_NS)
        total += node.look().get("al-1", {}).get(CARD, 0)
    assert total <= ROOM_NS + 100 * LOOK_NS * 3 // 10 + LOOK_NS


@pytest.mark.parametrize("simulated", [True, False], ids=["simulated", "real"])
def test_a_row_of_brief_processes_beyond_the_share_is_found(simulated: bool) -> None:
    node = Node(simulated=simulated)
    for pid in range(100, 200):
        node.begin(pid)
        node.end(pid, LOOK_NS * 9 // 10)
        node.look()
    assert {each.kind for each in node.found} == {"time"}
    assert {each.only_tell for each in node.found} == {not simulated}


@pytest.mark.parametrize(
    ("part", "owns_ms"), [(39, 40), (90, -100_000)], ids=["within", "known-debt"]
)
def test_a_row_of_honest_brief_processes_is_never_found(part: int, owns_ms: int) -> None:
    """Within the share and the slack, whatever the arbiter says; or beyond it, with a debt that the
    arbiter knows."""
    node = Node()
    node.owns_ns = owns_ms * MS
    for pid in range(100, 250 if owns_ms < 0 else 1000):
        node.begin(pid)
        node.end(pid, LOOK_NS * part // 100)
        node.look()
    assert node.found == []
