"""Work in stretches of time: nothing is lost, nothing counts twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpupool.burn.series import WorkSeries, WorkStretch, measure_union

MS = 10**6


def all_of(series: WorkSeries, until_ns: int) -> list[WorkStretch]:
    return list(series.pop_finished(until_ns))


def test_a_batch_over_a_border_counts_on_both_sides_of_it() -> None:
    series = WorkSeries(0, 10 * MS)
    series.add_batch(8 * MS, 12 * MS, 4 * MS, 4)
    first, second = all_of(series, 20 * MS)
    assert (first.work_ns, first.busy_ns, first.launches) == (2 * MS, 2 * MS, 0)
    assert (second.work_ns, second.busy_ns, second.launches) == (2 * MS, 2 * MS, 4)


def test_streams_side_by_side_are_busy_once() -> None:
    series = WorkSeries(0, 10 * MS)
    series.add_batch(0, 8 * MS, 4 * MS, 1)
    series.add_batch(2 * MS, 10 * MS, 4 * MS, 1)
    (one,) = all_of(series, 10 * MS)
    assert (one.work_ns, one.busy_ns, one.rate) == (8 * MS, 10 * MS, 0.8)


def test_a_stretch_without_work_is_told_too_and_each_once() -> None:
    series = WorkSeries(100, 10)
    series.add_batch(120, 130, 10, 1)
    assert [(s.begin_ns, s.work_ns) for s in all_of(series, 125)] == [(100, 0.0), (110, 0.0)]
    assert [(s.begin_ns, s.work_ns) for s in all_of(series, 149)] == [(120, 10.0), (130, 0.0)]


def test_what_comes_too_late_for_its_stretch_is_counted_in_the_next() -> None:
    series = WorkSeries(0, 10)
    assert len(all_of(series, 20)) == 2
    series.add_batch(5, 8, 3, 1)
    assert all_of(series, 30)[0].work_ns == 3


def test_the_end_of_the_work_is_told_though_its_stretch_is_not_over() -> None:
    series = WorkSeries(0, 10 * MS)
    series.add_batch(0, 14 * MS, 14 * MS, 7)
    assert [s.work_ns for s in all_of(series, 14 * MS)] == [10 * MS]
    (last,) = series.pop_rest(14 * MS)
    assert (last.begin_ns, last.end_ns, last.work_ns, last.launches) == (
        10 * MS,
        14 * MS,
        4 * MS,
        7,
    )
    assert list(series.pop_rest(15 * MS)) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(1, 10**5), st.integers(0, 10**5)), max_size=40
    ),
    st.integers(1000, 10**5),
)
def test_the_stretches_add_up_to_the_batches(
    batches: list[tuple[int, int, int]], interval: int
) -> None:
    series = WorkSeries(0, interval)
    for begin, length, work in batches:
        series.add_batch(begin, begin + length, work, 1)
    told = all_of(series, 2 * 10**6)
    assert abs(sum(s.work_ns for s in told) - sum(work for _, _, work in batches)) < 1e-3 * (
        1 + len(batches)
    )
    assert sum(s.launches for s in told) == len(batches)
    assert sum(s.busy_ns for s in told) == measure_union(
        (begin, begin + length) for begin, length, _ in batches
    )
    assert all(0 <= s.busy_ns <= interval for s in told)
