"""Samples of a driver, summed to the time that each process had."""

from gpupool.probes.process_times import LONGEST_SAMPLE_US, SampledTimes, UseSample

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US


def test_samples_of_two_processes_sum_to_the_time_of_each() -> None:
    times = SampledTimes(last_us=START_US)
    for step in range(1, 11):
        at = START_US + step * SECOND_US // 5
        told = times.add_samples([UseSample(7, at, 30), UseSample(8, at, 60)], {7, 8, 9})
    assert told == {7: 600_000_000, 8: 1_200_000_000, 9: 0}


def test_a_sample_stands_for_a_second_at_most() -> None:
    times = SampledTimes()
    assert times.add_samples([UseSample(7, START_US, 100)], {7}) == {7: LONGEST_SAMPLE_US * 1000}
    assert times.add_samples([UseSample(7, START_US + 90 * SECOND_US, 50)], {7}) == {
        7: 1_500_000_000
    }


def test_an_ended_process_is_forgotten_and_its_number_starts_at_zero() -> None:
    times = SampledTimes(last_us=START_US)
    times.add_samples([UseSample(7, START_US + SECOND_US, 100)], {7})
    assert times.add_samples([], set()) == {}
    assert times.add_samples([], {7}) == {7: 0}


def test_a_sample_that_is_told_twice_counts_once() -> None:
    times, sample = SampledTimes(last_us=START_US), UseSample(7, START_US + SECOND_US, 100)
    times.add_samples([sample], {7})
    assert times.add_samples([sample], {7}) == {7: 1_000_000_000}
