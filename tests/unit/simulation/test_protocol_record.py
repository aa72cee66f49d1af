"""A record by the FGD paper's protocol: what is in it, and that the checker finds each seeded fault by its rule."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.cli.main import main
from gpupool.simulation.checking_protocol import check_protocol
from gpupool.simulation.protocol_record import COLUMNS

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,64000,262144,2,P100
n1,96000,262144,4,T4
bare,96000,262144,0,
"""
Lines = list[dict[str, str]]


def pods() -> str:
    lines = [f"pod-{n:02d},4000,1024,1,{(n % 3 + 1) * 250 if n % 4 else 1000}," for n in range(5)]
    lines += ["pod-t4,4000,1024,2,1000,T4", "pod-any,1000,1024,1,500,P100|T4", "pod-cpu,1000,1024,0,0,"]
    return "\n".join(["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec", *lines]) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two policies with two seeds, recorded."""
    made = tmp_path_factory.mktemp("record")
    (made / "nodes.csv").write_text(NODES)
    (made / "pods.csv").write_text(pods())
    words = ["simulate", str(made / "pods.csv"), "--nodes", str(made / "nodes.csv"), "--protocol", "fgd"]
    record = ["--policy", "default,fgd", "--seeds", "2", "--record", str(made / "run.csv"), "--out", str(made)]
    assert main([*words, *record]) == 0
    return made


def rows(text: str) -> Lines:
    return list(csv.DictReader(io.StringIO(text)))


def rules(record: Lines, results: object = None) -> list[str]:
    return [fault.rule for fault in check_protocol(rows(pods()), rows(NODES), record, results)]  # type: ignore[arg-type]


def first(folder: Path) -> Lines:
    """The lines of the first life."""
    lines = rows((folder / "run.csv").read_text())
    return [line for line in lines if (line["policy"], line["seed"]) == ("default", "42")]


def where(record: Lines, event: str, cards: int = 1) -> int:
    of_size = (at for at, row in enumerate(record) if row["event"] == event and int(row["gpu_milli"]) > 0)
    return next(at for at in of_size if event != "placed" or len(record[at]["cards"].split()) == cards)


def test_a_record_has_every_arrival_in_order_by_policy_and_seed(folder: Path) -> None:
    lines = rows((folder / "run.csv").read_text())
    assert tuple(lines[0]) == COLUMNS
    lives = list(dict.fromkeys((row["policy"], row["seed"]) for row in lines))
    assert lives == [("default", "42"), ("default", "43"), ("fgd", "42"), ("fgd", "43")]
    life = first(folder)
    assert [int(row["order"]) for row in life] == list(range(1, len(life) + 1))
    assert {row["event"] for row in life} == {"placed", "dropped"}
    assert all(row["reason"] for row in life)
    assert all(row["score"] for row in life if row["event"] == "placed")
    assert len({row["claim"] for row in life}) == len(life) > len({row["pod"] for row in life}) == 8


def test_the_record_changes_no_result_and_fits_it(folder: Path, tmp_path: Path) -> None:
    words = ["simulate", str(folder / "pods.csv"), "--nodes", str(folder / "nodes.csv"), "--protocol", "fgd"]
    assert main([*words, "--policy", "default,fgd", "--seeds", "2", "--out", str(tmp_path)]) == 0
    results = (folder / "results.json").read_text()
    assert (tmp_path / "results.json").read_text() == results
    assert rules(rows((folder / "run.csv").read_text()), json.loads(results)) == []


def changed(event: str, /, **cells: str) -> Callable[[Lines], Lines]:
    return lambda record: [{**row, **cells} if at == where(record, event) else row for at, row in enumerate(record)]


def dropped_first(record: Lines) -> Lines:
    """The first claim is turned away from an empty pool."""
    return [{**record[0], "event": "dropped", "node": "", "cards": ""}, *record[1:]]


@pytest.mark.parametrize(
    ("seeded", "rule"),
    [
        (
            lambda record: [{**row, "node": "n1", "cards": "0"} if row["cards"] else row for row in record],
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
def test_a_seeded_fault_is_found_by_its_rule(seeded: Callable[[Lines], Lines], rule: str, folder: Path) -> None:
    assert rule in rules(seeded(first(folder)))


def test_a_wrong_model_and_a_card_twice_are_found(folder: Path) -> None:
    record = first(folder)
    at = next(at for at, row in enumerate(record) if row["pod"] == "pod-t4" and row["event"] == "placed")
    for cells, rule in (({"node": "n0"}, "wrong model"), ({"cards": "0 0"}, "a card twice")):
        assert rule in rules([*record[:at], {**record[at], **cells}, *record[at + 1 :]])


def test_processors_and_main_memory_of_a_node_are_counted(folder: Path) -> None:
    small = rows(NODES.replace("64000,262144", "100,1"))
    found = {fault.rule for fault in check_protocol(rows(pods()), small, first(folder))}
    assert {"processors over", "main memory over"} <= found


def test_results_that_do_not_follow_from_the_lines_are_named_by_level(folder: Path) -> None:
    record, results = rows((folder / "run.csv").read_text()), json.loads((folder / "results.json").read_text())
    results[1]["levels"][3]["allocation_pct"] += 0.001
    at = results[1]["levels"][3]["arrived_pct"]
    faults = list(check_protocol(rows(pods()), rows(NODES), record, results))
    assert [(fault.line, fault.rule) for fault in faults] == [(0, "results")]
    assert faults[0].text.startswith(f"default, seed 43 at {at} %")
    assert rules(record, results[:-1]) == ["results", "results"]


def test_the_command_checks_by_the_raw_lists(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", str(folder / "pods.csv"), "--nodes", str(folder / "nodes.csv"), "--check"]
    assert main([*words, str(folder / "run.csv"), "--out", str(folder)]) == 0
    assert capsys.readouterr().out.endswith("run.csv: no fault\n")
    bad = folder / "bad.csv"
    bad.write_text("".join((folder / "run.csv").read_text().splitlines(keepends=True)[:20]))
    assert main([*words, str(bad), "-o", "json"]) == 1
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert {fault["rule"] for fault in faults} == {"cut off"}


def test_whole_numbers_of_the_lists_may_have_a_point(folder: Path) -> None:
    claims = rows(pods().replace(",4000,1024,1,", ",4000.0,1024.0,1.0,"))
    nodes = rows(NODES.replace("64000,262144,2", "64000.0,262144.0,2.0"))
    assert list(check_protocol(claims, nodes, first(folder))) == []


def test_pods_of_one_name_are_told_apart_by_what_they_ask(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(pods() + "pod-00,1,1,1,100,\npod-00,2,2,1,200,\n")
    words = ["simulate", str(tmp_path / "pods.csv"), "--nodes", str(tmp_path / "nodes.csv")]
    record = str(tmp_path / "run.csv")
    assert main([*words, "--protocol", "fgd", "--policy", "fgd", "--record", record]) == 0
    assert main([*words, "--check", record]) == 0
