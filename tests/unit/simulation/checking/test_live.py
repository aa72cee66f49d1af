"""The independent checker: a record of the engine has no fault, and each seeded fault is found by
its rule."""

from __future__ import annotations

import ast
import csv
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.cli.main import main
from gpupool.simulation.checking import lists, live, protocol
from gpupool.simulation.checking.live import check_record

CLAIMS = """job,arrival_seconds,gpu_milli,seconds,cards,gpu_memory_mib,model,cpu_milli,host_mib,members
half,0,500,100,1,1024,,1000,1024,1
other,0,600,50,1,2048,T4,1000,1024,1
pair,10,1000,30,1,,,,,2
"""
NODES = """sn,gpu,model,cpu_milli,memory_mib,gpu_memory_mib
n1,2,T4,2000,2048,3000
n2,1,A100-40G,2000,4096,40960
"""
MIB = 2**20
RECORD = f"""time,event,claim,node,cards,gpu_milli,memory_bytes
0,placed,half,n1,0,500,{1024 * MIB}
0,placed,other,n1,1,600,{2048 * MIB}
50,ended,other,n1,1,600,{2048 * MIB}
50,placed,pair.0,n1,1,1000,{1024 * MIB}
50,placed,pair.1,n2,0,1000,{1024 * MIB}
80,ended,pair.0,n1,1,1000,{1024 * MIB}
80,ended,pair.1,n2,0,1000,{1024 * MIB}
100,ended,half,n1,0,500,{1024 * MIB}
"""
Lines = list[dict[str, str]]


def rows(text: str) -> Lines:
    return list(csv.DictReader(io.StringIO(text)))


def rules(record: Lines) -> list[str]:
    return [fault.rule for fault in check_record(rows(CLAIMS), rows(NODES), record)]


def changed(line: int, **cells: str) -> Callable[[Lines], Lines]:
    return lambda record: [{**row, **cells} if at == line else row for at, row in enumerate(record)]


def without(*lines: int) -> Callable[[Lines], Lines]:
    return lambda record: [row for at, row in enumerate(record) if at not in lines]


def twice(line: int) -> Callable[[Lines], Lines]:
    return lambda record: [*record[: line + 1], record[line], *record[line + 1 :]]


def test_a_record_without_a_fault_has_none() -> None:
    assert rules(rows(RECORD)) == []


@pytest.mark.parametrize(
    ("seeded", "rule"),
    [
        (changed(1, cards="0"), "compute over"),
        (changed(0, memory_bytes=str(4000 * MIB)), "memory over"),
        (twice(0), "placed twice"),
        (changed(1, node="n2", cards="0"), "wrong model"),
        (changed(7, time="99.5"), "released early"),
        (changed(7, time="101"), "released late"),
        (without(4, 6), "gang in parts"),
        (changed(4, node="n3"), "unknown node"),
        (changed(4, cards="1"), "unknown card"),
        (changed(0, cards="0 1"), "number of cards"),
        (changed(0, gpu_milli="400"), "amount"),
        (changed(1, memory_bytes="1"), "amount"),
        (changed(0, claim="nobody"), "unknown claim"),
        (changed(0, event="lost"), "unknown event"),
        (changed(3, time="5"), "order"),
        (without(0), "released and not placed"),
        (without(7), "never released"),
    ],
)
def test_a_seeded_fault_is_found_by_its_rule(seeded: Callable[[Lines], Lines], rule: str) -> None:
    assert rule in rules(seeded(rows(RECORD)))


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"gpu_milli": "abc"}, "half: gpu_milli is 'abc', not a whole number"),
        ({"cards": "0;1"}, "half: cards is '0;1', not whole numbers with spaces"),
        ({"time": ""}, "half: time is '', not a number of seconds"),
        ({"memory_bytes": "1e9"}, "half: memory_bytes is '1e9', not a whole number"),
    ],
)
def test_a_cell_that_makes_no_sense_is_named_with_its_line(
    cells: dict[str, str], says: str
) -> None:
    fault = check_record(rows(CLAIMS), rows(NODES), changed(0, **cells)(rows(RECORD)))[0]
    assert (fault.line, fault.rule, fault.text) == (2, "unreadable", says)


def test_whole_numbers_of_the_lists_may_have_a_point() -> None:
    claims = rows(CLAIMS.replace("0,500,100,1,1024", "0,500.0,100.0,1.0,1024.0"))
    nodes = rows(NODES.replace("n1,2,T4,2000,2048,3000", "n1,2.0,T4,2000.0,2048.0,3000.0"))
    assert check_record(claims, nodes, rows(RECORD)) == []


