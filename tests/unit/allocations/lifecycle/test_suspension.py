"""Suspended jobs in the ledger: their seats are empty, and a resume takes them again or is refused."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.lifecycle.suspension_checks import check_kind
from gpupool.allocations.store.tables import jobs, seats
from gpupool.base.errors import NoPermission, NoRoomNow, RequestRejection, WrongState
from gpupool.base.units import GIB
from gpupool.metering.tables import intervals
from gpupool.model.tenant import Principal, UserRole
from gpupool.store.tables import events
from gpupool.wire.jobs import JobOut
from tests.support.house import House
from tests.support.ledger_sums import held, used
from tests.support.resizing import resize, rows, running, work_of


def suspend(house: House, name: str, who: Principal | None = None) -> JobOut:
    return house.allocations.suspensions.suspend_job(name, who or house.admin)


def resume(house: House, name: str) -> JobOut:
    return house.allocations.suspensions.resume_job(name, house.admin)


def suspended(house: House, name: str, **options: Any) -> JobOut:
    running(house, name, **options)
    suspend(house, name)
    house.report(work_of(house, name), "suspended", gpu_memory_bytes=5 * GIB)
    return house.job(name)


def state_of(house: House, name: str) -> str | None:
    suspension = house.job(name).suspension
    return None if suspension is None else suspension.state


def kinds(house: House) -> list[str]:
    query = sa.select(events.c.kind).where(events.c.kind.like("job.%")).order_by(events.c.seq)
    with house.store.read() as connection:
        return list(connection.execute(query).scalars())


def test_the_seats_stay_until_the_node_says_that_the_memory_is_off_the_card(house: House) -> None:
    running(house, "train")
    assert suspend(house, "train").suspension is not None
    item = work_of(house, "train")
    assert (item.want, state_of(house, "train")) == ("suspend", "suspending")
    assert used(house)[0] == (300, 8 * GIB, 1)
    house.report(item, "suspended", gpu_memory_bytes=5 * GIB)
    assert used(house)[0] == (0, 0, 1)
    assert held(house) == (0, 0)
    job = house.job("train")
    assert (job.state, job.share) == ("running", "0.30 GPU (30 % compute) + 8192 MiB")
    assert job.suspension is not None
    assert (job.suspension.state, job.suspension.host_bytes) == ("suspended", 5 * GIB)


def test_other_claims_get_what_a_suspended_job_had(house: House) -> None:
    suspended(house, "train", gpu_milli=1000, memory_gib=None)
    cards = len(used(house))
    for number in range(cards):
        running(house, f"other-{number}", gpu_milli=1000, memory_gib=None)
    assert [card[0] for card in used(house)] == [1000] * cards


def test_a_resume_takes_the_same_size_and_asks_the_node(house: House) -> None:
    suspended(house, "train")
    resume(house, "train")
    item = work_of(house, "train")
    assert (item.want, state_of(house, "train")) == ("resume", "resuming")
    assert used(house)[0] == (300, 8 * GIB, 1)
    house.report(item, "resumed")
    assert house.job("train").suspension is None
    assert work_of(house, "train").want == "run"
    assert kinds(house)[-2:] == ["job.suspended", "job.resumed"]


def test_a_resume_without_room_is_refused_with_the_numbers(house: House) -> None:
    suspended(house, "train", gpu_milli=800, memory_gib=8)
    card = house.job("train").seats[0].device
    # Fill every card, so that one of the jobs is on the card of the suspended one.
    for number in range(len(used(house))):
        running(house, f"other-{number}", gpu_milli=600)
    with pytest.raises(NoRoomNow) as refused:
        resume(house, "train")
    assert "0.40 GPU free where 0.80 more would be needed" in str(refused.value.message)
    assert card in str(refused.value.message)
    assert state_of(house, "train") == "suspended"
    house.finish("other-0")
    for number in range(1, len(used(house))):
        house.finish(f"other-{number}")
    resume(house, "train")
    assert state_of(house, "train") == "resuming"


def test_a_suspend_that_failed_keeps_the_seats_and_the_reason(house: House) -> None:
    running(house, "train")
    suspend(house, "train")
    house.report(work_of(house, "train"), "resumed", reason="process 7 has work that does not end")
    job = house.job("train")
    assert job.suspension is not None
    assert (job.suspension.state, job.suspension.note) == (
        "failed",
        "process 7 has work that does not end",
    )
    assert used(house)[0] == (300, 8 * GIB, 1)
    assert work_of(house, "train").want == "run"
    assert kinds(house)[-1] == "job.suspend_failed"
    # The next try forgets the reason of the last one.
    suspend(house, "train")
    house.report(work_of(house, "train"), "suspended", gpu_memory_bytes=1)
    assert house.job("train").suspension.note is None  # type: ignore[union-attr]


def test_a_resume_that_failed_on_the_node_empties_the_seats_again(house: House) -> None:
    suspended(house, "train")
    resume(house, "train")
    item = work_of(house, "train")
    house.report(item, "suspended", gpu_memory_bytes=5 * GIB, reason="a card has too little left")
    assert state_of(house, "train") == "suspended"
    assert used(house)[0] == (0, 0, 1)
    assert kinds(house)[-1] == "job.resume_failed"
    resume(house, "train")
    house.report(work_of(house, "train"), "resumed")
    assert used(house)[0] == (300, 8 * GIB, 1)


def test_repeated_wishes_and_late_reports_change_nothing(house: House) -> None:
    running(house, "train")
    suspend(house, "train")
    item = work_of(house, "train")
    suspend(house, "train")
    assert work_of(house, "train").generation == item.generation
    for _ in range(2):
        house.report(item, "suspended", gpu_memory_bytes=5 * GIB)
    again = work_of(house, "train")
    assert again.want == "suspend"
    house.report(again, "suspended", gpu_memory_bytes=5 * GIB)
    resume(house, "train")
    resume(house, "train")
    # A report of the suspend that arrives now is no failed resume.
    house.report(again, "suspended", gpu_memory_bytes=5 * GIB)
    assert state_of(house, "train") == "resuming"
    assert kinds(house).count("job.suspended") == 1


def test_nothing_is_metered_while_a_job_is_suspended(house: House) -> None:
    suspended(house, "train")
    (seat,) = rows(house, seats)
    assert (seat.gpu_milli, seat.memory_bytes) == (0, 0)
    open_intervals = [row for row in rows(house, intervals) if row.end_s is None]
    assert [(row.gpu_milli, row.memory_mib) for row in open_intervals] == [(0, 0)]


def test_a_suspended_job_that_ends_leaves_the_ledger_empty(house: House) -> None:
    suspended(house, "train")
    house.finish("train")
    assert used(house)[0] == (0, 0, 0)
    assert held(house) == (0, 0)
    assert house.job("train").suspension is None


def test_what_is_not_running_or_not_to_be_moved_is_refused(house: House) -> None:
    house.submit(name="waits")
    with pytest.raises(WrongState):
        suspend(house, "waits")
    suspended(house, "train")
    with pytest.raises(WrongState, match="only a job on its cards can be resized"):
        resize(house, "train", 500)
    resume(house, "train")
    with pytest.raises(WrongState, match="is being resumed"):
        suspend(house, "train")


def test_a_member_of_a_gang_is_refused(house: House) -> None:
    running(house, "ring")
    with house.store.write() as write:
        job = write.execute(sa.select(jobs.c.name, sa.literal(1).label("gang_id"))).one()
    with pytest.raises(RequestRejection, match="member of a gang"):
        check_kind(job, ())


def test_a_colleagues_job_is_not_to_be_suspended(house: House) -> None:
    running(house, "train")
    colleague = house.member("colleague", "default", UserRole.USER)
    with pytest.raises(NoPermission):
        suspend(house, "train", colleague)


def test_explain_says_what_a_suspended_job_needs_to_go_on(house: House) -> None:
    suspended(house, "train")
    told = house.allocations.jobs.explain_job("train", house.admin)
    assert told.sentence.startswith("is suspended since 0:0")
    assert "with 5120 MiB in main memory and holds no card" in told.sentence
    assert "to go on it needs 0.30 GPU (30 % compute) + 8192 MiB on node-1:0" in told.sentence


def test_a_suspended_job_is_no_victim(house: House) -> None:
    """Its end would free nothing, and it would lose what it has in main memory."""
    running(house, "train", preemptible=True)

    def is_preemptible() -> bool:
        (job,) = house.allocations.cache.build_snapshot().running
        return job.preemptible

    assert is_preemptible()
    suspend(house, "train")
    house.report(work_of(house, "train"), "suspended", gpu_memory_bytes=1)
    assert not is_preemptible()
    resume(house, "train")
    assert is_preemptible()


def test_a_job_whose_node_has_not_applied_a_resize_is_not_suspended(house: House) -> None:
    running(house, "train")
    resize(house, "train", 500)
    with pytest.raises(WrongState, match="has not applied its last resize"):
        suspend(house, "train")
    house.report(work_of(house, "train"), "resized")
    suspend(house, "train")
    house.report(work_of(house, "train"), "suspended", gpu_memory_bytes=1)
    assert house.job("train").share == "0.50 GPU (50 % compute) + 8192 MiB"
    resume(house, "train")
    house.report(work_of(house, "train"), "resumed")
    assert used(house)[0] == (500, 8 * GIB, 1)
    resize(house, "train", 300)
    assert work_of(house, "train").want == "resize"
