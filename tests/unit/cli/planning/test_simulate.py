"""`gpupool simulate` needs no pool, writes whole files or none, and refuses with the next step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.cli.main import main
from gpupool.cli.planning import simulate

SMALL = "synthetic:days=1,cards=4,cards_per_node=4,load_pct=50,median_seconds=14400"


def test_it_works_without_a_pool_and_prints_a_row_per_policy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert (
        main(["--state-dir", str(tmp_path / "none"), "simulate", SMALL, "--policy", "binpack"]) == 0
    )
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == [
        "POLICY", "ALLOCATED", "%", "FRAGMENTS", "%", "WHOLE", "NODES", "WAIT", "P50", "P95", "P99", "JOBS", "NEVER",
        "STARTED", "EVICTIONS",
    ]  # fmt: skip
    assert out.splitlines()[1].startswith("binpack")
    assert err == ""
    assert not (tmp_path / "none").exists()


def test_it_writes_the_document_and_the_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["simulate", SMALL, "--out", str(tmp_path / "result"), "-o", "json"]) == 0
    found = json.loads((tmp_path / "result" / "results.json").read_text())
    assert found == json.loads(capsys.readouterr().out)
    assert (tmp_path / "result" / "report.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in (tmp_path / "result").iterdir()) == [
        "report.html",
        "results.json",
    ]


def test_ctrl_c_leaves_nothing_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpupool.simulation.studies.study.simulate_case", interrupted)
    assert main(["simulate", SMALL, "--out", str(tmp_path / "result")]) == 130
    assert not (tmp_path / "result").exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["sample", "--policy", "binpak"], 2, "did you mean binpack?"),
        (["nothing.csv"], 2, "GP-1030: nothing.csv cannot be read"),
        (["synthetic:day=1"], 2, "did you mean days?"),
        (["sample", "--nodes", "4xH2000"], 2, "GP-1020"),
        (["sample", "--seeds", "0"], 2, "--seeds 0"),
        (["sample", "--knowledge", "orakle"], 2, "did you mean oracle?"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_next_step(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words]) == code
    assert says in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["simulate", SMALL, "--out", str(tmp_path / "file")]) == 7
    assert "cannot be written" in capsys.readouterr().err


def test_the_bar_is_for_terminals_alone(capsys: pytest.CaptureFixture[str]) -> None:
    from gpupool.terminal.context import CommandContext

    with simulate.show_progress(CommandContext(), "simulating") as told:
        told(0.5)
    assert capsys.readouterr().err == ""


def openb(folder: Path) -> tuple[str, str]:
    """A list of twelve pods and two nodes, in the trace's columns."""
    nodes, pods = folder / "nodes.csv", folder / "pods.csv"
    nodes.write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,262144,4,T4\n"
    )
    lines = [f"pod-{n:02d},4000,1024,1,{(n % 3 + 1) * 250 if n % 4 else 1000}" for n in range(12)]
    pods.write_text("\n".join(["name,cpu_milli,memory_mib,num_gpu,gpu_milli", *lines]) + "\n")
    return str(pods), str(nodes)


def test_the_papers_protocol_gives_scripts_a_list_of_policy_seed_and_levels(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pods, nodes = openb(tmp_path)
    words = [pods, "--nodes", nodes, "--protocol", "fgd", "--policy", "fgd,random", "--seeds", "2"]
    assert main(["simulate", *words, "--out", str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [(one["policy"], one["seed"]) for one in found] == [
        ("fgd", 42),
        ("fgd", 43),
        ("random", 42),
        ("random", 43),
    ]
    assert set(found[0]["levels"][0]) == {
        "arrived_pct",
        "allocation_pct",
        "fragment_pct",
        "fragment_ratio_pct",
    }
    assert max(level["arrived_pct"] for level in found[0]["levels"]) > 100
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["fgd", "2"]


@pytest.mark.parametrize("chosen", ["online", "oracle", None])
def test_results_name_what_the_policies_knew_online_by_default(
    chosen: str | None, tmp_path: Path
) -> None:
    pods, nodes = openb(tmp_path)
    more = [] if chosen is None else ["--knowledge", chosen]
    out = tmp_path / "out"
    words = [pods, "--nodes", nodes, "--protocol", "fgd", "--policy", "fgd,default"]
    assert main(["simulate", *words, *more, "--out", str(out)]) == 0
    assert {one["knowledge"] for one in json.loads((out / "results.json").read_text())} == {
        chosen or "online"
    }
    assert f"{chosen or 'online'}: " in (out / "report.html").read_text()
    assert main(["simulate", SMALL, *more, "--out", str(out)]) == 0
    assert json.loads((out / "results.json").read_text())["knowledge"] == (chosen or "online")
    assert f"{chosen or 'online'}: " in (out / "report.html").read_text()


def test_the_protocol_needs_nodes_and_refuses_unknown_policies_and_columns(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pods, nodes = openb(tmp_path)
    assert main(["simulate", pods, "--protocol", "fgd"]) == 2
    assert "--nodes" in capsys.readouterr().err
    assert (
        main(["simulate", pods, "--nodes", nodes, "--protocol", "fgd", "--policy", "best-fitt"])
        == 2
    )
    assert "did you mean best-fit?" in capsys.readouterr().err
    assert main(["simulate", nodes, "--nodes", nodes, "--protocol", "fgd"]) == 2
    assert "lacks the columns name, num_gpu, gpu_milli" in capsys.readouterr().err