def test_parts_of_a_nanosecond_are_rounded_as_the_simulation_rounds_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs, nodes, record = tmp_path / "jobs.csv", tmp_path / "nodes.csv", str(tmp_path / "run.csv")
    lines = [f"{n}.{n}234567897{n},500,{9 - n}.1234567896{n}" for n in range(1, 9)]
    jobs.write_text("\n".join(["arrival_seconds,gpu_milli,seconds", *lines]) + "\n")
    nodes.write_text("sn,gpu,model\nn1,2,T4\n")
    words = ["simulate", str(jobs), "--nodes", str(nodes)]
    assert main([*words, "--record", record]) == 0
    assert main([*words, "--check", record]) == 0, capsys.readouterr().out


def test_claims_of_which_nothing_is_said_and_jobs_that_were_left() -> None:
    cut = rows(RECORD)[:1]
    assert rules(cut) == ["never released", "lost"]
    left = {**rows(RECORD)[0], "event": "left"}
    assert rules([left, *rows(RECORD)]) == ["left before"] * 2
    others = [row for row in rows(RECORD) if row["claim"] != "half"]
    assert rules([*others, {**left, "time": "90"}]) == []


def test_results_are_compared_with_the_lines_of_each_life() -> None:
    lines = [
        {**row, "policy": "fgd", "seed": seed} for seed in ("42", "43") for row in rows(RECORD)
    ]
    run = {
        "policy": "fgd",
        "seed": 42,
        "evictions": 0,
        "refused": {},
        "allocation_pct": 100 * 11000 / 30000,
    }
    results = [
        run,
        {**run, "seed": 43, "evictions": 1, "refused": {"MODEL": 2}, "allocation_pct": 9.0},
    ]
    faults = check_record(rows(CLAIMS), rows(NODES), lines, results)
    assert {fault.rule for fault in faults} == {"results"}
    assert [fault.text.split(": ")[1].split(" ")[0] for fault in faults] == [
        "evictions",
        "refused",
        "allocation_pct",
    ]


def test_more_processors_and_main_memory_than_a_node_has_are_found() -> None:
    claims = rows(
        CLAIMS.replace("other,0,600,50,1,2048,T4,1000,1024", "other,0,600,50,1,2048,T4,1001,1025")
    )
    found = [fault.rule for fault in check_record(claims, rows(NODES), rows(RECORD))]
    assert found == ["processors over", "main memory over"]


def test_a_claim_before_its_time_and_one_that_was_refused_are_found() -> None:
    early = rows(CLAIMS.replace("other,0", "other,20"))
    assert [fault.rule for fault in check_record(early, rows(NODES), rows(RECORD))] == ["too early"]
    refused = [{**rows(RECORD)[0], "event": "refused"}, *rows(RECORD)]
    assert rules(refused) == ["placed twice"]


def test_an_evicted_claim_may_be_placed_again_and_runs_all_of_its_time() -> None:
    placed, ended = rows(RECORD)[0], rows(RECORD)[7]
    evicted, again = {**ended, "time": "40", "event": "evicted"}, {**placed, "time": "60"}
    claims = rows(CLAIMS)[:1]
    for end, found in (("160", []), ("150", ["released early"])):
        record = [placed, evicted, again, {**ended, "time": end}]
        assert [fault.rule for fault in check_record(claims, rows(NODES), record)] == found


def test_the_checkers_import_nothing_but_the_standard_library_and_each_other() -> None:
    own = {f"gpupool.simulation.{name}" for name in ("checking.live", "checking.lists")}
    for module in (live, lists, protocol):
        tree = ast.parse(Path(module.__file__).read_text())
        found = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        found |= {
            one.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for one in node.names
        }
        assert {
            name for name in found - own if name.split(".")[0] not in sys.stdlib_module_names
        } == set()


def test_a_recorded_life_with_gangs_and_evictions_has_no_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "run.csv"
    busy = "synthetic:days=1,cards=8,load_pct=150,gang_pct=10,several_pct=20,share_pct=30,low_pct=40,high_pct=20"
    assert main(["simulate", busy, "--record", str(record)]) == 0
    lines = rows(record.read_text())
    assert {"placed", "ended", "evicted"} <= {row["event"] for row in lines}
    assert all(
        row["reason"] and row["node_free_milli"] for row in lines if row["event"] == "placed"
    )
    check_it = [
        "simulate",
        str(tmp_path / "run.claims.csv"),
        "--nodes",
        str(tmp_path / "run.nodes.csv"),
        "--check",
    ]
    assert main([*check_it, str(record)]) == 0
    assert capsys.readouterr().out.endswith("run.csv: no fault\n")
    first = next(at for at, row in enumerate(lines) if row["event"] == "placed")
    text = record.read_text().splitlines(keepends=True)
    record.write_text("".join([*text[: first + 2], text[first + 1], *text[first + 2 :]]))
    assert main([*check_it, str(record)]) == 1
    assert "placed twice" in capsys.readouterr().out
