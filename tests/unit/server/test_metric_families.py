"""Metric families: unknown values are absent, zero is a value, buckets add up."""

from __future__ import annotations

from gpupool.server.metric_families import make_counter, make_gauges, make_histogram
from gpupool.store.counters import LabelCounter, SecondsHistogram


def test_a_gauge_without_a_value_is_absent_and_zero_is_told() -> None:
    gauges = {"watts": ("Power.", lambda thing: thing)}
    (family,) = make_gauges("card", ["card"], gauges, [(["a"], 0.0), (["b"], None), (["c"], 7.0)])
    assert family.name == "gpupool_card_watts"
    assert [(one.labels["card"], one.value) for one in family.samples] == [("a", 0.0), ("c", 7.0)]


def test_a_counter_without_labels_begins_at_zero_and_one_with_labels_is_absent() -> None:
    (sample,) = make_counter("gpupool_x", "X.", (), LabelCounter()).samples
    assert sample.value == 0
    assert make_counter("gpupool_x", "X.", ("reason",), LabelCounter()).samples == []


def test_buckets_of_a_histogram_are_cumulative_to_infinity() -> None:
    histogram = SecondsHistogram((0.1, 1.0))
    for seconds in (0.05, 0.5, 0.5, 99.0):
        histogram.observe(seconds)
    family = make_histogram("gpupool_x_seconds", "X.", (), histogram)
    found = {one.labels.get("le", one.name): one.value for one in family.samples}
    assert (found["0.1"], found["1.0"], found["+Inf"]) == (1, 3, 4)
    assert found["gpupool_x_seconds_sum"] == 100.05
