from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.scheduling.timeline.runtime_estimates import (
    FLOOR_SECONDS,
    LAST,
    RuntimeHistory,
    choose_planned_seconds,
    extend_end,
)
from tests.support.scheduling_builders import shape, whole


def history(*runs: tuple[str, int]) -> RuntimeHistory:
    known = RuntimeHistory()
    for name, seconds in runs:
        known = known.add_run("nlp", name, shape(), seconds)
    return known


def test_nothing_is_known_of_jobs_that_ran_less_than_three_times() -> None:
    assert history(("train", 100), ("train", 200)).estimate_seconds("nlp", "train", shape()) is None
    assert (
        history(("train", 100), ("train", 200), ("train", 300)).estimate_seconds(
            "nlp", "train", shape()
        )
        == 300
    )


def test_nine_of_ten_past_runs_did_not_exceed_the_estimate() -> None:
    known = history(*(("train", seconds) for seconds in range(100, 1100, 100)))
    assert known.estimate_seconds("nlp", "train", shape()) == 900


def test_the_same_name_goes_before_the_same_shape() -> None:
    known = history(*[("train", 1000)] * 3, *[("eval", 90)] * 3)
    assert known.estimate_seconds("nlp", "eval", shape()) == 90
    assert (
        known.estimate_seconds("nlp", "unheard-of", shape())
        == known.estimate_seconds("nlp", "", shape())
        == 1000
    )


def test_runs_of_other_tenants_and_other_shapes_say_nothing() -> None:
    known = history(*[("train", 1000)] * 3)
    assert known.estimate_seconds("vision", "train", shape()) is None
    assert known.estimate_seconds("nlp", "other", whole()) is None


def test_only_the_last_runs_count_so_that_a_job_that_changed_is_learnt_anew() -> None:
    known = history(*[("train", 10_000)] * LAST, *[("train", 100)] * LAST)
    assert known.estimate_seconds("nlp", "train", shape()) == 100


def test_an_estimate_is_never_below_its_floor() -> None:
    assert history(*[("train", 1)] * 3).estimate_seconds("nlp", "train", shape()) == FLOOR_SECONDS


def test_the_kinds_seen_last_are_kept_when_there_are_too_many() -> None:
    known = RuntimeHistory(kinds=2)
    for name in ("a", "b", "c"):
        for _ in range(3):
            known = known.add_run("nlp", name, shape(), 100)
    assert len(known.runs) == 2
    assert known.estimate_seconds("nlp", "c", shape()) == 100


def test_observing_leaves_the_history_it_was_given_as_it_was() -> None:
    before = history(("train", 100))
    before.add_run("nlp", "train", shape(), 200)
    assert before == history(("train", 100))


def test_a_limit_is_planned_with_before_what_was_learnt() -> None:
    assert (
        choose_planned_seconds(60, 999),
        choose_planned_seconds(None, 999),
        choose_planned_seconds(None, None),
    ) == (
        60,
        999,
        None,
    )


def test_a_job_that_outlives_its_estimate_is_expected_to_take_twice_as_long_again_and_again() -> (
    None
):
    ends = [
        extend_end(10 * SECOND, 100, now * SECOND) // SECOND
        for now in (10, 109, 110, 209, 210, 1000)
    ]
    assert ends == [110, 110, 210, 210, 410, 1610]
