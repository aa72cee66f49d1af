"""Jobs by the command line on a real pool: attached, submitted, refused, waiting, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.client import Pool
from tests.e2e.pool_fixture import GPUPOOL, RealPool, Terminal


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    with RealPool(tmp_path_factory.mktemp("jobs") / "pool") as running:
        yield running


@pytest.fixture(autouse=True)
def clean(pool: RealPool) -> Iterator[None]:
    yield
    pool.stop_all()


SHARE = ("--gpu", "0.3", "--memory", "8GiB")


def test_run_carries_only_the_programs_bytes_on_stdout_and_its_exit_code(pool: RealPool) -> None:
    done = pool.run("run", *SHARE, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_run_passes_stdin_through_byte_by_byte(pool: RealPool) -> None:
    data = os.urandom(200_000)
    done = pool.run("run", *SHARE, "cat", stdin=None, input=data, text=False)
    assert (done.returncode, done.stdout) == (0, data)


def test_run_gives_the_program_the_callers_surroundings(pool: RealPool, tmp_path: Path) -> None:
    script = 'pwd; umask; printf "%s\\n" "$MINE"; ulimit -n'
    command = ["bash", "-c", f'umask 027; ulimit -n 512; cd {tmp_path}; exec "$@"', "x"]
    done = subprocess.run(
        [*command, *GPUPOOL, "run", *SHARE, "--", "sh", "-c", script],
        env={**pool.environ, "MINE": "ä b"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{tmp_path}\n0027\nä b\n512\n"


def test_verbose_run_tells_the_grant_and_the_end_on_stderr(pool: RealPool) -> None:
    done = pool.run("run", "-v", *SHARE, "--name", "hello", "--", "true")
    grant, end = done.stderr.splitlines()
    said, _, fence = grant.partition(" · fence: ")
    assert said == "gpupool: 0.30 GPU (30 % compute) + 8192 MiB on sim-0:0 (L40S, SIMULATED)"
    assert fence.startswith("soft (" if os.geteuid() == 0 else "advisory (")
    assert end.startswith("gpupool: hello done after 0:0")


def test_the_share_is_free_when_run_returns(pool: RealPool) -> None:
    pool.do("run", "--gpu", "1", "--", "true")
    assert pool.held_milli() == 0


def test_a_job_ended_by_a_signal_exits_as_in_a_shell(pool: RealPool) -> None:
    assert pool.run("run", *SHARE, "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_a_program_that_is_not_there_is_127_and_no_job(pool: RealPool) -> None:
    before = len(pool.json("ps", "--all"))
    done = pool.run("run", *SHARE, "--", "no-such-program")
    assert done.returncode == 127
    assert done.stderr.startswith("gpupool: GP-1006: command not found: no-such-program\n")
    assert len(pool.json("ps", "--all")) == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--gpu 0.9 --memory 200Gi", 3, "GP-2001: no card has 200Gi"),
        ("--gpu 0", 2, "GP-1002: --gpu 0 asks for nothing"),
        ("--gpu 1.5 --count 2", 2, "GP-1002: --gpu 1.5: above one card"),
        ("--gpu 0.3 --memory 8", 2, "GP-1001: 8 bytes? did you mean 8GiB?"),
        ("--gpu 1 --model L40X", 2, "GP-1020: no card of model"),
        ("--gpu 0.3 --tenant nobody", 5, "GP-3004: no tenant 'nobody'"),
        ("--gpu 5", 3, "GP-2004: "),
        ("--gpu 0.3 --name a/b", 2, "GP-1003: job name 'a/b' cannot be used"),
        ("--gpu 0.3 --max-time 90", 2, "GP-1004: '90' is not a duration"),
        ("--gpu 0.3 --priority urgent", 2, "GP-1005: "),
    ],
)
def test_a_refusal_has_a_code_and_changes_nothing(
    pool: RealPool, words: str, code: int, said: str
) -> None:
    before = pool.json("ps", "--all")
    done = pool.run("run", *words.split(), "--", "true")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"gpupool: {said}"), done.stderr
    assert pool.json("ps", "--all") == before


def test_an_environment_that_is_no_utf8_is_refused_by_name(pool: RealPool) -> None:
    done = pool.run("run", *SHARE, "--", "true", environ={"BAD": os.fsdecode(b"a\xff")})
    assert done.returncode == 2
    assert (
        "the environment variable BAD is not valid UTF-8 (byte 0xff at position 1)" in done.stderr
    )


def test_a_claim_beyond_what_is_free_waits_says_why_and_starts_when_there_is_room(
    pool: RealPool,
) -> None:
    pool.do("submit", "--gpu", "4", "--name", "all", "--", "sleep", "600")
    pool.until_state("all", "running")
    refused = pool.run("run", "--gpu", "1", "--no-wait", "--", "true")
    assert refused.returncode == 3
    assert refused.stderr.startswith("gpupool: GP-2003: ")
    with pool.start("run", "--gpu", "1", "--name", "late", "--", "echo", "started") as waiting:
        pool.until_state("late", "pending")
        assert "4 cards are in use" in pool.do("explain", "late")
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith(b"gpupool: late waits: ")
        pool.do("stop", "all")
        out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (0, b"started\n", b"")


def test_ctrl_c_while_waiting_takes_the_job_out_of_the_queue(pool: RealPool) -> None:
    pool.do("submit", "--gpu", "4", "--name", "all2", "--", "sleep", "600")
    with pool.start("run", "--gpu", "1", "--name", "gone", "--", "true") as waiting:
        pool.until_state("gone", "pending")
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert pool.until_state("gone", "stopped")


def test_ctrl_c_while_running_ends_the_job_and_frees_the_share(pool: RealPool) -> None:
    with pool.start("run", *SHARE, "--name", "busy", "--", "sleep", "600") as running:
        pool.until_state("busy", "running")
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    assert running.returncode == 130
    assert pool.held_milli() == 0


def test_a_lease_ends_after_its_client_and_never_before(pool: RealPool) -> None:
    with pool.start("run", *SHARE, "--name", "attended", "--", "sleep", "600") as attended:
        pool.until_state("attended", "running")
        with pool.start("run", *SHARE, "--name", "orphan", "--", "sleep", "600") as orphan:
            pool.until_state("orphan", "running")
            orphan.kill()
        try:
            assert pool.held_milli() == 600
            ended = pool.until_state("orphan", "stopped")
            assert ended["reason"] == "its client went away and did not come back in time"
            # The attended job is older than the whole lease that has ended by now.
            assert pool.held_milli() == 300
        finally:
            attended.send_signal(signal.SIGINT)
        attended.communicate(timeout=60)
    assert attended.returncode == 130


def test_max_time_ends_a_job_and_run_says_so(pool: RealPool) -> None:
    begun = time.monotonic()
    done = pool.run("run", *SHARE, "--max-time", "1s", "--name", "long", "--", "sleep", "600")
    assert time.monotonic() - begun < 20
    assert done.returncode == 143
    assert done.stderr == "gpupool: long failed: ran longer than its --max-time\n"


def test_submit_prints_the_id_and_the_log_is_kept(pool: RealPool) -> None:
    printed = pool.do(
        "submit", *SHARE, "--name", "logged", "--", "sh", "-c", "for i in 1 2 3; do echo $i; done"
    )
    assert printed.strip() == pool.job("logged")["id"]
    assert pool.do("logs", "-f", "logged") == "1\n2\n3\n"
    assert pool.do("logs", "-n", "1", "last") == "3\n"
    assert pool.run("logs", "-f", "--exit-code", "logged").returncode == 0


def test_an_array_is_one_submission_of_many_jobs(pool: RealPool) -> None:
    assert (
        pool.do("submit", "--gpu", "0.5", "--array", "20", "--name", "sweep", "--", "true")
        == "sweep\n"
    )
    assert sum(job["jobs"] for job in pool.json("ps", "--all", "sweep")) == 20
    pool.until(
        lambda: {job["state"] for job in pool.json("ps", "--all", "sweep")} == {"done"},
        "array done",
    )
    assert sorted(job["name"] for job in pool.json("ps", "--all", "sweep")) == sorted(
        f"sweep.{n}" for n in range(20)
    )
    assert pool.json("show", "sweep")["states"] == {"done": 20}


def test_an_array_is_shown_as_one_and_its_jobs_by_their_names(pool: RealPool) -> None:
    pool.do("submit", "--gpu", "1", "--array", "1000000", "--name", "wide", "--", "sleep", "600")
    cards = len(pool.json("gpus"))
    pool.until(
        lambda: pool.json("show", "wide")["states"].get("running") == cards,
        "the first of the array run",
    )
    rest = f"wide.[{cards}-999999]"
    assert rest in pool.do("ps", "wide")
    assert "1000000, wide.0 to wide.999999" in pool.do("show", "wide")
    assert (
        f"wide is an array of 1000000 jobs; the next of {1_000_000 - cards} that wait:"
        in pool.do("explain", "wide")
    )
    refused = pool.run("logs", "wide")
    assert refused.returncode == 3
    assert "GP-2045: wide is an array of 1000000 jobs, not one job" in refused.stderr
    assert f"gpupool logs wide.{cards - 1}" in refused.stderr
    assert pool.do("logs", "wide.0") == ""
    assert pool.json("show", "wide.777")["state"] == "pending"
    stopped = pool.do("stop", "wide", "--grace", "0s")
    assert f"{rest} stopped" in stopped
    assert pool.json("show", "wide")["states"] == {"stopped": 1_000_000}


def test_stop_waits_for_the_end_and_names_what_it_cannot_find(pool: RealPool) -> None:
    pool.do("submit", *SHARE, "--name", "one", "--", "sleep", "600")
    done = pool.run("stop", "one", "nobody")
    assert (done.returncode, done.stdout) == (5, "one stopped\n")
    assert done.stderr.startswith("gpupool: GP-3003: ")


def test_a_stubborn_job_is_killed_when_its_grace_is_over(pool: RealPool) -> None:
    pool.do(
        "submit",
        *SHARE,
        "--name",
        "stubborn",
        "--",
        "sh",
        "-c",
        "trap '' TERM; echo up; while :; do sleep 1; done",
    )
    pool.until(lambda: pool.do("logs", "stubborn") == "up\n", "the trap is set")
    assert pool.do("stop", "stubborn", "--grace", "1s") == "stubborn stopped\n"
    assert pool.job("stubborn")["signal"] == 9


def test_ps_as_json_is_what_scripts_rely_on(pool: RealPool) -> None:
    pool.do("submit", *SHARE, "--name", "listed", "--", "sleep", "600")
    pool.until_state("listed", "running")
    listed = next(job for job in pool.json("ps") if job["name"] == "listed")
    assert (listed["gpu_milli"], listed["memory_bytes"], listed["device"]) == (
        300,
        8 << 30,
        "sim-0:0",
    )
    assert listed["simulated"] is True


def test_the_sdk_runs_submits_and_watches(
    pool: RealPool, capfd: pytest.CaptureFixture[str]
) -> None:
    with Pool(pool.state_dir) as sdk:
        last = sdk.api.request("GET", "pool")["last_event"]
        ran = sdk.run(["echo", "from the sdk"], gpu=0.25, memory="1GiB")
        submitted = sdk.submit("sh -c 'echo kept'", gpu=0.1, name="kept").first
        assert sdk.wait(submitted.id).state == "done"
        assert b"".join(sdk.logs("kept", follow=True)) == b"kept\n"
        kinds = []
        for event in sdk.watch(last):
            kinds.append((event.kind, event.subject))
            if event.kind == "job.ended" and event.subject == submitted.id:
                break
    assert capfd.readouterr().out == "from the sdk\n"
    assert (ran.state, ran.exit_code) == ("done", 0)
    assert [kind for kind, subject in kinds if subject == ran.id] == [
        "job.submitted", "job.placed", "job.running", "job.ended",
    ]  # fmt: skip


def test_the_report_closes_in_every_format(pool: RealPool) -> None:
    pool.do("run", "--gpu", "1", "--", "sleep", "2")
    report = pool.json("report", "--since", "1h", "--by", "tenant,user,card")
    assert (
        sum(row["card_milliseconds"] for row in report["rows"])
        == report["capacity_card_milliseconds"]
        > 0
    )
    assert {row["kind"] for row in report["rows"]} <= {"tenant", "idle", "overhead", "unmanaged"}
    assert any(
        row["kind"] == "tenant" and row["card_milliseconds"] >= 1000 for row in report["rows"]
    )
    assert "closes: the rows are the capacity exactly" in pool.do("report")


def test_a_program_on_a_terminal_gets_a_terminal_and_a_log(pool: RealPool, tmp_path: Path) -> None:
    program = (
        "import os, sys; print(sys.stdin.isatty(), os.get_terminal_size(), input(), flush=True)"
    )
    (tmp_path / "p.py").write_text(program)
    with Terminal(33, 101) as terminal:
        ends = {"stdin": terminal.side, "stdout": terminal.side, "stderr": terminal.side}
        words = [
            "run",
            "--gpu",
            "0.1",
            "--name",
            "shown",
            "--",
            sys.executable,
            str(tmp_path / "p.py"),
        ]
        with pool.start(*words, **ends, start_new_session=True) as running:
            terminal.until(b"fence: ")
            terminal.type(b"typed\r")
            assert terminal.until_ended(running) == 0
    assert b"True os.terminal_size(columns=101, lines=33) typed" in terminal.seen
    assert b"done after 0:0" in terminal.seen
    log = pool.do("logs", "-f", "shown")
    assert log.splitlines() == [
        "typed",
        "True os.terminal_size(columns=101, lines=33) typed",
    ]


def test_ctrl_c_typed_on_the_terminal_reaches_the_program(pool: RealPool) -> None:
    script = "trap 'echo caught; exit 42' INT; echo ready; while :; do sleep 0.1; done"
    with Terminal() as terminal:
        ends = {"stdin": terminal.side, "stdout": terminal.side, "stderr": terminal.side}
        with pool.start(
            *("run", "--gpu", "0.1", "--no-keep-output", "--name", "private"),
            *("--", "sh", "-c", script),
            **ends,
            start_new_session=True,
        ) as running:
            terminal.until(b"ready")
            terminal.type(b"\x03")
            assert terminal.until_ended(running) == 42
    assert b"caught" in terminal.seen
    refused = pool.run("logs", "private")
    assert (refused.returncode, refused.stderr[:18]) == (5, "gpupool: GP-3003: ")


def test_a_running_job_is_resized_without_a_stop_and_reads_its_new_share(pool: RealPool) -> None:
    script = 'while sleep 0.05; do grep -h memory_bytes "$GPUPOOL_SHARE/share.json"; done'
    pool.do("submit", *SHARE, "--name", "grows", "--", "sh", "-c", script)
    pool.until_state("grows", "running")
    told = pool.json("resize", "grows", "--gpu", "0.6", "--memory", "9GiB")
    assert (told["changed"], told["applied"], told["job"]["share"]) == (
        True,
        True,
        "0.60 GPU (60 % compute) + 9216 MiB",
    )
    pool.until(
        lambda: str(9 << 30) in pool.do("logs", "grows"), "the new size in the job's own share file"
    )
    again = pool.do("resize", "grows", "--gpu", "0.6")
    assert again == "grows: 0.60 GPU (60 % compute) + 9216 MiB already\n"
    assert pool.do("events", "-o", "json").count('"job.resized"') == 1
    with Pool(pool.state_dir) as sdk:
        assert sdk.resize("grows", gpu=0.1).applied
    assert pool.job("grows")["gpu_milli"] == 100


def test_a_job_that_is_not_preemptible_does_not_grow_into_what_another_tenant_is_guaranteed(
    pool: RealPool,
) -> None:
    """Its hint is what to type: that size it gets."""
    pool.do("tenant", "create", "owner")
    pool.do("submit", *SHARE, "--name", "firm", "--", "sleep", "600")
    pool.until_state("firm", "running")
    cards = len(pool.json("gpus"))
    try:
        pool.do("quota", "set", "owner", "--gpus", f"{cards - 0.5:g}")
        done = pool.run("resize", "firm", "--gpu", "0.6")
        assert (done.returncode, "are guaranteed to others" in done.stderr) == (3, True), (
            done.stderr
        )
        assert pool.job("firm")["gpu_milli"] == 300
        hint = done.stderr[done.stderr.index("gpupool resize firm") :].split()
        assert hint[3:5] == ["--gpu", "0.5"]
        pool.do(*hint[1:5])
        assert pool.job("firm")["gpu_milli"] == 500
    finally:
        pool.do("quota", "set", "owner", "--gpus", "none")
        pool.do("tenant", "delete", "owner", "--yes")
