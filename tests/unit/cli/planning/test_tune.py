"""`gpupool whatif --tune`: reads the pool's log, computes behind everything else, and tells what it
found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpupool.cli.main import main
from gpupool.cli.planning import tune
from gpupool.model.tenant import Permission
from tests.unit.cli.golden import compare

HOUR = 3600 * 10**9
DAYS = 4


@pytest.fixture(autouse=True)
def first_place(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The process of the tests keeps its place; whether it was asked to step back."""
    asked: list[bool] = []
    monkeypatch.setattr(tune, "take_second_place", lambda: asked.append(True))
    return asked


def log(days: int = DAYS, start_ns: int = 1000 * HOUR) -> list[dict[str, Any]]:
    """A pool of four cards: `small` is limited to one and has two hours' work each hour, from 0 to
    16 h."""
    events: list[dict[str, Any]] = []

    def add(at_ns: int, kind: str, subject: str, tenant: str | None, **data: Any) -> None:
        events.append(
            {"at_ns": at_ns, "kind": kind, "subject": subject, "tenant": tenant, "data": data}
        )

    for index in range(4):
        add(start_ns, "device.added", f"node-1:{index}", None, model="H200", memory_bytes=1 << 37)
    for name, milli in (("small", 1000), ("large", 3000)):
        quota = {"nominal_milli": milli, "borrowing_milli": 0}
        add(start_ns, "tenant.created", name, name, quota=quota)
    for hour in (hour for hour in range(24 * days) if hour % 24 < 16):
        for name in ("small", "large"):
            at, job = start_ns + hour * HOUR, f"{name}-{hour}"
            add(
                at,
                "job.submitted",
                job,
                name,
                name=job,
                count=1,
                shape={"gpu_milli": 1000, "memory_bytes": None},
            )
            add(at + HOUR // 2, "job.placed", job, name, name=job, node="node-1", cards=[])
            add(at + 5 * HOUR // 2, "job.ended", job, name, name=job, state="done")
    events.sort(key=lambda event: event["at_ns"])
    return [{"seq": seq, **event} for seq, event in enumerate(events, 1)]


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in log()))
    return path


def test_a_log_is_replayed_and_advice_told(
    log_file: Path, capsys: pytest.CaptureFixture[str], first_place: list[bool]
) -> None:
    assert main(["whatif", "--tune", "--log", str(log_file), "--policy", "binpack"]) == 0
    compare("whatif-tune", capsys.readouterr().out)
    assert first_place == [True], "it steps back before it computes"


def test_json_has_every_interval(log_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["whatif", "--tune", "--log", str(log_file), "--policy", "binpack", "-o", "json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["history"]["recorded"] == {
        "jobs": 128,
        "p50_seconds": 1800.0,
        "p95_seconds": 1800.0,
    }
    best = found["changes"][0]
    assert best["verdict"] == "shorter"
    assert (
        best["p95_difference"]["low"]
        <= best["p95_difference"]["estimate"]
        <= best["p95_difference"]["high"]
        < 0
    )


class Pages:
    """What a pool answers: itself, the caller, and its log page by page."""

    def __init__(self, permissions: list[str], events: list[dict[str, Any]]) -> None:
        self.permissions, self.events, self.asked = permissions, events, list[str]()

    def request(self, method: str, path: str, *, query: dict[str, int] | None = None) -> Any:
        self.asked.append(path)
        if path == "pool":
            return {"policy": "binpack"}
        if path == "whoami":
            return {"permissions": self.permissions}
        assert query is not None
        return [event for event in self.events if event["seq"] > query["after"]][: query["limit"]]


def test_the_pools_own_log_is_read_to_its_end_and_its_policy_is_the_base(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    events = log(days=5)
    pool = Pages([Permission.MANAGE_POOL], events)
    monkeypatch.setattr("gpupool.terminal.context.CommandContext.api", pool)
    monkeypatch.setattr("time.time_ns", lambda: 1000 * HOUR + 5 * 24 * HOUR)
    monkeypatch.setattr("gpupool.cli.planning.pool_log.PAGE", 100)
    assert main(["whatif", "--tune", "--policy", "default", "-o", "json", "--history", "4d"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert pool.asked.count("events") == len(events) // 100 + 2
    assert (found["before"]["policy"], found["history"]["jobs"]) == ("binpack", 128)


def test_a_caller_who_does_not_see_every_job_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpupool.terminal.context.CommandContext.api", Pages([], log()))
    assert main(["whatif", "--tune"]) == 4
    assert "GP-3002: only an admin sees the jobs of all tenants" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--add", "4xL40S"], 2, "--add and --tune do not go together"),
        (["--policy", "binpak"], 2, "did you mean binpack?"),
        (["--quota", "nobody=1"], 5, "GP-3004: no job of a tenant nobody"),
        (["--within", "0s"], 2, "GP-1004"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_next_step(
    words: list[str], code: int, says: str, log_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["whatif", "--tune", "--log", str(log_file), *words]) == code
    assert says in capsys.readouterr().err


def test_a_short_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "short.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in log(days=1)))
    assert main(["whatif", "--tune", "--log", str(path)]) == 3
    assert "GP-2038: the history has 32 jobs in 3 blocks of 6 h" in capsys.readouterr().err


def test_a_log_without_a_job_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in log(days=0)))
    assert main(["whatif", "--tune", "--log", str(path)]) == 3
    assert "GP-2038" in capsys.readouterr().err


def test_ctrl_c_ends_it(log_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpupool.simulation.studies.tune.replay_history", interrupted)
    assert main(["whatif", "--tune", "--log", str(log_file)]) == 130


def test_it_steps_back_behind_everything_else() -> None:
    """In a process of its own: niceness, a bound on what it holds, and the first to go when memory
    runs out."""
    import subprocess
    import sys

    code = (
        "import os, resource; from gpupool.cli.planning.tune import take_second_place as back, MOST_BYTES, _OOM_SCORE;"
        "back(); print(os.nice(0), resource.getrlimit(resource.RLIMIT_DATA)[0] <= MOST_BYTES, _OOM_SCORE.read_text())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    nice, bounded, score = said.split()
    assert (int(nice) >= tune.NICE, bounded, score) == (True, "True", "1000")
