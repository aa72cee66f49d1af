"""What every mechanism that hands hardware to virtual machines must keep, on recorded machines.

Calls that are killed on the way: tests/contract/test_kills.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gpupool.base.errors import RequestRejection, StaleGeneration, StillInUse
from gpupool.mechanisms.contract import AllocationView, HostKind, NotYet, PreparedAllocation
from gpupool.mechanisms.pci.handover import CardHandover
from tests.support import handover_machines
from tests.support.handover_builders import read_tree
from tests.support.pci_kernel import FakeKernel, InlineRunner


@dataclass
class Bench:
    """A mechanism on a machine of its own."""

    root: Path
    state_dir: Path
    kernel: FakeKernel
    mechanism: CardHandover
    view: AllocationView

    def prepare(self) -> PreparedAllocation:
        answer = self.mechanism.prepare(self.view, self.state_dir)
        assert isinstance(answer, PreparedAllocation)
        return answer

    def unprepare(self) -> None:
        self.mechanism.unprepare(self.view.allocation, self.view.generation, self.state_dir)

    def list_left(self) -> set[str]:
        return set(read_tree(self.state_dir))


@pytest.fixture(params=sorted(handover_machines.MACHINES))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    kernel, mechanism, view = handover_machines.MACHINES[request.param](tmp_path / "root")
    return Bench(tmp_path / "root", state_dir, kernel, mechanism, view)


def test_preparing_twice_is_preparing_once(bench: Bench) -> None:
    first = bench.prepare()
    hardware = read_tree(bench.root)
    files = read_tree(bench.state_dir)
    assert bench.prepare() == first
    assert read_tree(bench.root) == hardware
    assert read_tree(bench.state_dir) == files


def test_releasing_restores_the_hardware_byte_for_byte(bench: Bench) -> None:
    before = read_tree(bench.root)
    bench.prepare()
    assert read_tree(bench.root) != before
    for _ in range(2):
        bench.unprepare()
        assert read_tree(bench.root) == before
        assert bench.list_left() <= {"prepared"}
        assert bench.mechanism.observe(bench.state_dir) == {}


def test_a_foreign_change_is_observed_and_mended(bench: Bench) -> None:
    prepared = bench.prepare()
    hardware = read_tree(bench.root)
    handover_machines.spoil(bench.kernel, prepared)
    assert bench.mechanism.observe(bench.state_dir)["al-1"].problem != ""
    bench.prepare()
    assert bench.mechanism.observe(bench.state_dir)["al-1"].problem == ""
    assert read_tree(bench.root) == hardware


def test_a_changed_share_file_is_observed_and_mended(bench: Bench) -> None:
    share = bench.prepare().share_dir / "share.json"
    text = share.read_text()
    share.write_text("{}")
    assert bench.mechanism.observe(bench.state_dir)["al-1"].problem != ""
    bench.prepare()
    assert share.read_text() == text


@pytest.mark.parametrize("verb", ["prepare", "unprepare"])
def test_an_older_generation_is_refused_and_changes_nothing(bench: Bench, verb: str) -> None:
    bench.prepare()
    hardware = read_tree(bench.root)
    files = read_tree(bench.state_dir)
    bench.view = replace(bench.view, generation=4)
    with pytest.raises(StaleGeneration, match="generation 4"):
        getattr(bench, verb)()
    assert read_tree(bench.root) == hardware
    assert read_tree(bench.state_dir) == files


def test_a_younger_generation_keeps_the_hardware(bench: Bench) -> None:
    before = read_tree(bench.root)
    bench.prepare()
    hardware = read_tree(bench.root)
    bench.view = replace(bench.view, generation=6)
    bench.prepare()
    assert read_tree(bench.root) == hardware
    assert bench.mechanism.observe(bench.state_dir)["al-1"].generation == 6
    bench.unprepare()
    assert read_tree(bench.root) == before


def test_a_late_release_leaves_the_next_owner_alone(bench: Bench) -> None:
    first = bench.prepare()
    bench.unprepare()
    bench.view = replace(bench.view, allocation="al-2", generation=1)
    second = bench.prepare()
    assert [one.address for one in second.pci] == [one.address for one in first.pci]
    hardware = read_tree(bench.root)
    bench.mechanism.unprepare("al-1", 99, bench.state_dir)
    assert read_tree(bench.root) == hardware
    assert bench.mechanism.observe(bench.state_dir)["al-2"].problem == ""


def test_two_allocations_never_get_one_piece(bench: Bench) -> None:
    first = bench.prepare()
    other = replace(bench.view, allocation="al-2", generation=1)
    try:
        second = bench.mechanism.prepare(other, bench.state_dir)
    except RequestRejection:
        return
    assert isinstance(second, PreparedAllocation)
    assert not set(first.pci) & set(second.pci)
    assert not set(first.mediated_devices) & set(second.mediated_devices)


def test_a_damaged_note_is_undone_from_its_copy(bench: Bench) -> None:
    before = read_tree(bench.root)
    bench.prepare()
    note = bench.state_dir / "prepared/al-1/note.json"
    note.write_text("")
    assert bench.mechanism.observe(bench.state_dir)["al-1"].problem != ""
    bench.unprepare()
    assert read_tree(bench.root) == before
    assert bench.list_left() <= {"prepared"}


def test_a_damaged_note_is_prepared_again_without_losing_what_was_before(bench: Bench) -> None:
    before = read_tree(bench.root)
    bench.prepare()
    (bench.state_dir / "prepared/al-1/note.json").write_text("")
    bench.prepare()
    assert bench.mechanism.observe(bench.state_dir)["al-1"].problem == ""
    bench.unprepare()
    assert read_tree(bench.root) == before


def test_a_device_that_is_open_is_not_released(bench: Bench) -> None:
    before = read_tree(bench.root)
    prepared = bench.prepare()
    hardware = read_tree(bench.root)
    node = Path(prepared.allow_nodes[-1])
    process = bench.root / "proc/4711"
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text("qemu-system-x86\n")
    (process / "fd/9").symlink_to(node)
    with pytest.raises(StillInUse, match=r"qemu-system-x86 \(pid 4711\)"):
        bench.unprepare()
    handover_machines.remove_process(process)
    assert read_tree(bench.root) == hardware
    bench.unprepare()
    assert read_tree(bench.root) == before


def test_slow_steps_answer_until_they_have_ended(bench: Bench) -> None:
    before = read_tree(bench.root)
    bench.mechanism.runner = InlineRunner(bench.kernel, asks=1)
    answer = bench.mechanism.prepare(bench.view, bench.state_dir)
    assert isinstance(answer, NotYet)
    bench.prepare()
    bench.mechanism.runner = InlineRunner(bench.kernel, asks=1)
    with pytest.raises(StillInUse) as pending:
        bench.unprepare()
    assert pending.value.details["retry_after_seconds"] > 0
    bench.unprepare()
    assert read_tree(bench.root) == before


def test_processes_and_containers_are_refused(bench: Bench) -> None:
    for host in (HostKind.PROCESS, HostKind.CONTAINER):
        reason = bench.mechanism.explain_refusal(replace(bench.view, host=host))
        assert f"this allocation is a {host}" in reason


def test_every_answer_carries_the_same_levels(bench: Bench) -> None:
    prepared = bench.prepare()
    assert prepared.levels is not None
    assert prepared.fence is prepared.levels.weakest
    assert bench.mechanism.read_levels("al-1", bench.state_dir) == prepared.levels
    level, why = bench.mechanism.read_enforcement("al-1", bench.state_dir)
    assert level is prepared.fence
    assert why in prepared.notes


def test_a_resize_is_refused_and_the_same_size_is_kept(bench: Bench) -> None:
    bench.prepare()
    later = replace(bench.view, generation=6)
    bench.mechanism.resize(later, bench.state_dir)
    assert bench.mechanism.observe(bench.state_dir)["al-1"].generation == 6
    smaller = tuple(replace(one, memory_bytes=7 << 20) for one in later.granted)
    with pytest.raises(RequestRejection, match="cannot resize"):
        bench.mechanism.resize(replace(later, generation=7, granted=smaller), bench.state_dir)


def test_a_board_s_partition_is_active_as_long_as_its_cards_are_out(tmp_path: Path) -> None:
    kernel, mechanism, view = handover_machines.make_board(tmp_path / "root")
    active = kernel.root / "usr/bin/active"
    mechanism.prepare(view, tmp_path)
    assert active.read_text() == "1\n"
    mechanism.unprepare("al-1", 5, tmp_path)
    assert active.read_text() == "0\n"
