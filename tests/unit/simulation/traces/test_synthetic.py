"""The generator does what its parameters say, and the same everywhere."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from gpupool.base.errors import BadTrace
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.simulation.traces import sample
from gpupool.simulation.traces.synthetic import TraceParameters, generate_trace, parse_parameters
from gpupool.simulation.traces.trace import write_csv

WEEK = TraceParameters(days=7, cards=64, load_pct=120)


def test_the_same_seed_gives_the_same_trace_on_every_machine() -> None:
    text = write_csv(generate_trace(TraceParameters(seed=7, days=1)))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "e6eb2839cd2d3400"
    assert write_csv(generate_trace(TraceParameters(seed=8, days=1))) != text


def test_the_sample_is_what_the_generator_gives() -> None:
    assert sample.read_sample_text() == write_csv(generate_trace(sample.PARAMETERS)), (
        "run tools/make_sample_trace.py"
    )


def test_it_asks_for_the_load_that_was_wanted() -> None:
    arrivals = generate_trace(WEEK).arrivals
    asked = sum(
        one.shape.gpu_milli * one.shape.count * one.members * one.run_ns for one in arrivals
    )
    there = 64 * 1000 * 7 * 86400 * NS
    assert 1.20 <= asked / there < 1.30  # the last job goes over


def test_kinds_come_as_often_as_they_were_asked_for() -> None:
    arrivals = generate_trace(WEEK).arrivals
    found = Counter(
        "gang"
        if one.gang
        else "share"
        if not one.shape.is_whole
        else "card"
        if one.shape.count == 1
        else "cards"
        for one in arrivals
    )
    parts = {kind: 100 * count / len(arrivals) for kind, count in found.items()}
    assert parts == pytest.approx({"share": 50, "card": 40, "cards": 7, "gang": 3}, abs=1.5)


def test_nights_and_weekends_are_quieter() -> None:
    arrivals = generate_trace(WEEK).arrivals
    days = Counter(one.at_ns // NS // 86400 for one in arrivals)
    night = sum(1 for one in arrivals if 1 <= one.at_ns // NS % 86400 // 3600 < 7)
    noon = sum(1 for one in arrivals if 13 <= one.at_ns // NS % 86400 // 3600 < 19)
    assert max(days[5], days[6]) < min(days[day] for day in range(5))
    assert night * 2 < noon


def test_nobody_asks_for_more_than_a_node_and_no_gang_for_more_than_half() -> None:
    arrivals = generate_trace(TraceParameters(cards=8, cards_per_node=4, days=3)).arrivals
    assert max(one.shape.count for one in arrivals) == 4
    assert max(one.shape.count * one.members for one in arrivals if one.gang) <= 4


def test_limits_are_never_below_what_a_job_takes() -> None:
    arrivals = generate_trace(WEEK).arrivals
    limited = [one for one in arrivals if one.limit_seconds]
    assert all((one.limit_seconds or 0) * NS >= one.run_ns for one in limited)
    assert 0.66 < len(limited) / len(arrivals) < 0.74


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("day=3", "synthetic has no parameter 'day'"),
        ("days=0", "synthetic: days=0 is not from 1 to 3660"),
        ("days=-1", "synthetic: days is a whole number, not '-1'"),
        (
            "share_pct=60",
            "share_pct + one_card_pct + several_pct + gang_pct + partition_pct is 60 + 40 + 7 + 3 + 0 = 110, not 100",
        ),
        ("low_pct=60,high_pct=50", "low_pct + high_pct is 110, more than 100"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_with_the_numbers(text: str, says: str) -> None:
    with pytest.raises(BadTrace) as caught:
        parse_parameters(text)
    assert says in caught.value.message


def test_a_misspelt_parameter_gets_the_nearest() -> None:
    with pytest.raises(BadTrace) as caught:
        parse_parameters("load=3")
    assert "did you mean load_pct?" in caught.value.hint
