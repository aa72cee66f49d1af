from dataclasses import replace

from gpupool.base.units import GIB, WHOLE
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import Shape
from gpupool.scheduling.timeline.job_end_times import UNKNOWN_END, JobEndTimes, StepKind
from gpupool.scheduling.timeline.step_function import AT, PLACE
from tests.support.scheduling_builders import MODELS, cards
from tests.support.time_builders import running

POOL = cards("1x4xT4")


def ends(*jobs: tuple[str, int, int | None]) -> JobEndTimes:
    """(name, card, seconds until it ends)."""
    return JobEndTimes(
        POOL, [running(name, POOL, f"node-1/{row}", ends=at, started=5) for name, row, at in jobs]
    )


def test_seats_stand_in_the_order_in_which_they_are_given_back_those_of_unknown_end_last() -> None:
    found = ends(("a", 0, 30), ("b", 1, None), ("c", 2, 10)).list_steps(0)[0]
    assert found[AT].tolist() == [10 * SECOND, 30 * SECOND, UNKNOWN_END + 5 * SECOND]
    assert found[:, 0].tolist() == [10 * SECOND, 2, WHOLE, MODELS["T4"], StepKind.END]


def test_what_comes_is_put_in_its_place_and_what_goes_is_taken_out() -> None:
    found = ends(("a", 0, 30), ("c", 2, 10))
    assert found.list_steps(0)[0][PLACE].tolist() == [2, 0]
    found.remove_job("a")
    found.add_job(running("d", POOL, "node-1/3", "node-1/1", ends=5))
    found.add_job(running("e", POOL, "node-1/0", ends=20))
    found.remove_job("e")
    assert found.list_steps(0)[0][PLACE].tolist() == [3, 1, 2]


def test_a_job_that_should_have_ended_stands_where_it_is_expected_now_and_comes_back_to_its_place_never() -> (
    None
):
    found = ends(("late", 0, 100), ("soon", 1, 500), ("later", 2, 900))
    assert found.list_steps(400 * SECOND)[0][AT].tolist() == [
        500 * SECOND,
        700 * SECOND,
        900 * SECOND,
    ]
    assert found.list_steps(50 * SECOND)[0][AT].tolist() == [
        100 * SECOND,
        500 * SECOND,
        900 * SECOND,
    ]


def test_a_job_without_a_card_and_a_node_gives_nothing_back() -> None:
    job = running("a", POOL, ends=10)
    assert JobEndTimes(POOL, [job]).list_steps(0)[0].shape == (5, 0)


def test_a_job_without_a_card_gives_back_what_it_has_of_its_node() -> None:
    pool = cards("2x2xT4", hosts=(8000, 64 * GIB))
    job = replace(running("a", pool, ends=10), node=1)
    job = replace(job, shape=Shape(0, None, 0, cpu_milli=500, host_bytes=GIB))
    beside = running("b", pool, "node-1/1", ends=20)
    on_cards, on_nodes = JobEndTimes(pool, [beside, job]).list_steps(0)
    assert on_cards[PLACE].tolist() == [1]
    assert on_nodes[:4, 0].tolist() == [10 * SECOND, 1, 500, GIB]


def test_processors_and_main_memory_come_back_on_the_node_where_they_are_known() -> None:
    pool = cards("2x2xT4", hosts=(8000, 64 * GIB))
    job = running("a", pool, "node-2/0", "node-2/1", ends=10)
    job = replace(job, shape=replace(job.shape, cpu_milli=500, host_bytes=GIB))
    assert JobEndTimes(pool, [job]).list_steps(0)[1][:, 0].tolist() == [
        10 * SECOND,
        1,
        500,
        GIB,
        StepKind.END,
    ]
    assert JobEndTimes(POOL, [job]).list_steps(0)[1].shape == (5, 0)


def test_jobs_of_a_reservation_carry_the_mark_of_its_owner() -> None:
    job = running("a", POOL, "node-1/0", ends=10, reservation="demo")
    found = JobEndTimes(POOL, [job])
    assert found.list_steps(0)[0][-1].tolist() == [found.owners.get_mark("nlp/demo", StepKind.END)]
    assert found.owners.find_number("nlp/demo") == 1
    assert found.owners.find_number("nlp/other") == found.owners.find_number("") == -1
