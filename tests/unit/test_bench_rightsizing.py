"""A trace of use becomes runs: hours, without what was not measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.figures import rightsizing
from bench.use_traces import COMPUTE_FILE, FOLDER, MEMORY_FILE, find_folder, group_by_pod, read_pods
from gpupool.rightsizing.backtest import ADVISED, HIGHEST

HOURS = 9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pod that uses 30 % of a card for some hours, with a sample a minute and one long pause."""
    compute = ["value,timestamp_anon,container_ip"]
    memory = ["timestamp_anon,value,container_ip"]
    for minute in range(HOURS * 60 + 1):
        # From minute 10 to minute 20 of the second hour nothing was measured.
        if 70 < minute < 80:
            continue
        compute.append(f"30.0,{minute * 60}.0,a")
        memory.append(f"{minute * 60}.0,{2**30 + minute},a")
    (tmp_path / COMPUTE_FILE).write_text("\n".join(compute) + "\n")
    (tmp_path / MEMORY_FILE).write_text("\n".join(memory) + "\n")
    return tmp_path


def test_hours_become_runs_and_a_pause_is_unknown(folder: Path) -> None:
    (runs,) = group_by_pod(read_pods(folder))

    assert [run.start_s for run in runs] == [hour * 3600 for hour in range(HOURS)]
    assert runs[0].use.total == 3600
    assert runs[1].use.total == 3600 - 600
    assert runs[0].use.find_percentile(95) == 300
    assert runs[0].peak_bytes == 2**30 + 59


def test_the_figures_compare_the_advice_with_both_peers(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(folder))

    rows = {row.figure: row for row in rightsizing.run(tmp_path)}

    saved = rows[f"family = pod: saved card-hours, peer {HIGHEST}"]
    assert saved.ours == pytest.approx(65)
    assert saved.peer == pytest.approx(70)
    assert rows[f"family = service: starved time, peer {HIGHEST}"].holds
    by_policy = rows[f"family = pod, policy wide: saved card-hours, peer {HIGHEST}"]
    # 0.4 of a card: a policy takes more head-room than the advice.
    assert by_policy.ours == pytest.approx(60)
    assert ADVISED in (tmp_path / "rightsizing-methods.json").read_text()


def test_without_a_trace_there_is_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(FOLDER, raising=False)

    assert rightsizing.run(tmp_path) == []
    assert FOLDER in capsys.readouterr().err
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=COMPUTE_FILE):
        find_folder()
