"""An attached job by the front door, under the real supervisor: descriptors, signals, ends, and the
lease meanwhile."""

from __future__ import annotations

import contextlib
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.supervisor import client
from gpupool.agent.supervisor.client import SupervisorConnection
from tests.support.supervised import Jobs, kill_supervisor, supervised_jobs, until
from tests.unit.native.front_pool import Outcome, Programs, ended, first, http, job


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    (tmp_path / "jobs").mkdir()
    yield from supervised_jobs(tmp_path / "jobs")


def ready(job_dir: Path) -> bytes:
    """The pool's answer to a submission whose supervisor waits for descriptors."""
    return http(first(job(state="starting", attach_socket=str(job_dir / "sock"))))


def over(**changes: object) -> bytes:
    return http(ended(generation=9, **changes), 200)


def both(
    programs: Programs, jobs: Jobs, words: tuple[str, ...], typed: bytes = b"", end: bytes = b""
) -> Outcome:
    """The same job twice, once per program; what both saw."""
    outcomes = []
    for program in (programs.python, programs.front):
        programs.pool.play(ready(jobs.start(*words, stdio="attach")), end or over())
        process = programs.start(program, "run true", stdin=-1)
        out, err = process.communicate(typed, timeout=20)
        lines = [asked.line for asked in programs.pool.asked]
        outcomes.append((Outcome(process.returncode, out, err), lines))
    assert outcomes[0] == outcomes[1]
    return outcomes[1][0]


def test_bytes_and_exit_code_pass_through(programs: Programs, jobs: Jobs) -> None:
    done = both(programs, jobs, ("sh", "-c", "cat; echo err >&2; exit 7"), b"in\0\xff")
    assert (done.code, done.out, done.err) == (7, b"in\0\xff", b"err\n")


def test_a_signal_that_ends_the_program_is_its_exit_code(programs: Programs, jobs: Jobs) -> None:
    assert both(programs, jobs, ("sh", "-c", "kill -SEGV $$")).code == 128 + signal.SIGSEGV


def test_a_program_that_cannot_be_started_is_told_the_same(programs: Programs, jobs: Jobs) -> None:
    for words in (("/no/such/program",), ("/etc/passwd",), ("/",)):
        failed = over(state="failed", exit_code=None, reason="could not be started")
        done = both(programs, jobs, words, end=failed)
        assert done.code == (127 if "such" in words[0] else 2)
        assert done.err.startswith(
            b"gpupool: GP-1006: " if "such" in words[0] else b"gpupool: GP-1000: "
        )


def test_a_job_that_is_gone_before_it_is_attached_to_ends_as_the_pool_says(
    programs: Programs, tmp_path: Path
) -> None:
    gone = http(first(job(state="starting", attach_socket=str(tmp_path / "none"))))
    assert (
        programs.both(
            "run true", gone, over(state="stopped", exit_code=None, signal=15, reason="x")
        ).code
        == 143
    )
    assert programs.both("run true", gone, over(state="failed", exit_code=5)).code == 5


def test_a_supervisor_that_refuses_is_told_when_the_pool_knows_no_end(
    programs: Programs, jobs: Jobs
) -> None:
    refusing = jobs.start("sleep", "60")  # it writes a log
    answer = http(ended("failed", None, generation=9, reason="r"), 200)
    done = programs.both("run true", ready(refusing), answer)
    assert (done.code, done.err) == (1, b"gpupool: true-7q8w failed: r\n")


def test_a_killed_supervisor_ends_the_client_as_the_pool_says(
    programs: Programs, jobs: Jobs
) -> None:
    outcomes = []
    for program in (programs.python, programs.front):
        job_dir = jobs.start("sh", "-c", "echo up; exec sleep 60", stdio="attach")
        programs.pool.play(
            ready(job_dir), over(state="lost", exit_code=None, reason="its supervisor died")
        )
        process = programs.start(program, "run true")
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        kill_supervisor(job_dir)
        out, err = process.communicate(timeout=20)
        outcomes.append((process.returncode, out, err))
    assert outcomes[0] == outcomes[1] == (1, b"", b"gpupool: true-7q8w lost: its supervisor died\n")


