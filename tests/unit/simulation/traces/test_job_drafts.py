"""Jobs of an event log while it is read."""

from __future__ import annotations

import json

import pytest

from gpupool.model.claim import CardSelector, Shape, SharingKind
from gpupool.model.isolation.claim_needs import ClaimNeeds, IsolationKind
from gpupool.simulation.traces.job_drafts import JobArray, JobDraft, parse_shape


def test_a_shape_in_an_event_is_the_shape_that_was_asked_for() -> None:
    given = json.loads(
        json.dumps({"gpu_milli": 1000, "count": 2, "labels": (("zone", "a"),), "within": {}})
    )
    assert parse_shape(given) == Shape(1000, None, 2, labels=(("zone", "a"),))


def test_a_demand_of_isolation_is_kept() -> None:
    given = {"gpu_milli": 1000, "needs": {"isolation": "hard"}}
    assert parse_shape(given) == Shape(1000, needs=ClaimNeeds(IsolationKind.HARD))
    with pytest.raises(ValueError, match="perfect"):
        parse_shape({"gpu_milli": 1000, "needs": {"isolation": "perfect"}})


def draft(placed_ns: int | None = None, run_ns: int | None = None) -> JobDraft:
    return JobDraft("a", 5, Shape(500), "nlp", 0, None, placed_ns=placed_ns, run_ns=run_ns)


def test_build_arrival_of_a_job_that_was_never_placed_is_none() -> None:
    assert draft().build_arrival(100) is None


@pytest.mark.parametrize(
    ("placed_ns", "run_ns", "expected"), [(40, None, 60), (40, 7, 7), (100, None, 1), (40, 0, 1)]
)
def test_build_arrival_runs_to_its_end_or_to_the_end_of_the_log(
    placed_ns: int, run_ns: int | None, expected: int
) -> None:
    arrival = draft(placed_ns, run_ns).build_arrival(100)
    assert arrival is not None
    assert arrival.run_ns == expected


@pytest.mark.parametrize(
    ("index", "known"),
    [("0", True), ("2", True), ("3", False), ("-1", False), (" 1", False), ("\u0661", False)],
)
def test_has_index_takes_plain_digits_below_the_count(index: str, known: bool) -> None:
    assert JobArray({}, 0, 3).has_index(index) is known


def test_parse_shape_makes_lists_of_a_selector_tuples() -> None:
    given = {"gpu_milli": 500, "sharing": "burst", "selector": {"uuids": ["GPU-1", "GPU-2"]}}
    shape = parse_shape(given)
    assert shape.sharing is SharingKind.BURST
    assert shape.selector == CardSelector(uuids=("GPU-1", "GPU-2"))
    assert hash(shape) == hash(parse_shape(given))


def test_parse_shape_with_an_unknown_field_raises() -> None:
    with pytest.raises(TypeError):
        parse_shape({"gpu_milli": 500, "colour": "red"})
