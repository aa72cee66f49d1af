from pathlib import Path

import pytest

from gpupool.base.errors import BadTrace
from gpupool.base.units import MIB
from gpupool.model.claim import Shape
from gpupool.simulation.traces.openb import read_nodes, read_pods

NODES = (
    "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,1024,2,P100\nn1,32000,512,0,\nn2,96000,2048,1,T4\n"
)
HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


def write(folder: Path, text: str, name: str = "pods.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refused(folder: Path, text: str) -> BadTrace:
    with pytest.raises(BadTrace) as said:
        read_pods(write(folder, text))
    return said.value


def test_nodes_are_columns_and_those_without_cards_are_left_out(tmp_path: Path) -> None:
    cards = read_nodes(write(tmp_path, NODES))
    assert (cards.nodes, cards.models) == (("n0", "n2"), ("P100", "T4"))
    assert (cards.node.tolist(), cards.model.tolist()) == ([0, 0, 1], [0, 0, 1])
    assert cards.hosts is not None
    assert cards.hosts.free_cpu_milli.tolist() == [64000, 96000]
    assert cards.hosts.memory_bytes.tolist() == [1024 * MIB, 2048 * MIB]


def test_equal_pods_share_a_shape(tmp_path: Path) -> None:
    lines = (
        "a,3152,1024,1,810,",
        "b,8000,2048,0,0,",
        "c,3152,1024,1,810,",
        "d,1,1,8,1000,V100M32|G2|V100M32",
    )
    pods = read_pods(write(tmp_path, HEADER + "\n".join(lines) + "\n"))
    assert pods.names == ("a", "b", "c", "d")
    assert pods.shape_numbers.tolist() == [0, 1, 0, 2]
    assert pods.shapes == (
        Shape(810, 0, 1, cpu_milli=3152, host_bytes=1024 * MIB),
        Shape(0, 0, 0, cpu_milli=8000, host_bytes=2048 * MIB),
        Shape(1000, 0, 8, "G2|V100M32", cpu_milli=1, host_bytes=MIB),
    )


def test_a_list_with_the_first_five_columns_alone_is_enough(tmp_path: Path) -> None:
    pods = read_pods(write(tmp_path, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,500\n"))
    assert pods.shapes[0].model is None


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    said = refused(tmp_path, "name,cpu_milli,memory_mib,num_gpu\na,1,1,1\n")
    assert said.message == "pods.csv lacks the column gpu_milli"


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        ("a,-1,1,1,500,", "cpu_milli"),
        ("a,1,99999999999,1,500,", "memory_mib"),
        ("a,1,1,2000,500,", "num_gpu"),
        ("a,1,1,1,1001,", "gpu_milli"),
        ("a,1,1,1,0,", "gpu_milli"),
        ("a,1,1,1.5,500,", "num_gpu"),
        ("a,1,1,one,500,", "num_gpu"),
        (",1,1,1,500,", "name"),
    ],
)
def test_an_absurd_value_is_named_with_its_line_and_column(
    tmp_path: Path, cells: str, column: str
) -> None:
    said = refused(tmp_path, HEADER + "z,1,1,1,500,\n" + cells + "\n")
    assert said.details == {"line": 3, "column": column}
    assert said.message.startswith(f"pods.csv, line 3, column {column}: ")


def test_an_unknown_list_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    write(tmp_path, HEADER, "pod_list_default.csv")
    with pytest.raises(BadTrace) as said:
        read_pods(tmp_path / "pod_list_defualt.csv")
    assert said.value.hint == f"did you mean {tmp_path / 'pod_list_default.csv'}?"


def test_a_node_list_without_any_card_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="has a card"):
        read_nodes(write(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\nn1,32000,512,0,\n"))
