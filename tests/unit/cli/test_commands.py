"""What single commands decide by themselves: words of run, limits, logs, the login file, doctor, the welcome."""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpupool import __version__
from gpupool.base.errors import BadFraction, BadOption, Internal, NotLoggedIn, StateUnusable
from gpupool.cli import check_rows, doctor, events, host_process, logs, report, up
from gpupool.cli.commands import SUMMARIES
from gpupool.cli.login import read_token, save
from gpupool.cli.main import OTHER_WORDS, main
from gpupool.cli.quota_limits import changed, parse_cards, read_limit
from gpupool.cli.run import _Words, grant_line
from gpupool.cli.stop import grace_seconds
from gpupool.cli.top import bar
from gpupool.client.transport import Api
from tests.unit.cli.golden import compare
from tests.unit.cli.sample import cards, job, pool, quota, sample_pool
from tests.unit.cli.sample import report as sample_report
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

# What run says --------------------------------------------------------------------------------------


def said_by_run(capsys: pytest.CaptureFixture[str], *told: tuple[str, dict[str, Any]], **options: bool) -> str:
    words = _Words(SimpleNamespace(quiet=False, verbose=False, **options) if not options else _options(**options))  # type: ignore[arg-type]
    for what, known in told:
        words.ended(known) if what == "ended" else words.tell(what, known)
    return capsys.readouterr().err


def _options(*, quiet: bool = False, verbose: bool = False) -> SimpleNamespace:
    return SimpleNamespace(quiet=quiet, verbose=verbose)


DONE = ("ended", job(state="done", exit_code=0))
STOPPED = ("ended", job(state="stopped", signal=15, reason="max time of 2s reached"))


def test_the_grant_names_both_numbers_card_model_and_fence() -> None:
    assert grant_line(job()) == "0.30 GPU (30 % compute) + 8192 MiB on node-1:0 (H200, SIMULATED) · fence: none"
    assert grant_line(job(simulated=False)).endswith("on node-1:0 (H200) · fence: none")
    assert grant_line(job(fence="advisory", fence_why="it is yours")).endswith("fence: advisory (it is yours)")


def test_into_a_pipe_run_says_why_it_waits_and_unchosen_ends_only(capsys: pytest.CaptureFixture[str]) -> None:
    waits = ("waiting", job(state="pending", reason="all 4 cards are in use"))
    said = said_by_run(
        capsys, ("waiting", job(state="pending")), waits, waits, ("granted", job()), ("away", job()), DONE
    )
    assert said == "gpupool: train waits: all 4 cards are in use\n"
    assert said_by_run(capsys, STOPPED) == "gpupool: train stopped: max time of 2s reached\n"


