"""What a simulation runs on: tables of nodes, and what `up --sim` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import BadTrace, UnknownModel
from gpupool.base.units import MIB
from gpupool.simulation.nodes import UNKNOWN_MIB, read_nodes, read_table, size_of
from gpupool.simulation.sources import read_trace
from gpupool.simulation.synthetic import generate
from gpupool.simulation.trace import Node

HEAD = "sn,cpu_milli,memory_mib,gpu,model"


def test_a_table_gives_cards_processors_and_memory() -> None:
    nodes = read_table("nodes.csv", f"{HEAD}\na,96000,1024,2,H200\nb,32000,512,0,\n")
    assert nodes[0].cards == (("H200", 143771 * MIB),) * 2
    assert (nodes[0].cpu_milli, nodes[0].host_bytes) == (96000, 1024 * MIB)
    assert nodes[1] == Node("b", (), 32000, 512 * MIB)


def test_a_card_nobody_knows_has_the_memory_the_table_says_or_a_nominal_one() -> None:
    assert read_table("n", f"{HEAD}\na,1,1,1,G2\n")[0].cards == (("G2", UNKNOWN_MIB * MIB),)
    assert read_table("n", f"{HEAD},gpu_memory_mib\na,1,1,1,G2,1000\n")[0].cards == (("G2", 1000 * MIB),)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("a,1,1,-8,H200", "nodes.csv, line 2, column gpu: -8 is not from 0 to 1024"),
        ("a,1,1,8,", "nodes.csv, line 2, column model: is empty on a node with cards"),
        ("a,1,1,1,T4\na,1,1,1,T4", "nodes.csv: two nodes are named a"),
        ("a,1,1,0,", "nodes.csv: none of its 1 nodes has a card"),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(lines: str, says: str) -> None:
    with pytest.raises(BadTrace) as caught:
        read_table("nodes.csv", f"{HEAD}\n{lines}\n")
    assert caught.value.message == says


def test_a_description_is_understood_as_by_up() -> None:
    size = size_of(read_nodes("2x8xH200,4xL40S"))
    assert (size.nodes, size.cards, size.models) == (3, 20, ("H200", "L40S"))
    with pytest.raises(UnknownModel):
        read_nodes("4xH2000")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="cannot be read: No such file"):
        read_nodes(str(tmp_path / "nodes.csv"))
    with pytest.raises(BadTrace, match="cannot be read: No such file"):
        read_trace("smaple")


def test_a_made_up_trace_brings_nodes_of_its_size() -> None:
    assert size_of(read_trace("synthetic:cards=20").nodes(None)).cards == 20
    assert size_of(read_trace("synthetic:cards=20").nodes("2xT4")).cards == 2


def test_a_trace_without_nodes_asks_for_them(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("arrival_seconds,gpu_milli,seconds\n0,300,1\n")
    with pytest.raises(BadTrace, match="no nodes of its own"):
        read_trace(str(file)).nodes(None)


def test_an_openb_list_gives_shapes_to_made_up_times_and_is_no_load_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "pods.csv"
    file.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,4000,1024,1,250\nb,9000,1024,0,0\n")
    with pytest.raises(BadTrace, match="openb list, whose times are no load") as caught:
        read_trace(str(file))
    assert "synthetic:shapes=" in caught.value.hint
    source = read_trace(f"synthetic:shapes={file},days=1,cards=2")
    assert source.synthetic is not None
    arrivals = generate(source.synthetic, source.shapes).arrivals
    assert {(one.shape.gpu_milli, one.shape.cpu_milli) for one in arrivals} == {(250, 4000)}
