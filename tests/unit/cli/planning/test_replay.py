"""`gpupool replay`: the pool's log lived again, and each decision beside the one that was made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpupool.cli.main import main
from gpupool.cli.planning import replay
from gpupool.model.tenant import Permission
from gpupool.simulation.traces.decision_files import read_decisions
from tests.unit.cli.golden import compare

SECOND = 10**9
BEGIN = 1_790_000_000 * SECOND
Event = dict[str, Any]


@pytest.fixture(autouse=True)
def first_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the tests keeps its place."""
    monkeypatch.setattr(replay, "take_second_place", lambda: None)


def log() -> list[Event]:
    """Two nodes of two cards: a job is alone where binpack fills, one waited for no reason, a gang,
    an array."""
    events: list[Event] = []

    def add(second: float, kind: str, subject: str, tenant: str | None, **data: Any) -> None:
        at_ns = BEGIN + int(second * SECOND)
        events.append(
            {"at_ns": at_ns, "kind": kind, "subject": subject, "tenant": tenant, "data": data}
        )

    def job(
        name: str,
        came: float,
        placed: float,
        ended: float,
        node: str,
        *cards: int,
        milli: int = 1000,
    ) -> None:
        shape = {"gpu_milli": milli, "memory_bytes": 1 << 30, "count": len(cards)}
        add(came, "job.submitted", name, "nlp", name=name, count=1, shape=shape)
        ran(name, placed, ended, node, *cards)

    def ran(name: str, placed: float, ended: float, node: str, *cards: int) -> None:
        add(
            placed,
            "job.placed",
            name,
            "nlp",
            name=name,
            node=node,
            cards=[f"GPU-{node}-{card}" for card in cards],
        )
        add(ended, "job.ended", name, "nlp", name=name, state="done")

    for node in ("n1", "n2"):
        for card in range(2):
            facts = {"uuid": f"GPU-{node}-{card}", "model": "H200", "memory_bytes": 1 << 37}
            add(0, "device.added", f"{node}:{card}", None, **facts)
    add(0, "tenant.created", "nlp", "nlp", quota={})
    job("first", 10, 10.2, 500, "n1", 0, milli=500)
    job("alone", 20, 20.1, 600, "n2", 0, milli=500)
    job("late", 30, 90, 150, "n1", 1)
    whole = {"gpu_milli": 1000, "memory_bytes": None, "count": 1}
    add(1000, "job.submitted", "mpi", "nlp", name="mpi", gang="mpi", count=2, shape=whole)
    ran("mpi.0", 1000.1, 1100, "n1", 0)
    ran("mpi.1", 1000.1, 1100, "n1", 1)
    add(
        2000,
        "job.submitted",
        "many",
        "nlp",
        name="many",
        count=2,
        array=True,
        shape={**whole, "gpu_milli": 500},
    )
    ran("many.0", 2000.1, 2100, "n1", 0)
    ran("many.1", 2000.1, 2100, "n1", 0)
    events.sort(key=lambda event: event["at_ns"])
    return [{"seq": seq, **event} for seq, event in enumerate(events, 1)]


@pytest.fixture
def log_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in log()))
    monkeypatch.chdir(tmp_path)
    return "events.jsonl"


def test_every_decision_is_compared_with_the_log(
    log_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "--log", log_file, "--policy", "binpack"]) == 0
    compare("replay", capsys.readouterr().out)


def test_several_policies_are_rows(log_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--log", log_file, "--policy", "binpack,spread"]) == 0
    compare("replay-policies", capsys.readouterr().out)


def test_json_has_both_starts_of_what_differs(
    log_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "--log", log_file, "--policy", "binpack", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (one,) = found["replays"]
    counted = {
        verdict: one[verdict] for verdict in ("same", "elsewhere", "earlier", "later", "never")
    }
    assert counted == {"same": 5, "elsewhere": 1, "earlier": 1, "later": 0, "never": 0}
    alone, late = one["different"]
    assert (alone["job"], alone["log"]["node"], alone["replay"]["node"]) == ("alone", "n2", "n1")
    assert late["log"]["at_ns"] - late["replay"]["at_ns"] == 60 * SECOND
    assert alone["reason"]


def test_a_log_that_the_same_policy_wrote_has_no_difference(
    log_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["replay", "--log", log_file, "--policy", "binpack", "--from", "2026-09-21T14:30"])
        == 0
    )
    assert "every job starts when and where it did" in capsys.readouterr().out


def test_the_time_chooses_the_jobs(log_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--log", log_file, "--to", "2026-09-21T14:14", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 3
    for words, says in (
        (["--from", "2026-09-22"], "no job of that time"),
        (["--to", "2026-09-20"], "no job that was submitted before then"),
        (["--from", "1d", "--to", "2d"], "--from 1d is not before --to 2d"),
        (["--from", "yesterday"], "GP-1004"),
        (["--policy", "binpak"], "did you mean binpack?"),
    ):
        assert main(["replay", "--log", log_file, *words]) == 2
        assert says in capsys.readouterr().err


def test_a_replay_is_recorded_and_drawn(log_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--record", "run.parquet", "--page", "run.html"]
    assert main(["replay", "--log", log_file, "--policy", "fgd", *words]) == 0
    assert {row["claim"] for row in read_decisions("run.parquet")} >= {"first", "mpi.1", "many.1"}
    assert "<svg" in Path("run.html").read_text()
    check = ["simulate", "run.claims.csv", "--nodes", "run.nodes.csv", "--check", "run.parquet"]
    assert main(check) == 0


class Pages:
    """What a pool answers: itself, the caller, and its log page by page."""

    def __init__(self, *permissions: str) -> None:
        self._permissions = list(permissions)

    def request(self, method: str, path: str, *, query: dict[str, int] | None = None) -> Any:
        if path == "pool":
            return {"policy": "spread"}
        if path == "whoami":
            return {"permissions": self._permissions}
        assert query is not None
        return [event for event in log() if event["seq"] > query["after"]][: query["limit"]]


def test_the_pools_log_is_read_to_its_end_and_its_policy_decides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "gpupool.terminal.context.CommandContext.api", Pages(Permission.MANAGE_POOL)
    )
    monkeypatch.setattr("gpupool.cli.planning.pool_log.PAGE", 7)
    assert main(["replay", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["jobs"], found["replays"][0]["policy"]) == (7, "spread")


def test_a_caller_who_does_not_see_every_job_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpupool.terminal.context.CommandContext.api", Pages())
    assert main(["replay"]) == 4
    assert "GP-3002: only an admin" in capsys.readouterr().err


def test_ctrl_c_leaves_nothing(log_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpupool.simulation.studies.decisions.DecisionRecorder.on_end", interrupted)
    assert main(["replay", "--log", log_file, "--record", "run.csv"]) == 130
    assert [path.name for path in Path().iterdir()] == [log_file]
