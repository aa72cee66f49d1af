"""Jobs in answers: a row of the ledger with its claim and its latest seats."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.allocations.store.tables import jobs
from gpupool.allocations.views.job import JOB, describe_jobs, read_job, read_job_by_id
from gpupool.base.units import GIB
from gpupool.wire.jobs import JobOut
from tests.support.house import House


def explain(job: str) -> str:
    return f"{job} waits"


def read(house: House, name: str) -> JobOut:
    with house.store.read() as connection:
        key = connection.execute(sa.select(jobs.c.id).where(jobs.c.name == name)).scalar_one()
        found = read_job(connection, key, explain)
        assert read_job_by_id(connection, found.id, explain) == found
    return found


def test_a_job_that_waits_again_shows_no_seats_of_its_last_run(house: House) -> None:
    house.submit(name="a")
    assert (read(house, "a").device, read(house, "a").reason) == ("node-1:0", "")
    house.report(house.work()[0], "not_started", reason="no supervisor")
    again = read(house, "a")
    assert (again.state, again.node, again.seats, again.why) == ("pending", None, [], "")
    assert again.reason == "no supervisor", "its own reason goes before the last plan's"


def test_a_job_that_waits_says_why_by_its_last_plan(house: House) -> None:
    house.submit(1000, None, name="holder", count=2)
    house.submit(name="waits")
    assert read(house, "waits").reason == f"{read(house, 'waits').id} waits"


def test_the_attach_socket_is_shown_while_the_job_lives(house: House) -> None:
    house.submit(name="a")
    (item,) = house.work()
    house.report(item, "prepared", attach_socket="/run/a.sock", fence="hard")
    assert (read(house, "a").attach_socket, read(house, "a").fence) == ("/run/a.sock", "hard")
    house.report(item, "ended", exit_code=0)
    ended = read(house, "a")
    assert (ended.attach_socket, ended.device) == (None, "node-1:0"), "where it ran stays known"


def test_the_size_of_a_running_share_is_that_of_its_seats(house: House) -> None:
    house.submit(500, None, name="half")
    house.submit(500, 8, name="soft", sharing="best-effort")
    half, soft = read(house, "half"), read(house, "soft")
    assert (half.gpu_milli, half.memory_bytes) == (500, 70 * GIB)
    assert (soft.gpu_milli, soft.seats[0].gpu_milli) == (500, 0), "it holds no compute"


def test_rows_are_described_in_their_order(house: House) -> None:
    for name in ("a", "b", "c"):
        house.submit(name=name)
    with house.store.read() as connection:
        rows = connection.execute(JOB.order_by(jobs.c.id.desc())).all()
        assert [job.name for job in describe_jobs(connection, rows, explain)] == ["c", "b", "a"]
        assert describe_jobs(connection, [], explain) == []
