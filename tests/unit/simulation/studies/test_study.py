"""A question to the simulator: every policy with every seed, in order, on any number of
processes."""

from __future__ import annotations

import json

import pytest

from gpupool.base.errors import UnknownPolicy
from gpupool.simulation.studies.study import (
    FORMAT,
    answer_question,
    build_document,
    compute_mean,
    list_policy_rows,
)
from tests.support.simulation_builders import question, quiet


def test_every_policy_lives_with_every_seed_in_order() -> None:
    lives = answer_question(question("binpack", "spread", seeds=2), quiet, workers=1)
    assert [(one.policy, one.seed) for one in lives] == [
        ("binpack", 42),
        ("binpack", 43),
        ("spread", 42),
        ("spread", 43),
    ]
    assert lives[0].figures.jobs == lives[2].figures.jobs  # one seed is one trace
    assert lives[0].figures.jobs != lives[1].figures.jobs


def test_processes_change_nothing_but_the_time() -> None:
    alone, together = (
        answer_question(question("binpack", "spread"), quiet, workers=number) for number in (1, 2)
    )
    assert alone == together


def test_an_unknown_policy_is_refused_with_the_nearest_before_anything_runs() -> None:
    told: list[float] = []
    with pytest.raises(UnknownPolicy) as caught:
        answer_question(question("binpack", "spred"), told.append)
    assert caught.value.message == 'no placement policy is called "spred"'
    assert "did you mean spread?" in caught.value.hint
    assert caught.value.code == "GP-1021"
    assert not told


def test_the_document_says_everything_and_is_json() -> None:
    asked = question("binpack")
    lives = answer_question(asked, quiet)
    found = json.loads(json.dumps(build_document(asked, lives)))
    assert (found["format"], found["nodes"], found["cards"], found["synthetic"]["days"]) == (
        FORMAT,
        1,
        8,
        1,
    )
    (run,) = found["runs"]
    assert {
        "policy",
        "seed",
        "allocation_pct",
        "fragment_pct",
        "waits",
        "tenants",
        "timeline",
    } <= set(run)
    assert list_policy_rows(lives)[0]["allocation_pct"] == run["allocation_pct"]


def test_a_mean_of_something_unknown_is_unknown() -> None:
    assert compute_mean([1.0, 2.0]) == 1.5
    assert compute_mean([1.0, None]) is None
    assert compute_mean([]) is None