TRAPS = 'for s in INT TERM HUP QUIT USR1 USR2; do trap "echo $s" $s; done; echo up; while :; do sleep 0.05; done'


def test_signals_reach_the_program_and_a_second_interrupt_kills_it(
    programs: Programs, jobs: Jobs
) -> None:
    for program in (programs.python, programs.front):
        job_dir = jobs.start("bash", "-c", TRAPS, stdio="attach")
        programs.pool.play(
            ready(job_dir), over(state="failed", exit_code=None, signal=9, reason="killed")
        )
        process = programs.start(program, "run true")
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        for name in ("TERM", "HUP", "QUIT", "USR1", "USR2", "INT"):
            process.send_signal(getattr(signal, f"SIG{name}"))
            assert process.stdout.readline() == name.encode() + b"\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 128 + signal.SIGKILL, program
        assert client.read_exit(job_dir).signal == signal.SIGKILL


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_stopping_the_client_stops_the_program_and_going_on_continues_it(
    programs: Programs, jobs: Jobs
) -> None:
    job_dir = jobs.start("sh", "-c", "echo up; read line; echo $line", stdio="attach")
    programs.pool.play(ready(job_dir), over())
    process = programs.start(programs.front, "run true", stdin=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    with SupervisorConnection(job_dir) as line:
        program = line.read_status().pid
    process.send_signal(signal.SIGTSTP)
    until(lambda: stopped(process.pid) and stopped(program), "both stopped")
    process.send_signal(signal.SIGCONT)
    until(lambda: not stopped(program), "the program going on")
    process.stdin.write(b"on\n")
    process.stdin.close()
    assert process.stdout.read() == b"on\n"
    assert process.wait(20) == 0


def test_ctrl_c_after_the_end_stops_the_job_at_the_pool(programs: Programs, jobs: Jobs) -> None:
    def interrupt() -> bytes:
        programs.send(signal.SIGINT)
        with contextlib.suppress(AssertionError):
            programs.pool.await_asked(3)
        return b""

    programs.pool.play(ready(jobs.start("true", stdio="attach")), interrupt, http([], 200), over())
    process = programs.start(programs.front, "run true")
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert programs.pool.asked[2].line == "POST /api/v1/jobs/j-4k9x2m7q8w/stop"


def test_the_lease_is_renewed_over_a_pool_that_goes_away_while_the_program_runs(
    programs: Programs, jobs: Jobs
) -> None:
    job_dir = jobs.start("sh", "-c", "echo up; read line; echo $line", stdio="attach")
    running = [http(job(state="running", generation=number), 200) for number in (4, 5)]
    programs.pool.play(ready(job_dir), running[0], b"", running[1], http(b"", 503), over())
    process = programs.start(programs.front, "run true", stdin=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    began = time.monotonic()
    lease = "GET /api/v1/jobs/j-4k9x2m7q8w?generation={}&wait_seconds=20.0&lease=true"
    asked = programs.pool.await_asked(5)
    assert time.monotonic() - began > 4
    assert [one.line for one in asked[1:5]] == [lease.format(number) for number in (3, 4, 4, 5)]
    programs.pool.go_away()
    assert not select.select([process.stdout], [], [], 1.5)[0]
    programs.pool.listen()
    process.stdin.write(b"on\n")
    process.stdin.close()
    assert process.stdout.read() == b"on\n"
    assert process.wait(20) == 0


@pytest.mark.slow
def test_an_end_that_the_pool_does_not_confirm_is_told_the_same(
    programs: Programs, jobs: Jobs
) -> None:
    outcomes = []
    for program in (programs.python, programs.front):
        job_dir = jobs.start("sh", "-c", "echo up; read line", stdio="attach")
        programs.pool.play(ready(job_dir), over())
        process = programs.start(program, "run true", stdin=-1)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        programs.pool.go_away()
        out, err = process.communicate(b"on\n", timeout=30)
        programs.pool.listen()
        outcomes.append((process.returncode, out, err))
    assert outcomes[0] == outcomes[1]
    assert b"has ended; the pool does not answer" in outcomes[1][2]
