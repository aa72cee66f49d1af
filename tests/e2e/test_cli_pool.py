"""The pool's own life by the command line: up, a second up, kill -9, up again, doctor, down, purge,
people, TCP."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool import __version__
from tests.e2e.pool_fixture import GPUPOOL, RealPool, Terminal
from tests.support.claims import claim_port


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RealPool]:
    with RealPool(tmp_path / "pool", "2xL40S") as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    """A pool for the tests that leave it as it was."""
    with RealPool(tmp_path_factory.mktemp("shared") / "pool", "2xL40S") as running:
        yield running


def test_up_says_what_is_there_and_what_to_type_next(tmp_path: Path) -> None:
    pool = RealPool(tmp_path / "pool")
    try:
        lines = pool.up("--sim", "2x2xH200").splitlines()
        assert lines[0] == f"gpupool {__version__} is up (pid {pool.server_pid()})"
        assert lines[1] == "  4 cards on 2 nodes: 4 × H200   SIMULATED"
        assert f"  listening  {tmp_path}/pool/gpupool.sock" in lines
        assert lines[-1] == "stop: gpupool down     (ends its jobs; --purge also removes its state)"
    finally:
        pool.do("down", "--purge", "--yes")


def test_a_second_up_on_the_same_state_is_refused_with_the_pid(shared: RealPool) -> None:
    done = shared.run("up", "-d")
    assert done.returncode == 6
    assert done.stderr.startswith(
        f"gpupool: GP-4003: a pool is already running on {shared.state_dir} (pid {shared.server_pid()})"
    )


def test_jobs_outlive_a_server_killed_with_9_and_the_client_does_not_notice(pool: RealPool) -> None:
    pool.do("submit", "--gpu", "0.5", "--name", "background", "--", "sleep", "600")
    script = "echo begin; read line; echo got $line; exit 5"
    with pool.start(
        "run", "--gpu", "0.3", "--name", "front", "--", "sh", "-c", script, stdin=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"begin\n"
        pool.until_state("background", "running")
        os.kill(pool.server_pid(), signal.SIGKILL)
        pool.until(lambda: pool.run("ps").returncode == 7, "the pool is gone")
        pool.up()
        states = {job["name"]: job["state"] for job in pool.json("ps", "--live")}
        assert states == {"background": "running", "front": "running"}
        out, _ = client.communicate(b"it\n", timeout=60)
    assert (client.returncode, out) == (5, b"got it\n")
    assert pool.held_milli() == 500


def test_a_program_that_ends_while_the_server_is_away_still_passes_its_code(pool: RealPool) -> None:
    with pool.start(
        "run",
        "--gpu",
        "0.3",
        "--name",
        "f",
        "--",
        "sh",
        "-c",
        "echo b; read l; exit 9",
        stdin=subprocess.PIPE,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"b\n"
        os.kill(pool.server_pid(), signal.SIGKILL)
        pool.until(lambda: pool.run("ps").returncode == 7, "the pool is gone")
        assert client.stdin is not None
        client.stdin.write(b"x\n")
        client.stdin.close()
        pool.up()
        assert client.wait(60) == 9
    assert pool.until_state("f", "failed")["exit_code"] == 9
    assert pool.held_milli() == 0


def test_down_ends_jobs_first_and_up_starts_the_same_cards_again(pool: RealPool) -> None:
    pool.do("submit", "--gpu", "1", "--name", "j", "--", "sleep", "600")
    refused = pool.run("down")
    assert refused.returncode == 2
    assert "will end j of default" in refused.stdout
    assert refused.stderr.startswith("gpupool: GP-1005: nothing was done")
    assert "j stopped\nthe server has stopped\n" in pool.do("down", "--yes")
    assert pool.run("ps").returncode == 7
    assert "2 cards on 1 node: 2 × L40S   SIMULATED" in pool.up()
    assert pool.job("j")["state"] == "stopped"
    assert pool.held_milli() == 0


def test_purge_leaves_nothing(tmp_path: Path) -> None:
    pool = RealPool(tmp_path / "pool")
    pool.up("--sim", "1xT4")
    pool.do("submit", "--gpu", "1", "--", "sleep", "600")
    assert (
        f"removed {tmp_path}/pool" in pool.do("down", "--purge", "--yes")
        or not (tmp_path / "pool").exists()
    )
    assert not (tmp_path / "pool").exists()
    assert pool.run("down", "--purge", "--yes").returncode == 0


def test_purge_works_when_the_server_is_dead_and_ends_its_jobs(tmp_path: Path) -> None:
    pool = RealPool(tmp_path / "pool")
    pool.up("--sim", "1xT4")
    pool.do(
        "submit",
        "--gpu",
        "1",
        "--name",
        "left",
        "--",
        "sh",
        "-c",
        f"echo $$ > {tmp_path}/pid; sleep 600",
    )
    pool.until(
        lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the job has begun"
    )
    program = int((tmp_path / "pid").read_text())
    os.kill(pool.server_pid(), signal.SIGKILL)
    pool.until(lambda: pool.run("ps").returncode == 7, "the pool is gone")
    assert Path(f"/proc/{program}").exists()
    pool.do("down", "--purge", "--yes")
    assert not (tmp_path / "pool").exists()
    assert not Path(f"/proc/{program}").exists()


def test_purge_touches_nothing_that_is_not_a_pools(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    pool = RealPool(tmp_path / "mine")
    done = pool.run("down", "--purge", "--yes")
    assert done.returncode == 7
    assert "GP-5003" in done.stderr
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "x"


def test_the_doctor_works_with_and_without_a_pool(pool: RealPool) -> None:
    with_pool = pool.json("doctor")
    assert (with_pool["version"], {c["state"] for c in with_pool["checks"]} <= {"ok", "warn"}) == (
        __version__,
        True,
    )
    assert with_pool["server"]["pid"] == pool.server_pid()
    pool.do("down", "--yes")
    without = pool.run("doctor")
    assert without.returncode == 0
    assert f"no pool is running at {pool.state_dir}" in without.stdout
    assert pool.json("doctor")["server"] is None


def _has_cards(pool: RealPool) -> bool:
    """A pool answers before its agent has told of the cards."""
    done = pool.run("gpus", "-o", "json")
    return done.returncode == 0 and json.loads(done.stdout) != []


@pytest.fixture
def foreground(tmp_path: Path) -> Iterator[tuple[RealPool, subprocess.Popen[bytes]]]:
    """A pool whose `up` stays in the foreground, with a running job `stays`."""
    pool = RealPool(tmp_path / "pool")
    try:
        with pool.start("up", "--sim", "1xT4") as running:
            pool.until(lambda: _has_cards(pool), "the pool answers and has its card")
            pool.do("submit", "--gpu", "1", "--name", "stays", "--", "sleep", "600")
            pool.until_state("stays", "running")
            yield pool, running
            running.kill()  # a test that failed before the end of `up`
    finally:
        pool.do("down", "--purge", "--yes", "--grace", "0")


def test_foreground_up_stops_on_ctrl_c_and_its_jobs_go_on(
    foreground: tuple[RealPool, subprocess.Popen[bytes]],
) -> None:
    pool, running = foreground
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert b"Ctrl-C stops the server; jobs keep running" in out
    assert b"its jobs go on" in err
    pool.up()
    assert pool.job("stays")["state"] == "running"


def test_a_server_that_is_aborted_ends_its_foreground_up_as_a_failure(
    foreground: tuple[RealPool, subprocess.Popen[bytes]],
) -> None:
    """What `Restart=on-failure` of the documented unit needs: an abort by a library cannot be
    caught."""
    pool, running = foreground
    os.kill(pool.server_pid(), signal.SIGABRT)
    _out, err = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGABRT
    assert b"ended by signal 6; its jobs go on" in err
    checks = json.loads(pool.run("doctor", "-o", "json").stdout)["checks"]
    (found,) = (one for one in checks if one["name"] == "pool")
    assert (found["state"], found["next"].split("  ")[0]) == ("fail", "gpupool up -d")
    pool.up()
    assert pool.job("stays")["state"] == "running"
    assert pool.run("doctor").returncode == 0


def test_tenants_quotas_users_and_tokens(shared: RealPool) -> None:
    shared.do("tenant", "create", "nlp", "--gpus", "0.5", "--borrow-gpus", "0.5")
    shared.do("user", "add", "alice", "--tenant", "nlp")
    refused = shared.run("run", "--tenant", "nlp", "--gpu", "2", "--", "true")
    assert refused.returncode == 3
    assert refused.stderr.startswith("gpupool: GP-2002: ")
    shared.do("quota", "set", "nlp", "--gpus", "none")
    assert shared.json("quota", "show", "nlp")["nominal_milli"] is None
    shared.do("run", "--tenant", "nlp", "--gpu", "2", "--", "true")
    token = shared.do("token", "create", "--user", "alice", "--label", "x").strip()
    assert token.startswith("gpp_")
    (listed,) = shared.json("token", "list", "--user", "alice")
    assert listed["token"] is None
    shared.do("token", "revoke", listed["id"])
    assert shared.json("token", "list", "--user", "alice") == []
    shared.do("user", "remove", "alice", "--yes")
    shared.do("tenant", "delete", "nlp", "--yes")
    assert shared.run("tenant", "show", "nlp").returncode == 5


def test_cards_are_released_drained_and_adopted(pool: RealPool) -> None:
    pool.do("submit", "--gpu", "1", "--name", "holds", "--", "sleep", "600")
    held = pool.until_state("holds", "running")["device"]
    refused = pool.run("release", held)
    assert refused.returncode == 3
    assert refused.stderr.startswith("gpupool: GP-2008: ")
    assert "draining" in pool.do("release", held, "--drain")
    pool.do("stop", "holds")
    pool.until(lambda: pool.json("gpus", "--state", "observed"), "the card is released")
    assert f"{held} (L40S) adopted" in pool.do("adopt", "all")


def test_login_over_tcp_runs_jobs_as_the_bound_user_and_follows_their_output(
    tmp_path: Path,
) -> None:
    pool = RealPool(tmp_path / "pool")
    port = claim_port()
    try:
        pool.up("--sim", "1xT4", "--listen", f"127.0.0.1:{port}")
        once = pool.do("token", "create", "--once").strip()
        other = {**pool.environ, "HOME": str(tmp_path / "elsewhere")}
        other.pop("GPUPOOL_STATE_DIR")

        def there(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*GPUPOOL, *words],
                env=other,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

        assert there("login", f"http://127.0.0.1:{port}", stdin="gpp_wrong\n").returncode == 4
        said = there("login", f"http://127.0.0.1:{port}", stdin=once + "\n")
        assert said.returncode == 0, said.stderr
        assert there("whoami", "-o", "json").stdout.count('"local": false') == 1
        assert there("login", f"http://127.0.0.1:{port}", stdin=once + "\n").returncode == 4
        ran = there("run", "--gpu", "0.5", "--", "sh", "-c", "echo there; exit 3")
        if os.getuid() == 0:  # over TCP nothing ever runs as uid 0
            assert ran.returncode == 3
            assert ran.stderr.startswith("gpupool: GP-2005: ")
        else:
            assert (ran.returncode, ran.stdout) == (3, "there\n")
        assert there("login", "--forget").returncode == 0
        assert there("whoami").returncode == 7
    finally:
        pool.do("down", "--purge", "--yes")


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    pool = RealPool(tmp_path / "pool")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = pool.run(
            "up", "-d", "--sim", "1xT4", "--listen", f"127.0.0.1:{taken.getsockname()[1]}"
        )
    assert done.returncode == 7
    assert done.stderr.startswith("gpupool: GP-5007: ")
    pool.do("down", "--purge", "--yes")


@pytest.mark.parametrize("words", [["--sim", "4xL40X"], ["--sim", "0xT4"], ["--listen", "nowhere"]])
def test_a_start_that_makes_no_sense_is_refused(words: list[str], tmp_path: Path) -> None:
    pool = RealPool(tmp_path / "pool")
    done = pool.run("up", "-d", *words)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("gpupool: GP-10")
    pool.run("down", "--purge", "--yes")


def test_top_lives_on_a_terminal_and_leaves_it_sane(pool: RealPool) -> None:
    pool.environ["TERM"] = "xterm"
    with Terminal() as terminal:
        before = termios.tcgetattr(terminal.side)
        ends = {"stdin": terminal.side, "stdout": terminal.side, "stderr": terminal.side}
        with pool.start("top", "--interval", "600", **ends, start_new_session=True) as running:
            terminal.until(b"sim-0:1")
            pool.do("submit", "--gpu", "0.5", "--name", "shown", "--", "sleep", "600")
            terminal.until(b"shown")  # by its event: the next timed look is ten minutes away
            terminal.type(b"q")
            assert terminal.until_ended(running) == 0
        assert termios.tcgetattr(terminal.side) == before
    assert b"SIMULATED" in terminal.seen


def test_ctrl_c_ends_top_without_a_traceback_and_leaves_the_terminal_sane(shared: RealPool) -> None:
    shared.environ["TERM"] = "xterm"
    with Terminal() as terminal:
        before = termios.tcgetattr(terminal.side)
        ends = {"stdin": terminal.side, "stdout": terminal.side, "stderr": terminal.side}
        with shared.start("top", **ends, start_new_session=True) as running:
            terminal.until(b"sim-0:1")
            running.send_signal(signal.SIGINT)
            assert terminal.until_ended(running) == 130
        assert termios.tcgetattr(terminal.side) == before
    assert b"Traceback" not in terminal.seen


@pytest.mark.parametrize(
    "words", [["--listen", "192.0.2.1:8470"], ["--listen", "{taken}"], ["--sim", "1xNONE"]]
)
def test_a_first_start_that_is_refused_leaves_nothing(tmp_path: Path, words: list[str]) -> None:
    pool = RealPool(tmp_path / "pool")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = pool.run(
            "up", "-d", "--sim", "1xT4", *(one.format(taken=f"127.0.0.1:{port}") for one in words)
        )
    assert refused.returncode != 0
    assert "gpupool: GP-" in refused.stderr
    assert not pool.state_dir.exists()


def test_restart_leaves_a_server_in_the_foreground_to_the_program_that_keeps_it(
    tmp_path: Path,
) -> None:
    """As under a systemd unit: its `gpupool up` is the unit's process, and waits for the server."""
    pool = RealPool(tmp_path / "pool", "1xT4")
    keeper = pool.start("up", "--sim", "1xT4")
    try:
        assert keeper.stdout is not None
        pool.until(lambda: b"stop: Ctrl-C" in keeper.stdout.readline(), "the pool being up")
        pool.do("submit", "--gpu", "0.5", "--name", "runs", "--", "sleep", "600")
        pool.until_state("runs", "running")
        pid, started = pool.server_pid(), server_of(pool)["started_ns"]
        assert f"the server runs again (pid {pid})" in pool.do("restart")
        after = server_of(pool)
        assert (after["pid"], after["started_ns"] > started) == (pid, True)
        assert keeper.poll() is None
        assert pool.job("runs")["state"] == "running"
        keeper.send_signal(signal.SIGTERM)
        keeper.communicate(timeout=60)
        assert pool.run("ps").returncode == 7, "the keeper's end must be the server's"
    finally:
        keeper.kill()
        keeper.communicate()
        pool.do("down", "--purge", "--yes", "--grace", "1s")


