"""Metric families of the Prometheus client, made of values and of the process's counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from gpupool.store import counters

T = TypeVar("T")


def make_gauges(
    of: str,
    names: Sequence[str],
    gauges: Mapping[str, tuple[str, Callable[[T], float | None]]],
    things: Sequence[tuple[list[str], T]],
) -> Iterator[Metric]:
    """Make each of the gauges with a value for each of the things, which come with their labels.

    A value that is not known is absent.
    """
    for name, (text, read) in gauges.items():
        gauge = GaugeMetricFamily(f"gpupool_{of}_{name}", text, labels=names)
        for labels, thing in things:
            value = read(thing)
            if value is not None:
                gauge.add_metric(labels, value)
        yield gauge


def make_counter(
    name: str, text: str, labels: tuple[str, ...], counter: counters.LabelCounter
) -> Metric:
    """Make a counter of the process's own sums."""
    family = CounterMetricFamily(name, text, labels=labels)
    sums = counter.read()
    # Without labels 0 is a value: rate() misses the first increase of a series that begins late.
    for values, total in (sums if sums or labels else {(): 0}).items():
        family.add_metric(values, total)
    return family


def make_histogram(
    name: str, text: str, labels: tuple[str, ...], histogram: counters.SecondsHistogram
) -> Metric:
    """Make a histogram; buckets are cumulative, as Prometheus wants them."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, (counts, total) in histogram.read().items():
        buckets = []
        running = 0
        for bound, count in zip((*histogram.bounds, None), counts, strict=True):
            running += count
            buckets.append(("+Inf" if bound is None else repr(float(bound)), float(running)))
        family.add_metric(values, buckets, total)
    return family
