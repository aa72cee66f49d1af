"""Files that are checked: lists and records that are no tables are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.cli.main import main
from gpupool.simulation.replay import protocol_record
from gpupool.simulation.studies import decisions


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ("job,arrival_seconds,gpu_milli,seconds\na,x,500,1\n", "line 2, column arrival_seconds"),
        (
            "job,arrival_seconds,gpu_milli,seconds\na,0,500,1\nb,0\n",
            "line 3: 2 cells, the header has 4",
        ),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1001\n", "line 2, column gpu_milli"),
        ("job,arrival_seconds,gpu_milli,seconds\n", "it has a header and no lines"),
    ],
)
def test_check_names_the_line_of_a_bad_list(
    claims: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "claims.csv").write_text(claims)
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,1000,1000,1,T4\n")
    (tmp_path / "run.csv").write_text(",".join(decisions.COLUMNS) + "\n")
    words = ["simulate", str(tmp_path / "claims.csv"), "--nodes", str(tmp_path / "nodes.csv")]
    assert main([*words, "--check", str(tmp_path / "run.csv")]) == 2
    assert says in capsys.readouterr().err


def test_a_record_of_the_other_kind_is_refused_with_what_made_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "claims.csv").write_text("job,arrival_seconds,gpu_milli,seconds\na,0,500,1\n")
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,1000,1000,1,T4\n")
    words = [
        "simulate",
        str(tmp_path / "claims.csv"),
        "--nodes",
        str(tmp_path / "nodes.csv"),
        "--check",
    ]
    (tmp_path / "run.csv").write_text(",".join(protocol_record.COLUMNS) + "\n")
    assert main([*words, str(tmp_path / "run.csv")]) == 2
    assert "--protocol fgd" in capsys.readouterr().err
    (tmp_path / "run.csv").write_text(",".join(decisions.COLUMNS) + "\n")
    assert main([*words, str(tmp_path / "run.csv")]) == 1
    assert "it has no line" in capsys.readouterr().out