def test_tables_fit_a_narrow_terminal(pool: RealPool) -> None:
    pool.environ["NO_COLOR"] = "1"
    pool.environ.pop(
        "COLUMNS", None
    )  # a test worker has it, and it goes before the terminal's own width
    pool.do("tenant", "create", "nlp")
    pool.do("quota", "set", "nlp", "--gpus", "1")
    tables = ((["gpus"], b"adopted"), (["quota"], b"nlp"), (["ps", "--all"], b"no jobs"))
    for columns, (words, last) in itertools.product((60, 80), tables):
        with Terminal(columns=columns) as terminal:
            command = pool.start(
                *words, stdin=terminal.side, stdout=terminal.side, stderr=terminal.side
            )
            assert terminal.until_ended(command) == 0
            shown = terminal.seen.decode().replace("\r", "").split("tenant default may take")[0]
        assert last in terminal.seen
        # The terminal wraps sentences, as that on columns that are left out.
        lines = [line for line in shown.splitlines() if not line.startswith("gpupool: ")]
        assert [line for line in lines if len(line) > columns] == []


def test_restart_starts_a_detached_server_again_as_a_new_process(pool: RealPool) -> None:
    pid = pool.server_pid()
    said = pool.do("restart")
    again = pool.server_pid()
    assert again != pid
    assert f"the server runs again (pid {again})" in said


def server_of(pool: RealPool) -> dict[str, Any]:
    found: dict[str, Any] = pool.json("doctor")["server"]
    return found
