"""What a user types where a trace is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import BadTrace
from gpupool.simulation.traces.nodes import measure_pool
from gpupool.simulation.traces.sources import read_trace
from gpupool.simulation.traces.synthetic import generate_trace


def test_a_made_up_trace_brings_nodes_of_its_size() -> None:
    assert measure_pool(read_trace("synthetic:cards=20").choose_nodes(None)).cards == 20
    assert measure_pool(read_trace("synthetic:cards=20").choose_nodes("2xT4")).cards == 2


def test_a_trace_without_nodes_asks_for_them(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("arrival_seconds,gpu_milli,seconds\n0,300,1\n")
    with pytest.raises(BadTrace, match="no nodes of its own"):
        read_trace(str(file)).choose_nodes(None)


def test_an_openb_list_gives_shapes_to_made_up_times_and_is_no_load_by_itself(
    tmp_path: Path,
) -> None:
    file = tmp_path / "pods.csv"
    file.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,4000,1024,1,250\nb,9000,1024,0,0\n"
    )
    with pytest.raises(BadTrace, match="openb list, whose times are no load") as caught:
        read_trace(str(file))
    assert "synthetic:shapes=" in caught.value.hint
    source = read_trace(f"synthetic:shapes={file},days=1,cards=2")
    assert source.synthetic is not None
    arrivals = generate_trace(source.synthetic, source.shapes).arrivals
    assert {(one.shape.gpu_milli, one.shape.cpu_milli) for one in arrivals} == {(250, 4000)}


@pytest.mark.parametrize(
    ("cards", "own"), [(20, "2x8xH200,4xH200"), (16, "2x8xH200"), (3, "3xH200")]
)
def test_read_trace_names_whole_nodes_then_one_with_the_rest(cards: int, own: str) -> None:
    assert read_trace(f"synthetic:cards={cards},cards_per_node=8").own == own


def test_read_trace_of_the_sample_brings_its_nodes() -> None:
    source = read_trace("sample")
    assert source.trace is not None
    assert source.trace.name == "sample"
    assert measure_pool(source.choose_nodes(None)).cards == 32