def test_verbose_run_says_everything(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_by_run(capsys, ("granted", job()), ("away", job()), ("back", job()), DONE, verbose=True)
    assert said == (
        "gpupool: 0.30 GPU (30 % compute) + 8192 MiB on node-1:0 (H200, SIMULATED) · fence: none\n"
        "gpupool: the pool does not answer; train is not affected, waiting for the pool to come back\n"
        "gpupool: the pool is back\n"
        "gpupool: train done after 1:30\n"
    )


def test_quiet_run_says_nothing_of_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    waits = ("waiting", job(state="pending", reason="full"))
    assert said_by_run(capsys, waits, ("granted", job()), STOPPED, DONE, quiet=True) == ""


# Limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "milli"), [("2", 2000), ("1.5", 1500), ("0", 0), (".25", 250), ("10.125", 10125)])
def test_quotas_are_cards_and_parts_of_them(text: str, milli: int) -> None:
    assert parse_cards(text) == milli


@pytest.mark.parametrize("text", ["", "-1", "x", "1.2345", "1e3", "1,5", "²"])
def test_what_is_no_number_of_cards_is_refused(text: str) -> None:
    with pytest.raises(BadFraction):
        parse_cards(text)


def test_limits_can_be_lifted_and_memory_can_be_nothing() -> None:
    assert read_limit("nominal_milli", "none") is None
    assert read_limit("nominal_memory_bytes", "0") == 0
    assert read_limit("nominal_memory_bytes", "1GiB") == 1 << 30


def test_setting_one_limit_keeps_the_others() -> None:
    known = quota(nominal_memory_bytes=5).model_dump(mode="json")
    none: dict[str, Any] = dict.fromkeys(
        ("nominal_milli", "borrowing_milli", "nominal_memory_bytes", "borrowing_memory_bytes")
    )
    assert changed(known, SimpleNamespace(**{**none, "nominal_milli": "4"})) == {  # type: ignore[arg-type]
        "nominal_milli": 4000,
        "nominal_memory_bytes": 5,
        "borrowing_milli": 1000,
        "borrowing_memory_bytes": 0,
        "lending_milli": None,
        "lending_memory_bytes": None,
        "weight_milli": 1000,
        "cohort": None,
        "others": [],
    }
    with pytest.raises(BadOption, match="nothing to set"):
        changed(known, SimpleNamespace(**none))  # type: ignore[arg-type]


def test_a_quota_is_written_naming_the_generation_that_was_read(tmp_path: Path) -> None:
    with sample_pool(tmp_path) as running:
        assert main(["--state-dir", str(tmp_path), "quota", "set", "nlp", "--gpus", "4"]) == 0
        put = running.requests[-1]
    assert (put.method, put.headers["if-match"]) == ("PUT", '"4"')


def test_a_grace_of_nothing_is_understood() -> None:
    assert (grace_seconds("0"), grace_seconds("1m")) == (0, 60)


# Logs ------------------------------------------------------------------------------------------------


def log_pool(state_dir: Path, data: bytes, *, dropped: int = 0) -> ScriptedPool:
    """A job's log as the server reads it; `dropped` bytes have been rotated away."""

    def answer(asked: Request) -> bytes:
        if "/logs" not in asked.target:
            return reply(job("train", "done", exit_code=5))
        query = dict(part.split("=") for part in asked.target.partition("?")[2].split("&"))
        offset, limit = int(query["offset"]), int(query["limit"])
        start = max(dropped, len(data) + dropped + offset if offset < 0 else offset)
        piece = data[start - dropped :][:limit]
        return reply(
            {
                "data": base64.b64encode(piece).decode(),
                "offset": start,
                "next_offset": start + len(piece),
                "dropped_bytes": max(0, start - max(0, offset)) if dropped else 0,
                "ended": start + len(piece) == len(data) + dropped,
            }
        )

    return ScriptedPool(state_dir, answer)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ([], b"one\ntwo\n\xff\nfour"),
        (["-n", "2"], b"\xff\nfour"),
        (["-n", "0"], b""),
        (["-n", "99"], b"one\ntwo\n\xff\nfour"),
    ],
)
def test_logs_are_bytes_and_can_begin_near_the_end(
    words: list[str], shown: bytes, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with log_pool(tmp_path, b"one\ntwo\n\xff\nfour"):
        assert main(["--state-dir", str(tmp_path), "logs", *words, "train"]) == 0
    assert capfdbinary.readouterr().out == shown


def test_a_last_line_with_its_end_counts_as_one_line(tmp_path: Path) -> None:
    with log_pool(tmp_path, b"one\ntwo\n") as running:
        from gpupool.base.client_settings import ClientSettings

        assert logs._tail(Api(ClientSettings(state_dir=running.state_dir)), "train", 1) == 4


def test_a_long_log_is_read_piece_by_piece(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "PIECE", 1000)
    data = os.urandom(10_500)
    with log_pool(tmp_path, data):
        assert main(["--state-dir", str(tmp_path), "logs", "-f", "--exit-code", "train"]) == 5
    assert capfdbinary.readouterr().out == data


def test_bytes_that_were_rotated_away_are_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with log_pool(tmp_path, b"rest\n", dropped=7):
        assert main(["--state-dir", str(tmp_path), "logs", "train"]) == 0
    assert capfd.readouterr() == ("rest\n", "gpupool: 7 bytes before this were dropped (rotation or quota)\n")


# Events, reports, bars -------------------------------------------------------------------------------


def test_an_event_is_one_line_and_cannot_be_two() -> None:
    event = {
        "seq": 7,
        "at_ns": 0,
        "kind": "job.running",
        "subject": "j-1",
        "tenant": "t",
        "data": {"a": {"b": 1}, "c": "x\ny", "d": None},
    }
    assert events.line(event) == '     7  1970-01-01T00:00:00Z  job.running       j-1  tenant=t a={"b":1} c=x\\ny'


def test_a_report_whose_rows_are_not_the_capacity_says_so_whatever_it_claims() -> None:
    broken = sample_report()
    broken["rows"][0]["card_milliseconds"] -= 1
    assert broken["closes"] is True
    assert report.closing(broken) == "DOES NOT CLOSE: rows 17999999, capacity 18000000 card-milliseconds"


@pytest.mark.parametrize(
    ("part", "drawn"), [(0, "····"), (1, "████"), (0.5, "██··"), (0.03, "▏···"), (7, "████"), (-1, "····")]
)
def test_bars_show_eighths_and_never_leave_their_box(part: float, drawn: str) -> None:
    assert bar(part, 4) == drawn


# Login -----------------------------------------------------------------------------------------------


def test_a_login_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "conf" / "login.json"
    before = os.umask(0)
    try:
        save(str(file), {"url": "https://h:1", "token": "secret"})
        save(str(file), {"url": "https://h:1", "token": "newer"})
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert json.loads(file.read_text())["token"] == "newer"
    assert os.listdir(file.parent) == ["login.json"]


def test_a_token_is_read_from_a_file_and_an_empty_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("gpp_x\nrest\n")
    assert read_token(str(tmp_path / "t")) == "gpp_x"
    (tmp_path / "t").write_text("\n")
    with pytest.raises(NotLoggedIn):
        read_token(str(tmp_path / "t"))
    with pytest.raises(BadOption, match="cannot read the token file"):
        read_token(str(tmp_path / "none"))


# Doctor ----------------------------------------------------------------------------------------------


def test_the_doctor_finds_other_sharers_by_the_programs_that_run(tmp_path: Path) -> None:
    for pid, line in (("10", b"/usr/bin/nvidia-cuda-mps-control\0-d\0"), ("11", b"bash\0"), ("self", b"x\0")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(line)
    found = doctor._sharers(str(tmp_path))
    assert (found["state"], found["text"]) == ("warn", "an MPS daemon (nvidia-cuda-mps-control)")


def test_the_doctor_says_what_the_running_pool_is(capsys: pytest.CaptureFixture[str]) -> None:
    checks = list(
        doctor._pool_checks({**pool(), "version": "9.9.9", "ready": False}, [{"name": "n", "ready": False}], "/s")
    )
    assert [(check["name"], check["state"], check["text"]) for check in checks] == [
        ("pool", "warn", "answers at /s, pid 1234, still taking its jobs back"),
        ("versions", "warn", f"client {__version__}, server 9.9.9"),
        ("cards", "warn", "of these nodes nothing is known now: n"),
    ]


def test_the_doctor_says_how_well_a_share_is_held_and_what_is_missing() -> None:
    fence = {"level": "soft", "why": "w", "way": "by name", "missing": [], "unclassified": [], "unclassified_count": 0}
    known = {"fence": {**fence, "reaction": "kill"}}
    held = doctor._fence(known, False)
    assert (held["state"], held["text"]) == ("ok", "shares of its cards: soft: w; by name; who leaves it: kill")
    newer = {
        **known["fence"],
        "level": "advisory",
        "unclassified": ["cuA", "cuB", "cuC", "cuD"],
        "unclassified_count": 9,
    }
    assert "unknown to this fence: cuA, cuB, cuC, …" in doctor._fence({"fence": newer}, False)["text"]
    alone = {**known["fence"], "missing": ["gpupool-arbiter"]}
    assert doctor._fence({"fence": alone}, True)["state"] == "warn"
    assert doctor._fence({"fence": {**known["fence"], "level": "none"}}, True)["state"] == "warn"
    assert doctor._fence({}, False)["state"] == "warn"


def test_the_doctors_table_ends_with_a_verdict() -> None:
    checks = [check_rows.check("python", "ok", "3.11"), doctor.check("supervisor", "fail", "missing", "reinstall")]
    assert check_rows.checks_table(checks).splitlines() == [
        "CHECK       STATE  FOUND",
        "python      ok     3.11",
        "supervisor  fail   missing",
        "",
        "next:",
        "  supervisor: reinstall",
        "",
        "1 of 2 checks failed",
    ]


def test_what_the_host_found_is_taken_as_it_is() -> None:
    said = {"checks": [{"name": "driver", "state": "ok", "text": "none", "next": "gpupool up --sim 4xL40S"}]}
    assert doctor._fact_checks(said, simulated=False) == said["checks"]


def test_accounting_that_is_off_is_a_row_of_information_and_no_row_elsewhere() -> None:
    known = {"driver_version": "580", "cgroups": "v2", "accounting": "off on 1 of 2 cards"}
    rows = doctor._fact_checks(known, simulated=False)
    assert [(one["state"], one["text"]) for one in rows if one["name"] == "accounting"] == [("ok", known["accounting"])]
    del known["accounting"]
    assert [one["name"] for one in doctor._fact_checks(known, simulated=False)] == ["driver", "cgroups", "fence"]


# Up --------------------------------------------------------------------------------------------------


def test_the_welcome_says_cards_places_next_steps_and_how_to_stop() -> None:
    text = up.welcome(
        pool(), cards(), ["/tmp/pool/gpupool.sock", "http://127.0.0.1:8470"], chosen=" --state-dir /tmp/pool"
    )
    text += "\n=== detached\n" + up.welcome({**pool(), "jobs_live": 0}, [], [], detached=True)
    compare("welcome", text + "\n")


def test_up_passes_its_options_on_with_files_by_their_full_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    options = SimpleNamespace(
        sim="4xL40S",
        tls_cert="a.pem",
        tls_key=None,
        store=None,
        node_name="n",
        fence_reaction="freeze",
        listen=["h:1", ":2"],
        label=["zone=z1", "sim-1:rack=r2"],
        job_limit=["nofile=10:20"],
        standby=True,
        insecure_http=True,
    )
    assert up.host_words(options) == [  # type: ignore[arg-type]
        "--sim", "4xL40S", "--tls-cert", str(tmp_path / "a.pem"), "--node-name", "n",
        "--fence-reaction", "freeze", "--listen", "h:1", "--listen", ":2",
        "--label", "zone=z1", "--label", "sim-1:rack=r2", "--job-limit", "nofile=10:20", "--standby",
        "--insecure-http",
    ]  # fmt: skip
    options.standby = False
    assert "--no-standby" in up.host_words(options)  # type: ignore[arg-type]
    options.standby = None
    assert not [word for word in up.host_words(options) if "standby" in word]  # type: ignore[arg-type]


def test_a_state_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnusable, match="cannot be used as state directory"):
        up.open_log(str(tmp_path / "file" / "state"))


def test_a_server_that_dies_without_a_word_is_told_with_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_process, "host_command", lambda *_: ["/bin/sh", "-c", "exit 3", "sh"])
    with open(tmp_path / "server.log", "wb") as log, pytest.raises(Internal, match="exit status 3") as caught:
        host_process.HostStart(str(tmp_path), [], log=log).ready()
    assert caught.value.hint == f"see {tmp_path}/server.log"


