"""What a simulation runs on: tables of nodes, and what `up --sim` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import BadTrace, UnknownModel
from gpupool.base.units import MIB
from gpupool.simulation.traces.nodes import UNKNOWN_MIB, measure_pool, read_nodes, read_table
from gpupool.simulation.traces.sources import read_trace
from gpupool.simulation.traces.trace import TraceNode

HEAD = "sn,cpu_milli,memory_mib,gpu,model"


def test_a_table_gives_cards_processors_and_memory() -> None:
    nodes = read_table("nodes.csv", f"{HEAD}\na,96000,1024,2,H200\nb,32000,512,0,\n")
    assert nodes[0].cards == (("H200", 143771 * MIB),) * 2
    assert (nodes[0].cpu_milli, nodes[0].host_bytes) == (96000, 1024 * MIB)
    assert nodes[1] == TraceNode("b", (), 32000, 512 * MIB)


def test_a_card_nobody_knows_has_the_memory_the_table_says_or_a_nominal_one() -> None:
    assert read_table("n", f"{HEAD}\na,1,1,1,G2\n")[0].cards == (("G2", UNKNOWN_MIB * MIB),)
    assert read_table("n", f"{HEAD},gpu_memory_mib\na,1,1,1,G2,1000\n")[0].cards == (
        ("G2", 1000 * MIB),
    )


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
    size = measure_pool(read_nodes("2x8xH200,4xL40S"))
    assert (size.nodes, size.cards, size.models) == (3, 20, ("H200", "L40S"))
    with pytest.raises(UnknownModel):
        read_nodes("4xH2000")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="cannot be read: No such file"):
        read_nodes(str(tmp_path / "nodes.csv"))
    with pytest.raises(BadTrace, match="cannot be read: No such file"):
        read_trace("smaple")
