import numpy as np

from gpupool.scheduling.timeline.step_function import StepFunction


def steps(*events: tuple[int, int, int]) -> StepFunction:
    """(place, instant, amount), the second amount ten times the first."""
    found = StepFunction(2)
    for place, at, amount in events:
        found.add_steps(
            at, np.array([place]), np.array([amount]), np.array([10 * amount]), mark=int(amount < 0)
        )
    return found


def low(found: StepFunction, since: int, until: int) -> list[int]:
    first, second = found.get_low(since, until)
    assert second.tolist() == [10 * value for value in first.tolist()]
    return first.tolist()


def test_nothing_that_comes_or_goes_changes_nothing() -> None:
    assert low(StepFunction(2), 0, 100) == [0, 0]


def test_the_least_in_a_window_is_found_per_place_from_its_beginning_to_before_its_end() -> None:
    found = steps((0, 10, -3), (0, 20, 5), (1, 15, 2))
    assert low(found, 0, 10) == [0, 0]
    assert low(found, 0, 11) == [-3, 0]
    assert low(found, 10, 30) == [-3, 0]
    assert low(found, 20, 30) == [2, 2]


def test_what_comes_at_an_instant_is_there_for_what_goes_at_it() -> None:
    assert low(steps((0, 10, -4), (0, 10, 4)), 0, 20) == [0, 0]


def test_steps_that_are_left_out_by_their_mark_do_not_count() -> None:
    first, _ = steps((0, 10, -3), (1, 10, 2)).get_low(10, 20, lambda mark: mark == 0)
    assert first.tolist() == [0, 2]


def test_many_places_at_once_are_the_same_as_one_by_one() -> None:
    together, apart = StepFunction(2), steps((0, 5, 1), (1, 7, -2))
    together.add_steps(np.array([5, 7]), np.array([0, 1]), np.array([1, -2]), np.array([10, -20]))
    assert low(together, 0, 9) == low(apart, 0, 9) == [0, -2]
