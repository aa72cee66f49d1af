"""`gpupool faults`: what it asks of a pool, and what people read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import UnknownXid
from gpupool.cli.pool.faults import run
from gpupool.model.faults.catalogue import read_xids
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import parse_command
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

ROW: dict[str, Any] = {
    "id": "x-0123456789",
    "node": "node-1",
    "card": "node-1:3",
    "xid": 94,
    "meaning": "a memory error was contained: only the program that used it ended",
    "state": "open",
    "containment": "drain-card",
    "repair": "reset",
    "first_ns": 10**18,
    "last_ns": 10**18 + 10**9,
    "going_on": True,
    "xids": 2,
    "jobs": 1,
}
INCIDENT: dict[str, Any] = {
    **ROW,
    "evidence": [
        {
            "card": "node-1:3",
            "uuid": "GPU-3",
            "xid": 94,
            "mnemonic": "ROBUST_CHANNEL_CONTAINED_ERROR",
            "meaning": "a memory error was contained: only the program that used it ended",
            "at_ns": 10**18,
            "recovery": None,
        }
    ],
    "affected": [
        {
            "job": "j-0123456789",
            "name": "train",
            "tenant": "nlp",
            "user": "ada",
            "card": "node-1:3",
            "state": "failed",
            "ended_by_fault": True,
        }
    ],
    "advice": "A reset is proposed, and no card that it would touch is in use.",
    "next": "gpupool faults accept x-0123456789",
    "note": "",
    "accepted_by": None,
    "accepted_ns": None,
    "closed_by": None,
    "closed_ns": None,
}


def type_words(directory: Path, answer: object, *words: str) -> Request:
    """Type the command at a pool with this answer; return what it asked."""

    def give(_asked: Request) -> bytes:
        return reply(answer)

    state = directory / f"pool-{len(list(directory.iterdir()))}"
    with ScriptedPool(state, give) as server:
        context = CommandContext(str(state))
        assert run(parse_command("faults", list(words)), context) == 0
        (asked,) = server.requests
        return asked


def test_the_list_names_card_xid_and_proposal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = type_words(tmp_path, [ROW], "list", "--node", "node-1", "--all")
    assert (asked.method, asked.target) == ("GET", "/api/v1/faults?node=node-1&all=true")
    line = capsys.readouterr().out.splitlines()[1]
    assert line.startswith("x-0123456789  open, going on  node-1:3   94  a memory error")
    assert "drain-card  reset" in line


def test_one_incident_shows_evidence_jobs_and_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = type_words(tmp_path, INCIDENT, "show", "x-0123456789")
    assert asked.target == "/api/v1/faults/x-0123456789"
    shown = capsys.readouterr().out
    assert "blamed    XID 94: a memory error was contained" in shown
    assert "j-0123456789  train  nlp     ada   node-1:3  failed  yes" in shown
    assert shown.endswith(
        "A reset is proposed, and no card that it would touch is in use.\n"
        "next:  gpupool faults accept x-0123456789\n"
    )


def test_accept_and_close_send_one_request_and_print_what_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accepted = {**INCIDENT, "state": "accepted", "next": "nvidia-smi --gpu-reset -i GPU-3"}
    asked = type_words(tmp_path, accepted, "accept", "x-0123456789")
    assert asked.target == "/api/v1/faults/x-0123456789/accept"
    assert "next:  nvidia-smi --gpu-reset -i GPU-3" in capsys.readouterr().out
    closed = {**INCIDENT, "state": "closed", "advice": "The incident is closed.", "next": ""}
    words = ("close", "x-0123456789", "--note", "reset", "--still-failed")
    assert type_words(tmp_path, closed, *words).json == {"note": "reset", "still_failed": True}
    assert capsys.readouterr().out == "x-0123456789 is closed\nThe incident is closed.\n"


def test_an_xid_is_explained_without_a_pool(capsys: pytest.CaptureFixture[str]) -> None:
    context = CommandContext("/nonexistent")
    assert run(parse_command("faults", ["xid", "79"]), context) == 0
    shown = capsys.readouterr().out
    assert "NVIDIA, at once  RESTART_BM" in shown
    assert "proposed         reboot" in shown
    assert run(parse_command("faults", ["xid", "162"]), context) == 0
    assert "NVIDIA, at once  --" in capsys.readouterr().out
    assert run(parse_command("faults", ["xid", "-o", "json"]), context) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["xid"] for row in rows] == list(read_xids())


def test_an_unknown_xid_names_the_catalogue() -> None:
    with pytest.raises(UnknownXid, match="XID 7 is not in the catalogue"):
        run(parse_command("faults", ["xid", "7"]), CommandContext("/nonexistent"))
