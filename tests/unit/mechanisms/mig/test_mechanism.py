"""What a job gets of a partition, when it is made again, and what is refused with the numbers."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import RequestRejection, ServiceUnavailable
from gpupool.mechanisms.contract import HostKind, JobSeat, NotYet, PreparedAllocation
from gpupool.mechanisms.mig.mechanism import MigMechanism
from gpupool.mechanisms.slow_step import await_slow_step
from tests.support.kill_points import KILLED
from tests.support.mig_cards import CARDS, MigHost, rename_allocation

DEADLINE_SECONDS = 60


def test_a_job_sees_its_partition_and_the_nodes_of_no_other(
    host: MigHost, mechanism: MigMechanism, tmp_path: Path
) -> None:
    prepared = mechanism.prepare(host.make_view("1g.18gb", start=6), tmp_path)
    assert isinstance(prepared, PreparedAllocation)
    uuid = "MIG-00000000-0007-5000-8000-000000000000"
    assert prepared.env["CUDA_VISIBLE_DEVICES"] == uuid
    assert prepared.env["NVIDIA_VISIBLE_DEVICES"] == uuid
    assert prepared.allow_nodes == (
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-caps/nvidia-cap17",  # gpu0/gi7/access in the driver's table
        "/dev/nvidia-caps/nvidia-cap18",
    )
    closed = set(prepared.deny_nodes)
    assert {"/dev/nvidia1", "/dev/dri/renderD128", "/dev/nvidia-caps/nvidia-cap1"} <= closed
    others = {f"/dev/nvidia-caps/nvidia-cap{3 + 2 * number}" for number in range(15)}
    assert others - closed == {"/dev/nvidia-caps/nvidia-cap17"}
    assert (host.card.instances[0].start, host.card.instances[0].size) == (6, 1)


def test_a_partition_is_made_again_after_a_boot_and_after_a_reset(
    host: MigHost, mechanism: MigMechanism, tmp_path: Path
) -> None:
    view = host.make_view("3g.71gb")
    first = mechanism.prepare(view, tmp_path)
    for lose in (host.reset, host.reboot):
        host.card.resetless = 0  # its mode survives the boot
        lose()
        assert mechanism.observe(tmp_path)["al-1"].problem == (
            f"its partition is gone: 3g.71gb of {CARDS[0]}"
        )
        assert mechanism.prepare(view, tmp_path) == first
        assert mechanism.observe(tmp_path)["al-1"].problem == ""
    mechanism.unprepare("al-1", 5, tmp_path)
    assert host.list_numbers() == []


def test_a_slot_is_chosen_from_the_high_end_where_none_is_named(
    host: MigHost, mechanism: MigMechanism, tmp_path: Path
) -> None:
    starts = []
    for number in range(7):
        view = rename_allocation(host.make_view("1g.18gb"), f"al-{number}")
        mechanism.prepare(view, tmp_path)
        starts.append(host.card.instances[number].start)
    assert starts[0] == 6
    assert sorted(starts) == list(range(7))
    with pytest.raises(RequestRejection, match=r"has no open slot for 1g\.18gb: 7 x 1g\.18gb"):
        mechanism.prepare(rename_allocation(host.make_view("1g.18gb"), "al-8"), tmp_path)


def test_a_slot_is_refused_while_another_allocation_claims_it(
    host: MigHost, mechanism: MigMechanism, tmp_path: Path
) -> None:
    mechanism.prepare(host.make_view("2g.35gb", start=4), tmp_path)
    host.reset()  # the instance is gone, the claim stays until the release
    late = rename_allocation(host.make_view("1g.18gb", start=5), "al-2")
    with pytest.raises(RequestRejection, match=r"still claimed by 2g\.35gb at unit 4"):
        mechanism.prepare(late, tmp_path)
    mechanism.unprepare("al-1", 5, tmp_path)
    assert isinstance(mechanism.prepare(late, tmp_path), PreparedAllocation)


def test_the_slow_step_runs_in_a_process_of_its_own(host: MigHost, tmp_path: Path) -> None:
    before = host.snapshot()
    mechanism = MigMechanism(host.driver, host.files)
    view = host.make_view("1g.18gb")
    answer = mechanism.prepare(view, tmp_path)
    assert answer == NotYet("the driver creates its partition", 0.5)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while isinstance(answer, NotYet) and time.monotonic() < deadline:
        await_slow_step(tmp_path / "prepared/al-1", "create")
        answer = mechanism.prepare(view, tmp_path)
    assert isinstance(answer, PreparedAllocation)
    assert host.list_numbers() == [7]
    mechanism.unprepare("al-1", 5, tmp_path)
    assert host.snapshot() == before
    assert not (tmp_path / "prepared/al-1").exists()


def test_a_slow_step_that_was_killed_is_tried_again_and_nothing_is_made_twice(
    host: MigHost, tmp_path: Path
) -> None:
    before = host.snapshot()
    mechanism = MigMechanism(host.driver, host.files)
    view = host.make_view("1g.18gb")
    host.state.die_at = 2  # right after the GPU instance was created
    answers = list[object]()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        try:
            answers.append(mechanism.prepare(view, tmp_path))
        except ServiceUnavailable as error:
            answers.append(error)
        if isinstance(answers[-1], PreparedAllocation):
            break
        await_slow_step(tmp_path / "prepared/al-1", "create")
    assert isinstance(answers[-1], PreparedAllocation)
    failures = [one for one in answers if isinstance(one, ServiceUnavailable)]
    assert [str(KILLED) in one.message for one in failures] == [True]
    assert host.list_numbers() == [7]
    mechanism.unprepare("al-1", 5, tmp_path)
    assert host.snapshot() == before


def test_releasing_before_the_slow_step_came_to_it_creates_nothing_later(
    host: MigHost, tmp_path: Path
) -> None:
    before = host.snapshot()
    mechanism = MigMechanism(host.driver, host.files, host.run_later)
    assert isinstance(mechanism.prepare(host.make_view("1g.18gb"), tmp_path), NotYet)
    mechanism.unprepare("al-1", 5, tmp_path)
    late = host.run_step(tmp_path / "prepared/al-1", "create", (), "")
    assert late.exit_code == 0
    assert host.snapshot() == before


def test_a_refusal_of_the_driver_is_an_error_to_try_again_and_leaves_nothing(
    host: MigHost, mechanism: MigMechanism, tmp_path: Path
) -> None:
    view = host.make_view("1g.18gb")
    host.card.current = 0
    before = host.snapshot()
    with pytest.raises(ServiceUnavailable, match="refuses to create a partition"):
        mechanism.prepare(view, tmp_path)
    mechanism.unprepare("al-1", 5, tmp_path)
    assert host.snapshot() == before


def test_what_cannot_be_served_is_refused_with_what_can(
    host: MigHost, mechanism: MigMechanism
) -> None:
    def explain(view: object) -> str:
        return mechanism.explain_refusal(view)  # type: ignore[arg-type]

    assert explain(host.make_view("9g.999gb")).endswith(
        "its driver reports: 1g.18gb, 1g.18gb+me, 1g.35gb, 2g.35gb, 3g.71gb, 4g.71gb, 7g.141gb"
    )
    assert "cannot begin at unit 1" in explain(host.make_view("2g.35gb", start=1))
    assert "only at 0, 2, 4" in explain(host.make_view("2g.35gb", start=1))
    view = host.make_view("1g.18gb")
    assert explain(view) == ""
    assert "no VM" in explain(replace(view, host=HostKind.VM))
    assert "only root" in explain(replace(view, seat=JobSeat(own_pool=True)))
    host.card.current = 0
    assert "is not in MIG mode" in explain(host.make_view("1g.18gb"))
    host.card.has_mig = 0
    assert "(H200) has no MIG" in explain(host.make_view("1g.18gb"))


def test_profiles_are_published_in_mig_mode_alone(host: MigHost, mechanism: MigMechanism) -> None:
    device = host.make_device()
    assert mechanism.list_profiles(device) == device.profiles
    assert mechanism.list_profiles(replace(device, simulated=True)) == ()
    assert mechanism.list_profiles(replace(device, partitioned=False)) == ()


def test_without_a_driver_nothing_is_observed(tmp_path: Path) -> None:
    assert "pynvml" in sys.modules
    assert MigMechanism().observe(tmp_path) == {}
