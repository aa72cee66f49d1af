from pathlib import Path

import numpy as np
import pytest

from bench import churn, fluid_bound, other_mixes
from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.simulation.traces.openb import PodList, read_pods
from tests.support.scheduling_builders import cards

NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


def pods(*shapes: Shape) -> PodList:
    return PodList(tuple(f"p{n}" for n in range(len(shapes))), shapes, np.arange(len(shapes)))


def listed(folder: Path, name: str, header: str, *lines: str) -> Path:
    path = folder / name
    path.write_text(header + "".join(f"{line}\n" for line in lines))
    return path


def test_a_life_holds_what_is_asked_for_while_there_is_room() -> None:
    pool = cards("40x8xT4", hosts=(64_000, GIB))
    asked = pods(
        Shape(500, 0, cpu_milli=100),
        Shape(1000, 0, cpu_milli=100),
        Shape(1000, 0, 8, cpu_milli=800),
    )
    quiet = churn.live(pool, asked, "fgd", 0.3, 1)
    assert quiet.allocation_pct == pytest.approx(30, abs=6)
    assert quiet.large == quiet.large_placed > 20
    full = [churn.live(pool, asked, policy, 1.6, 1) for policy in ("fgd", "default")]
    assert full[0].large == full[1].large > full[0].large_placed
    assert all(80 < life.allocation_pct <= 100 for life in full)
    assert full[0] == churn.live(pool, asked, "fgd", 1.6, 1)


def test_a_fluid_leaves_idle_what_no_share_can_fill(tmp_path: Path) -> None:
    pytest.importorskip("ortools")
    nodes = listed(tmp_path, "nodes.csv", NODES, "n1,10000,1000,1,T4", "n2,10000,1000,1,T4")
    alone = listed(tmp_path, "alone.csv", PODS, "a,100,10,1,600,")
    both = listed(tmp_path, "both.csv", PODS, "a,100,10,1,600,", "b,100,10,1,400,")
    hungry = listed(tmp_path, "hungry.csv", PODS, "a,20000,10,1,600,", "b,5000,10,1,500,")
    assert fluid_bound.idle_pct(nodes, alone) == pytest.approx({100: 40, 130: 40}, abs=1e-3)
    assert fluid_bound.idle_pct(nodes, both) == pytest.approx({100: 0, 130: 0}, abs=1e-3)
    # 0.91 and 1.18 of the second come (2000 in all against 1100 listed); none of the first can run.
    assert fluid_bound.idle_pct(nodes, hungry) == pytest.approx({100: 54.5, 130: 40.9}, abs=0.1)


def test_a_mix_is_made_anew_from_its_seed_and_asks_for_what_there_is(tmp_path: Path) -> None:
    lines = (
        "a,4000,1024,1,810,",
        "b,8000,2048,1,1000,",
        "c,64000,9000,8,1000,",
        "d,2000,1024,0,0,",
    )
    for name in ("default", "multigpu40"):
        listed(tmp_path, f"openb_pod_list_{name}.csv", PODS, *lines)
    listed(
        tmp_path,
        "openb_pod_list_gpuspec25.csv",
        PODS,
        "e,1000,1,1,500,T4",
        "f,1000,1,1,1000,P100|T4",
    )
    made = other_mixes.write(tmp_path, tmp_path / "one", range(5))
    again = other_mixes.write(tmp_path, tmp_path / "two", range(5))
    texts = [path.read_text() for *_, path in made]
    assert texts == [path.read_text() for *_, path in again]
    assert len(set(texts)) == 5
    for *_, path in made:
        found = read_pods(path)
        asked = sum(
            found.shapes[n].held_milli * found.shapes[n].count for n in found.shape_numbers.tolist()
        )
        assert other_mixes.CAPACITY_MILLI <= asked < other_mixes.CAPACITY_MILLI + 3 * 8000
