"""`gpupool mig`: what is asked of the pool, the plan for people, and the switches of `apply`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpupool.cli.planning.mig_plan import format_plan
from gpupool.model.partition import write_profiles
from gpupool.probes.mig_tables import list_mig_profiles
from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.client.scripted_pool import ScriptedPool

CARD: dict[str, Any] = {
    "name": "node-1:0",
    "uuid": "GPU-0",
    "partitions": [{"profile": "1g.18gb", "start": 0, "size": 1}],
    "facts": {"profiles": write_profiles(list_mig_profiles("H200"))},
}
JOB: dict[str, Any] = {
    "name": "train",
    "seats": [{"uuid": "GPU-0", "start": 0}],
    "preemptible": True,
    "gang": None,
    "profile": "1g.18gb",
    "count": 1,
}


def test_a_demand_that_needs_a_move_prints_layout_and_move(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "devices", {"items": [CARD], "next": None})
    answer_with("GET", "jobs", {"items": [JOB], "next": None})
    code, out, _ = type_line("mig plan --demand 4g.71gb")
    assert code == 0
    assert out.splitlines() == [
        "CARD      NOW      PLANNED",
        "node-1:0  1g.18gb  4g.71gb + 1g.18gb",
        "",
        "1 job must move first:",
        "JOB    PROFILE  FROM             TO",
        "train  1g.18gb  node-1:0 unit 0  node-1:0 unit 6",
    ]
    assert any("state=running" in one.target for one in pool.requests)


def test_what_waits_is_the_demand_and_what_does_not_fit_is_refused(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "devices", {"items": [CARD], "next": None})
    answer_with("GET", "jobs", {"items": [{**JOB, "count": 8, "preemptible": False}], "next": None})
    code, out, _ = type_line("mig plan")
    assert code == 3
    assert "no slot: 2 x 1g.18gb; no layout of 1 card holds the demand" in out
    code, out, _ = type_line("mig plan -o json")
    assert (code, json.loads(out)["missing"]) == (3, {"1g.18gb": 2})


def test_a_pool_without_cards_in_partition_mode_is_refused(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "devices", {"items": [{**CARD, "partitions": None}], "next": None})
    answer_with("GET", "jobs", {"items": [], "next": None})
    code, _, err = type_line("mig plan --demand 1g")
    assert code == 3
    assert "of 1 cards none is in partition mode" in err


def test_nothing_to_plan_says_so() -> None:
    assert (
        format_plan({"cards": [], "switches": [], "moves": [], "missing": {}})
        == "no card changes\n"
    )


OFFER: dict[str, Any] = {"mode": "mig", "needs": "idle-card", "seconds": 2, "blocked_by": ""}
PLAIN: dict[str, Any] = {
    "name": "node-1:1",
    "uuid": "GPU-1",
    "node": "node-1",
    "model": "H200",
    "state": "adopted",
    "mode": "plain",
    "switch": None,
    "shares": 0,
    "partitions": None,
    "facts": {"modes": [OFFER]},
}
ANSWER: dict[str, Any] = {
    "device": "node-1:1",
    "mode": "plain",
    "wanted": "mig",
    "steps": ["ask the driver for MIG mode", "look at the card again"],
    "blocked_by": [],
    "state": "switching",
    "reason": "",
}
NOT_TOLD = "the pool was asked to switch a card"


def give_cards(answer_with: AnswerWith, *devices: dict[str, Any], jobs: Any = ()) -> None:
    answer_with("GET", "devices", {"items": list(devices), "next": None})
    answer_with("GET", "jobs", {"items": list(jobs), "next": None})


def list_asked(pool: ScriptedPool) -> list[Any]:
    return [one.json for one in pool.requests if one.target.endswith("devices/modes")]


def test_apply_switches_the_cards_and_follows_them_to_the_end(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    give_cards(answer_with, PLAIN)
    answer_with("POST", "devices/modes", [ANSWER])
    answer_with("GET", "devices/GPU-1", {**PLAIN, "mode": "mig"})
    code, out, _ = type_line("mig apply --demand 1g.18gb --yes")
    assert code == 0
    assert out.splitlines() == [
        "CARD      NOW  PLANNED",
        "node-1:1  --   1g.18gb",
        "",
        "1 card must be switched to MIG mode first:",
        "CARD      NEEDS      WAITS FOR",
        "node-1:1  idle-card  --",
        "will switch node-1:1 from plain to mig",
        "node-1:1: done",
    ]
    assert list_asked(pool) == [
        {
            "mode": "mig",
            "cards": [{"device": "GPU-1", "expected": "plain"}],
            "dry_run": False,
        }
    ]


def test_apply_again_has_nothing_left_to_do(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    give_cards(answer_with, CARD)
    code, out, _ = type_line("mig apply --demand 1g.18gb --yes")
    assert code == 0
    assert out.endswith("no card needs to be switched\n")
    assert list_asked(pool) == [], NOT_TOLD


def test_apply_moves_no_job_and_says_so(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    give_cards(answer_with, CARD, jobs=[JOB])
    code, out, _ = type_line("mig apply --demand 4g.71gb --yes")
    assert code == 0
    assert out.splitlines()[-2:] == [
        "apply moves no job: gpupool stop train",
        "no card needs to be switched",
    ]
    assert list_asked(pool) == [], NOT_TOLD


def test_apply_ends_with_1_where_a_switch_failed(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    give_cards(answer_with, PLAIN)
    answer_with("POST", "devices/modes", [ANSWER])
    answer_with("GET", "devices/GPU-1", PLAIN)
    answer_with("GET", "events", [])
    code, out, err = type_line("mig apply --demand 1g.18gb --yes -o json")
    assert code == 1
    (switch,) = json.loads(out)["switches"]
    assert (switch["card"], switch["state"]) == ("node-1:1", "failed")
    assert err == "node-1:1: failed: the event log does not say why\n"


def test_apply_without_a_yes_does_nothing(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    give_cards(answer_with, PLAIN)
    for output in ("table", "json"):
        code, _, err = type_line(f"mig apply --demand 1g -o {output}")
        assert code == 2
        assert "add --yes" in err
    assert list_asked(pool) == [], NOT_TOLD


def test_a_dry_run_shows_steps_and_blocks(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    give_cards(answer_with, PLAIN)
    blocked = {**ANSWER, "state": "planned", "blocked_by": ["this machine is a vGPU guest"]}
    answer_with("POST", "devices/modes", [blocked])
    code, out, _ = type_line("mig apply --demand 1g --dry-run")
    assert code == 1
    assert "  1. ask the driver for MIG mode\n" in out
    assert out.endswith("blocked: this machine is a vGPU guest\nnothing was changed\n")
    code, out, _ = type_line("mig apply --demand 1g --dry-run -o json")
    (switch,) = json.loads(out)["switches"]
    assert (code, switch["state"], switch["steps"]) == (1, "planned", ANSWER["steps"])
    assert [asked["dry_run"] for asked in list_asked(pool)] == [True, True]


def test_apply_without_waiting_says_how_to_look(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    give_cards(answer_with, PLAIN)
    answer_with("POST", "devices/modes", [ANSWER])
    code, _, err = type_line("mig apply --demand 1g --yes --no-wait")
    assert code == 0
    assert "the switch goes on without this command" in err
    assert "gpupool show node-1:1" in err


def test_what_finds_no_slot_names_the_cards_that_were_left_out(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    serve = {**JOB, "name": "serve", "seats": [{"uuid": "GPU-1", "start": None}]}
    give_cards(answer_with, CARD, PLAIN, jobs=[{**serve, "max_seconds": None}])
    code, out, _ = type_line("mig plan --demand 2x7g")
    assert code == 3
    assert "not switched: node-1:1: 1 job without a time limit runs on it: serve" in out
    code, out, _ = type_line("mig plan --demand 8x1g --with-endless")
    assert code == 0
    assert out.splitlines()[-1] == "node-1:1  idle-card  serve"


def write_plan(folder: Path, type_line: TypedLine, demand: str = "1g.18gb") -> Path:
    code, out, _ = type_line(f"mig plan --demand {demand} -o json")
    assert code == 0
    path = folder / "plan.json"
    path.write_text(out)
    return path


def test_a_plan_from_a_file_is_applied_as_it_was_made(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine, tmp_path: Path
) -> None:
    give_cards(answer_with, PLAIN)
    path = write_plan(tmp_path, type_line)
    in_mig = {**PLAIN, "mode": "mig", "partitions": []}
    answer_with("POST", "devices/modes", [{**ANSWER, "state": "done"}])
    answer_with("GET", "devices/GPU-1", in_mig)
    for devices in ([PLAIN], [in_mig]):
        give_cards(answer_with, *devices)
        code, out, _ = type_line(f"mig apply --plan {path} --yes")
        assert (code, out.splitlines()[-1]) == (0, "node-1:1: done")
    assert [asked["cards"][0]["expected"] for asked in list_asked(pool)] == ["plain", "plain"]


def test_a_plan_is_refused_that_the_cards_cannot_follow_any_more(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine, tmp_path: Path
) -> None:
    give_cards(answer_with, PLAIN)
    path = write_plan(tmp_path, type_line)
    give_cards(answer_with, {**PLAIN, "uuid": "GPU-9"})
    code, _, err = type_line(f"mig apply --plan {path} --yes")
    assert code == 6
    assert "1 of 1 cards of the plan have left the pool: node-1:1" in err
    serve = {**JOB, "name": "serve", "seats": [{"uuid": "GPU-1", "start": None}]}
    give_cards(answer_with, PLAIN, jobs=[{**serve, "max_seconds": None}])
    code, _, err = type_line(f"mig apply --plan {path} --yes")
    assert code == 3
    assert "node-1:1 cannot be drained: 1 job without a time limit runs on it: serve" in err
    other = {**OFFER, "profiles": write_profiles(list_mig_profiles("A30"))}
    give_cards(answer_with, {**PLAIN, "facts": {"modes": [other]}})
    code, _, err = type_line(f"mig apply --plan {path} --yes")
    assert code == 2
    assert "node-1:1 (H200) has no profile '1g.18gb'" in err
    assert "known: 1g.6gb" in err
    assert list_asked(pool) == [], NOT_TOLD


def test_what_is_no_plan_is_refused(type_line: TypedLine, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for text, problem in (
        ("{", "is no JSON"),
        ("[]", "is no plan of this version"),
        ('{"cards": [], "switches": [{"card": 1}]}', "is no plan of this version"),
    ):
        path.write_text(text)
        code, _, err = type_line(f"mig apply --plan {path}")
        assert code == 2
        assert problem in err
    code, _, err = type_line(f"mig apply --plan {tmp_path}/none")
    assert code == 2
    assert "cannot be read: No such file" in err
    code, _, err = type_line(f"mig apply --plan {path} --demand 1g")
    assert code == 2
    assert "exclude each other" in err
