"""The checker of records by the FGD paper's protocol finds each seeded fault by its rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.simulation.checking.protocol import check_protocol
from tests.support.protocol_lists import NODES, Lines, first, pods, rows, rules


def where(record: Lines, event: str, cards: int = 1) -> int:
    of_size = (
        at for at, row in enumerate(record) if row["event"] == event and int(row["gpu_milli"]) > 0
    )
    return next(
        at for at in of_size if event != "placed" or len(record[at]["cards"].split()) == cards
    )


def changed(event: str, /, **cells: str) -> Callable[[Lines], Lines]:
    return lambda record: [
        {**row, **cells} if at == where(record, event) else row for at, row in enumerate(record)
    ]


def dropped_first(record: Lines) -> Lines:
    """The first claim is turned away from an empty pool."""
    return [{**record[0], "event": "dropped", "node": "", "cards": ""}, *record[1:]]


@pytest.mark.parametrize(
    ("seeded", "rule"),
    [
        (
            lambda record: [
                {**row, "node": "n1", "cards": "0"} if row["cards"] else row for row in record
            ],
            "compute over",
        ),
        (dropped_first, "turned away"),
        (lambda record: [record[0], *record], "placed twice"),
        (lambda record: record[1:], "order"),
        (lambda record: record[: len(record) // 2], "demand"),
        (lambda record: record[:-1], "cut off"),
        (changed("dropped", arrivals="7"), "order"),
        (changed("placed", node="n9"), "unknown node"),
        (changed("placed", node="n1", cards="4"), "unknown card"),
        (changed("placed", cards="0 1"), "number of cards"),
        (changed("placed", gpu_milli="1"), "amount"),
        (changed("placed", cpu_milli="1"), "amount"),
        (changed("placed", host_bytes="1"), "amount"),
        (changed("placed", pod="nobody"), "unknown claim"),
        (changed("placed", event="lost"), "unknown event"),
        (changed("dropped", asked_milli="1"), "sum"),
        (changed("dropped", allocated_milli="1"), "sum"),
        (changed("dropped", level="1"), "sum"),
        (changed("dropped", level="x"), "unreadable"),
        (lambda record: [], "empty"),
    ],
)
def test_a_seeded_fault_is_found_by_its_rule(
    seeded: Callable[[Lines], Lines], rule: str, folder: Path
) -> None:
    assert rule in rules(seeded(first(folder)))


def test_a_wrong_model_and_a_card_twice_are_found(folder: Path) -> None:
    record = first(folder)
    at = next(
        at for at, row in enumerate(record) if row["pod"] == "pod-t4" and row["event"] == "placed"
    )
    for cells, rule in (({"node": "n0"}, "wrong model"), ({"cards": "0 0"}, "a card twice")):
        assert rule in rules([*record[:at], {**record[at], **cells}, *record[at + 1 :]])


def test_processors_and_main_memory_of_a_node_are_counted(folder: Path) -> None:
    small = rows(NODES.replace("64000,262144", "100,1"))
    found = {fault.rule for fault in check_protocol(rows(pods()), small, first(folder))}
    assert {"processors over", "main memory over"} <= found


def test_results_that_do_not_follow_from_the_lines_are_named_by_level(folder: Path) -> None:
    record, results = (
        rows((folder / "run.csv").read_text()),
        json.loads((folder / "results.json").read_text()),
    )
    results[1]["levels"][3]["allocation_pct"] += 0.001
    at = results[1]["levels"][3]["arrived_pct"]
    faults = list(check_protocol(rows(pods()), rows(NODES), record, results))
    assert [(fault.line, fault.rule) for fault in faults] == [(0, "results")]
    assert faults[0].text.startswith(f"default, seed 43 at {at} %")
    assert rules(record, results[:-1]) == ["results", "results"]


def test_whole_numbers_of_the_lists_may_have_a_point(folder: Path) -> None:
    claims = rows(pods().replace(",4000,1024,1,", ",4000.0,1024.0,1.0,"))
    nodes = rows(NODES.replace("64000,262144,2", "64000.0,262144.0,2.0"))
    assert list(check_protocol(claims, nodes, first(folder))) == []
