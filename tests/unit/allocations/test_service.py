"""Jobs from submission to the last report, on the real store."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.simulation.traces.eventlog import read_events
from tests.support.house import House
from tests.support.ledger_sums import held, used


def test_a_job_is_placed_runs_ends_and_gives_everything_back(house: House) -> None:
    job = house.submit(name="train")
    assert (job.state, job.device, job.share) == (
        "starting",
        "node-1:0",
        "0.30 GPU (30 % compute) + 8192 MiB",
    )
    assert used(house)[0] == (300, 8 * GIB, 1)
    assert held(house) == (300, 8 * GIB)
    (item,) = house.work()
    assert (item.want, item.argv, item.env) == ("run", ["true"], {"SECRET": "x"})
    house.report(item, "running", started_ns=5)
    assert house.job("train").state == "running"
    house.report(item, "ended", exit_code=0, started_ns=5, cpu_milliseconds=12)
    ended = house.job("train")
    assert (ended.state, ended.exit_code, ended.cpu_milliseconds) == ("done", 0, 12)
    assert used(house) == [(0, 0, 0)] * 2
    assert held(house) == (0, 0)
    assert house.work() == []


def test_a_restarted_server_finds_its_queue_and_places_it(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    house.submit(1000, None, name="later")
    again = type(house.allocations)(house.store, house.tenancy, house.fleet, house.metering)
    again.placer.load()
    assert again.cache.count_waiting() == 1
    house.allocations = again
    house.finish("whole-0")
    again.placer.run_cycle()
    assert house.job("later").state == "starting"


def test_the_books_count_what_was_held(house: House) -> None:
    house.submit(name="a")
    house.finish("a")
    kinds = [event.kind for event in house.allocations.events.read_events(house.admin, 0, 1000)]
    assert [kind for kind in kinds if kind.startswith("job.")] == [
        "job.submitted",
        "job.placed",
        "job.ended",
    ]
    seqs = [event.seq for event in house.allocations.events.read_events(house.admin, 0, 1000)]
    assert seqs == list(range(1, len(seqs) + 1))


def test_the_event_log_holds_what_a_replay_needs(house: House) -> None:
    house.submit(300, 8, name="a")
    house.finish("a")
    house.submit(1000, None, name="b")
    house.finish("b")
    log = "\n".join(
        event.model_dump_json()
        for event in house.allocations.events.read_events(house.admin, 0, 1000)
    )
    trace = read_events("log", log)
    assert [(one.job, one.shape) for one in trace.arrivals] == [
        ("a", Shape(300, 8 * GIB)),
        ("b", Shape(1000)),
    ]
    assert sum(len(node.cards) for node in trace.nodes) == 2