def test_a_server_that_refuses_is_repeated_with_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = '{"error": {"code": "GP-4003", "message": "a pool is already running (pid 7)", "hint": "gpupool down"}}'
    program = f"import os, sys; os.write(int(sys.argv[2]), {said.encode()!r}); sys.exit(6)"
    monkeypatch.setattr(host_process, "host_command", lambda *_: [sys.executable, "-c", program])
    with pytest.raises(Exception, match="already running") as caught:
        host_process.HostStart(str(tmp_path), [], log=None).ready()
    assert (caught.value.code, caught.value.exit_code) == ("GP-4003", 6)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("status", "gpupool ps"),
        ("cancel", "gpupool stop JOB"),
        ("kill", "gpupool stop JOB"),
        ("why", "gpupool explain JOB"),
        ("nvidia-smi", "gpupool gpus"),
        ("squeue", "gpupool ps"),
        ("sbatch", "gpupool submit -- COMMAND"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_ours(
    typed: str, ours: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([typed]) == 2
    said = capsys.readouterr().err
    assert f"unknown command '{typed}'" in said
    assert f"try: {ours}" in said


def test_every_word_of_another_tool_leads_to_a_command_of_ours() -> None:
    assert not set(OTHER_WORDS) & set(SUMMARIES)
    assert {ours.split()[1] for ours in OTHER_WORDS.values()} <= set(SUMMARIES)


def test_an_option_is_compared_without_its_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "--after", "x", "--", "true"]) == 2
    assert "did you mean" not in capsys.readouterr().err
    assert main(["submit", "--memroy", "1GiB", "--", "true"]) == 2
    assert "did you mean --memory?" in capsys.readouterr().err
