"""Rows of a record: what each decision says, and the raw lists beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import BadTrace
from gpupool.base.units import GIB
from gpupool.model.claim import Rejection, RejectionReason, Shape
from gpupool.simulation.replay.arrival_jobs import build_jobs
from gpupool.simulation.replay.replay import Replay
from gpupool.simulation.studies.decisions import (
    COLUMNS,
    DecisionRecorder,
    format_nodes,
    get_list_paths,
)
from gpupool.simulation.traces.nodes import read_table
from gpupool.simulation.traces.trace import JobArrival, TraceNode
from tests.support.simulation_builders import HALF, job, nodes, world


def record(*arrivals: JobArrival) -> list[dict[str, object]]:
    pool = world(2)
    recorder = DecisionRecorder("fgd", 7, pool)
    Replay(pool, [recorder]).play_arrivals(arrivals)
    return [dict(zip(COLUMNS, row, strict=True)) for row in recorder.rows]


def test_placed_row_has_what_was_free_before_the_placement() -> None:
    lines = record(job("a", 1, 5, HALF), job("b", 2, 5, Shape(1000)))
    first, second = (line for line in lines if line["event"] == "placed")
    assert (first["policy"], first["seed"], first["time"], first["node"]) == ("fgd", 7, "1", "n0")
    assert (first["gpu_milli"], first["node_free_milli"], first["cards_free_milli"]) == (
        500,
        2000,
        "1000",
    )
    assert (second["node_free_milli"], second["cards_free_milli"]) == (1500, "1000")


def test_refused_row_has_no_seat_and_the_reason() -> None:
    (line,) = record(job("wide", 0, 1, Shape(1000, count=3)))
    assert (line["event"], line["node"], line["cards"], line["gpu_milli"]) == ("refused", "", "", 0)
    assert line["reason"]


def test_left_row_has_the_reason_of_its_class() -> None:
    pool = world(1)
    recorder = DecisionRecorder("fgd", 7, pool)
    known, unknown = build_jobs([job("a", 0, 1)]), build_jobs([job("b", 0, 1, HALF)])
    jobs = [*known, *unknown]
    rejection = Rejection("no card is free", RejectionReason.CARD_TOO_SMALL, fits_ever=True)
    recorder.on_left_waiting(jobs, {jobs[0].key: rejection}, 1_500_000_000)
    lines = [dict(zip(COLUMNS, row, strict=True)) for row in recorder.rows]
    assert [(line["time"], line["claim"], line["reason"]) for line in lines] == [
        ("1.5", "a", "no card is free"),
        ("1.5", "b", ""),
    ]


def test_format_nodes_reads_back_as_the_same_nodes() -> None:
    cards = (("H200", 140 * GIB),) * 2
    given = [TraceNode("a", cards, 8000, 64 * GIB), TraceNode("b", cards, None, None)]
    assert list(read_table("nodes", format_nodes(given))) == given


def test_format_nodes_with_cards_of_two_models_is_refused() -> None:
    mixed = TraceNode("a", (("T4", GIB), ("H200", GIB)))
    with pytest.raises(BadTrace, match="a has cards of several models"):
        format_nodes([*nodes(1), mixed])


def test_list_paths_stand_beside_the_record() -> None:
    assert get_list_paths(Path("out/run.parquet")) == (
        Path("out/run.claims.csv"),
        Path("out/run.nodes.csv"),
    )
