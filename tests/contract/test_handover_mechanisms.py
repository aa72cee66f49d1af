"""What every mechanism that hands hardware to virtual machines must keep, on recorded machines.

Crashes are real: the call runs in a forked child that ends, without any clean-up, at its n-th change, for
every n there is: at each change of a file, and before and after each reaction of the kernel.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from gpupool.base.errors import RequestRejection, StaleGeneration, StillInUse
from gpupool.mechanisms.contract import AllocationView, HostKind, NotYet, PreparedAllocation
from gpupool.mechanisms.pci.handover import CardHandover
from tests.support import handover_machines
from tests.support.handover_builders import crash_at, read_tree
from tests.support.pci_kernel import FakeKernel, InlineRunner

#: How many changes lie between two crashes; the machines share most of the code that crashes.
STRIDES = {"passthrough": 1, "sriov-xe": 5, "vgpu-function": 5}
OTHER_STRIDE = 11


@dataclass
class Bench:
    """A mechanism on a machine of its own."""

    root: Path
    state_dir: Path
    kernel: FakeKernel
    mechanism: CardHandover
    view: AllocationView
    stride: int

    def prepare(self) -> PreparedAllocation:
        answer = self.mechanism.prepare(self.view, self.state_dir)
        assert isinstance(answer, PreparedAllocation)
        return answer

    def unprepare(self) -> None:
        self.mechanism.unprepare(self.view.allocation, self.view.generation, self.state_dir)

    def crash(self, point: int, call: Callable[[], object]) -> bool:
        return crash_at(point, self.kernel, self.state_dir, call)

    def list_left(self) -> set[str]:
        return set(read_tree(self.state_dir))


@pytest.fixture(params=sorted(handover_machines.MACHINES))
def make_bench(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Bench]:
    def make(name: str) -> Bench:
        base = tmp_path / name
        state_dir = base / "state"
        state_dir.mkdir(parents=True)
        kernel, mechanism, view = handover_machines.MACHINES[request.param](base / "root")
        stride = STRIDES.get(request.param, OTHER_STRIDE)
        return Bench(base / "root", state_dir, kernel, mechanism, view, stride)

    return make


@pytest.fixture
def bench(make_bench: Callable[[str], Bench]) -> Bench:
    return make_bench("bench")


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


def test_a_crash_of_preparing_at_any_change_is_undone(
    make_bench: Callable[[str], Bench],
) -> None:
    for point in count(step=make_bench("first").stride):
        bench = make_bench(str(point))
        before = read_tree(bench.root)
        crashed = bench.crash(point, bench.prepare)
        bench.unprepare()
        assert read_tree(bench.root) == before, f"after a crash at change {point}"
        assert bench.list_left() <= {"prepared"}
        if not crashed:
            break
    assert point >= 15, "the crashes did not reach into the call"


def test_preparing_again_after_a_crash_at_any_change_finishes(
    make_bench: Callable[[str], Bench],
) -> None:
    calm = make_bench("calm")
    calm.prepare()
    hardware = read_tree(calm.root)
    for point in count(step=make_bench("first").stride):
        bench = make_bench(str(point))
        crashed = bench.crash(point, bench.prepare)
        bench.prepare()
        assert read_tree(bench.root) == hardware, f"after a crash at change {point}"
        assert bench.mechanism.observe(bench.state_dir)["al-1"].problem == ""
        if not crashed:
            break


def test_a_crash_of_releasing_at_any_change_is_finished(
    make_bench: Callable[[str], Bench],
) -> None:
    for point in count(step=make_bench("first").stride):
        bench = make_bench(str(point))
        before = read_tree(bench.root)
        bench.prepare()
        crashed = bench.crash(point, bench.unprepare)
        bench.unprepare()
        assert read_tree(bench.root) == before, f"after a crash at change {point}"
        assert bench.list_left() <= {"prepared"}
        if not crashed:
            break
    assert point >= 8, "the crashes did not reach into the call"


def test_random_kills_leak_no_binding(bench: Bench) -> None:
    chance = random.Random(11)
    before = read_tree(bench.root)
    kills = 0
    leaks = 0

    def live() -> None:
        bench.prepare()
        bench.unprepare()

    for _ in range(12):
        kills += bench.crash(chance.randrange(60), live)
        bench.unprepare()
        leaks += read_tree(bench.root) != before
    print(f"{kills} kills, {leaks} leaks")
    assert kills >= 6
    assert leaks == 0


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
