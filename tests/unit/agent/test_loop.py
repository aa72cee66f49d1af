"""An agent against the real server, supervisor and processes: what it is told comes true, and is
told back."""

from __future__ import annotations

import array
import errno
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.jobs.local_allocation import LocalAllocation
from gpupool.agent.jobs.monitor import JobMonitor
from gpupool.agent.loop import Agent
from gpupool.agent.supervisor.client import JobState, SupervisorConnection, inspect_job, read_log
from gpupool.agent.supervisor.job_state import JobStatus
from gpupool.base.errors import PoolAlreadyRunning
from tests.support.supervised import is_alive, kill_supervisor, until
from tests.unit.agent.pool import PoolServer, agent_here

pytestmark = pytest.mark.root


class Pool:
    """A server and its agent; either may go and come back."""

    def __init__(self, server: PoolServer) -> None:
        self.server = server
        self.agent: Agent | None = None

    def start_agent(self, **options: Any) -> Agent:
        self.agent = agent_here(self.server, **options)
        self.agent.start()
        until(lambda: self.server.node_is_ready("sim-0"), "the node's readiness")
        return self.agent

    def end_agent(self) -> None:
        if self.agent is not None:
            self.agent.close()
            self.agent.join()
            self.agent = None


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    server = PoolServer(tmp_path)
    server.begin()
    made = Pool(server)
    try:
        made.start_agent()
        yield made
    finally:
        end_all_jobs(server)
        made.end_agent()
        server.end()


def end_all_jobs(server: PoolServer) -> None:
    for path in server.paths.jobs.iterdir():
        if path.is_dir() and inspect_job(path).state is JobState.RUNNING:
            with SupervisorConnection(path) as line:
                line.stop(0)
            until(lambda at=path: inspect_job(at).state is not JobState.RUNNING, "a job's end")


def test_a_job_runs_writes_its_log_and_leaves_nothing_but_that(pool: Pool) -> None:
    job = pool.server.submit("echo out; echo $GPUPOOL_JOB; cat $GPUPOOL_SHARE/share.json; exit 3")
    ended = pool.server.until_state(job["id"], "failed", "done")
    assert (ended["state"], ended["exit_code"]) == ("failed", 3)
    first, name, share = (
        read_log(pool.server.job_dir(job["id"]), 0, 1 << 20).data.decode().split("\n", 2)
    )
    assert (first, name) == ("out", job["id"])
    assert json.loads(share)["devices"][0]["memory_bytes"] == 1 << 30
    until(lambda: not pool.server.leftovers(), "nothing being left")
    assert pool.server.held_shares() == 0
    assert ended["started_ns"] <= ended["ended_ns"]


def test_the_mechanisms_word_on_visible_cards_wins_over_the_callers(pool: Pool) -> None:
    job = pool.server.submit(
        "echo $CUDA_VISIBLE_DEVICES $MINE", env={"CUDA_VISIBLE_DEVICES": "all", "MINE": "kept"}
    )
    ended = pool.server.until_state(job["id"], "done")
    seen = read_log(pool.server.job_dir(job["id"]), 0, 1 << 20).data.decode().split()
    assert seen == [ended["seats"][0]["uuid"], "kept"]


def test_a_running_job_is_told_with_its_fence_and_ends_when_it_is_stopped(pool: Pool) -> None:
    job = pool.server.submit("echo $$; exec sleep 600")
    running = pool.server.until_state(job["id"], "running")
    assert running["fence"] == "none"
    log = pool.server.job_dir(job["id"])
    pid = int(until(lambda: read_log(log, 0, 100).data))
    pool.server.stop(job["id"], grace=5)
    ended = pool.server.until_state(job["id"], "stopped")
    assert ended["signal"] == signal.SIGTERM
    assert not is_alive(pid)
    until(lambda: not pool.server.leftovers(), "nothing being left")


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["/no/such/program"], 127, "No such file"),
        (["/etc/passwd"], 126, "ermission denied"),
    ],
)
def test_a_command_that_cannot_be_run_fails_with_the_shells_code_and_a_reason(
    pool: Pool, argv: list[str], code: int, words: str
) -> None:
    job = pool.server.submit("", argv=argv)
    ended = pool.server.until_state(job["id"], "failed")
    assert ended["exit_code"] == code
    assert words in ended["reason"]
    assert argv[0] in ended["reason"]
    until(lambda: not pool.server.leftovers(), "nothing being left")


def test_a_directory_that_is_not_there_fails_the_job_with_its_name(pool: Pool) -> None:
    job = pool.server.submit("true", cwd="/no/such/place")
    assert "/no/such/place" in pool.server.until_state(job["id"], "failed")["reason"]


def test_an_attached_job_is_prepared_for_its_client_and_runs_when_the_client_has_come(
    pool: Pool, tmp_path: Path
) -> None:

    job = pool.server.submit("read line; exit 7", attached=True)
    prepared = until(
        lambda: (found := pool.server.job(job["id"])) and found["attach_socket"] and found
    )
    assert prepared["state"] == "starting"
    reader, writer = os.pipe()
    null = os.open("/dev/null", os.O_RDWR)
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(prepared["attach_socket"])
        line.sendall(b"hello 1 1\n")
        assert line.recv(100).startswith(b"hello")
        passed = array.array("i", [reader, null, null])
        line.sendmsg([b"attach fds\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
        assert line.recv(100).startswith(b"attached")
        pool.server.until_state(job["id"], "running")
        os.write(writer, b"go\n")
        assert pool.server.until_state(job["id"], "failed")["exit_code"] == 7
    for descriptor in (reader, writer, null):
        os.close(descriptor)


def test_an_array_runs_every_one_once(pool: Pool, tmp_path: Path) -> None:
    out = tmp_path / "ran"
    pool.server.submit(f"echo $GPUPOOL_JOB >> {out}", array=40)

    def all_done() -> bool:
        with pool.server.api() as api:
            page = api.request("GET", "jobs", query={"all": "true", "limit": 100})
        return [one["state"] for one in page["items"]].count("done") == 40

    until(all_done, "forty jobs done")
    lines = out.read_text().split()
    assert (len(lines), len(set(lines))) == (40, 40)
    until(lambda: not pool.server.leftovers(), "nothing being left")


def test_a_job_outlives_its_agent_and_is_taken_up_by_the_next(pool: Pool) -> None:
    job = pool.server.submit("read line < fifo; exit 5", cwd=str(fifo(pool)))
    pool.server.until_state(job["id"], "running")
    pool.end_agent()
    pool.start_agent()
    assert pool.server.job(job["id"])["state"] == "running"
    (fifo(pool) / "fifo").write_text("go\n")
    assert pool.server.until_state(job["id"], "failed")["exit_code"] == 5


def test_a_job_that_ended_while_no_agent_was_there_is_told_by_the_next(pool: Pool) -> None:
    job = pool.server.submit("read line < fifo; exit 5", cwd=str(fifo(pool)))
    pool.server.until_state(job["id"], "running")
    pool.end_agent()
    (fifo(pool) / "fifo").write_text("go\n")
    until(lambda: inspect_job(pool.server.job_dir(job["id"])).state is JobState.ENDED)
    pool.start_agent()
    ended = pool.server.until_state(job["id"], "failed")
    assert ended["exit_code"] == 5
    until(lambda: not pool.server.leftovers(), "nothing being left")


def test_a_killed_supervisor_makes_its_job_lost_and_leaves_no_process(pool: Pool) -> None:
    job = pool.server.submit("setsid sleep 600 & echo $!; wait")
    pool.server.until_state(job["id"], "running")
    pid = int(until(lambda: read_log(pool.server.job_dir(job["id"]), 0, 100).data))
    kill_supervisor(pool.server.job_dir(job["id"]))
    ended = pool.server.until_state(job["id"], "lost")
    assert "supervisor died" in ended["reason"]
    until(lambda: not is_alive(pid), "the orphan's end")
    until(lambda: not pool.server.leftovers(), "nothing being left")
    assert pool.server.held_shares() == 0


def test_a_supervisor_killed_while_no_agent_was_there_is_found_by_the_next(pool: Pool) -> None:
    job = pool.server.submit("sleep 600")
    pool.server.until_state(job["id"], "running")
    pool.end_agent()
    kill_supervisor(pool.server.job_dir(job["id"]))
    pool.start_agent()
    pool.server.until_state(job["id"], "lost")
    until(lambda: not pool.server.leftovers(), "nothing being left")


def test_a_job_that_ends_while_the_server_is_away_is_told_when_it_is_back(pool: Pool) -> None:
    job = pool.server.submit("read line < fifo; exit 4", cwd=str(fifo(pool)))
    pool.server.until_state(job["id"], "running")
    pool.server.end()
    (fifo(pool) / "fifo").write_text("go\n")
    until(lambda: inspect_job(pool.server.job_dir(job["id"])).state is JobState.ENDED)
    pool.server.begin()
    assert pool.server.until_state(job["id"], "failed")["exit_code"] == 4
    until(lambda: pool.server.node_is_ready("sim-0"), "the node's readiness")


def test_a_job_that_was_stopped_while_the_agent_was_away_never_starts(
    pool: Pool, tmp_path: Path
) -> None:
    pool.end_agent()
    job = pool.server.submit(f"touch {tmp_path}/ran")
    pool.server.until_state(job["id"], "starting")
    pool.server.stop(job["id"])
    pool.start_agent()
    pool.server.until_state(job["id"], "stopped")
    assert not (tmp_path / "ran").exists()
    assert not pool.server.leftovers()


def test_what_the_server_does_not_know_is_ended(pool: Pool) -> None:
    job = pool.server.submit("sleep 600")
    pool.server.until_state(job["id"], "running")
    pool.end_agent()
    path = pool.server.job_dir(job["id"]) / "allocation.json"
    entry = json.loads(path.read_text())
    path.write_text(json.dumps({**entry, "allocation": "a-unknown000"}))
    pool.start_agent()
    pool.server.until_state(job["id"], "lost", "stopped", "failed", "done")
    until(lambda: not pool.server.leftovers(), "nothing being left")


def test_a_job_under_a_stale_generation_is_ended_and_its_share_given_back(pool: Pool) -> None:
    job = pool.server.submit("exec sleep 600")
    pool.server.until_state(job["id"], "running")
    pool.end_agent()
    path = pool.server.job_dir(job["id"]) / "allocation.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "generation": 10**6}))
    pool.start_agent()
    pool.server.until_state(job["id"], "failed", "stopped")
    until(lambda: not pool.server.leftovers(), "nothing being left")
    assert pool.server.held_shares() == 0


def test_a_damaged_checkpoint_ends_what_runs_there_and_the_job_is_lost(pool: Pool) -> None:
    job = pool.server.submit("sleep 600")
    pool.server.until_state(job["id"], "running")
    pool.end_agent()
    (pool.server.job_dir(job["id"]) / "allocation.json").write_text("{")
    pool.start_agent()
    until(
        lambda: inspect_job(pool.server.job_dir(job["id"])).state is JobState.ENDED,
        "the end of what ran",
    )
    pool.server.until_state(job["id"], "lost", "failed")


@pytest.mark.parametrize("forgotten", [False, True])
def test_an_agent_begins_where_a_power_cut_tore_its_notes(pool: Pool, *, forgotten: bool) -> None:
    """With the checkpoint of the job, and without it: nothing but the torn note is left then."""
    job = pool.server.submit("sleep 600")
    pool.server.until_state(job["id"], "running")
    pool.end_agent()
    (note,) = (pool.server.paths.agent / "prepared").glob("*/note.json")
    note.write_text("")
    if forgotten:
        with SupervisorConnection(pool.server.job_dir(job["id"])) as line:
            line.stop(0)
        until(lambda: inspect_job(pool.server.job_dir(job["id"])).state is JobState.ENDED)
        pool.server.job_dir(job["id"]).rename(pool.server.paths.root / "away")
    pool.start_agent()
    if not forgotten:
        pool.server.stop(job["id"])
    pool.server.until_state(job["id"], "lost", "stopped", "failed")
    until(lambda: not note.parent.exists(), "the torn note being gone")


def test_a_node_that_lost_its_state_says_that_its_jobs_are_lost_and_starts_none_twice(
    pool: Pool,
) -> None:
    job = pool.server.submit("sleep 600")
    pool.server.until_state(job["id"], "running")
    pool.end_agent()
    away = pool.server.paths.root / "away"
    pool.server.job_dir(job["id"]).rename(away)
    pool.start_agent()
    assert (
        pool.server.until_state(job["id"], "lost")["reason"] == "nothing of it is left on its node"
    )
    with SupervisorConnection(away) as line:
        line.stop(0)
    until(lambda: inspect_job(away).state is JobState.ENDED)


@pytest.mark.parametrize("ended", [False, True])
def test_a_job_that_the_next_agent_cannot_look_at_at_first_is_not_lost(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, ended: bool
) -> None:
    go = tmp_path / "go"
    job = pool.server.submit(f"until test -e {go}; do sleep 0.02; done")
    pool.server.until_state(job["id"], "running")
    pool.end_agent()
    if ended:
        go.touch()
        until(lambda: inspect_job(pool.server.job_dir(job["id"])).state is JobState.ENDED)
    found, failures = JobMonitor.continue_from, []

    def found_at_last(self: JobMonitor, held: LocalAllocation, status: JobStatus) -> None:
        if not failures:
            failures.append(OSError(errno.EMFILE, "Too many open files"))
            raise failures[0]
        found(self, held, status)

    monkeypatch.setattr(JobMonitor, "continue_from", found_at_last)
    pool.start_agent()
    until(lambda: failures, "the first look")
    go.touch()
    assert pool.server.until_state(job["id"], "done", "lost", "failed")["state"] == "done"


def test_a_second_agent_on_the_same_state_is_refused(pool: Pool) -> None:
    second = agent_here(pool.server)
    with pytest.raises(PoolAlreadyRunning, match="another agent"):
        second.start()


def test_what_jobs_use_is_told_while_they_run(pool: Pool) -> None:
    seen: list[Any] = []
    assert pool.server.services is not None
    note = pool.server.services.metering.note_samples
    pool.server.services.metering.note_samples = lambda samples, tenants: (
        seen.extend(samples),
        note(samples, tenants),
    )[1]  # type: ignore[method-assign]
    job = pool.server.submit("while :; do :; done")
    pool.server.until_state(job["id"], "running")
    until(lambda: any(one.cpu_milliseconds for one in seen), "a sample of processor time")
    assert {one.job for one in seen} == {job["id"]}
    assert all(one.rss_bytes for one in seen if one.cpu_milliseconds)
    pool.server.stop(job["id"])
    pool.server.until_state(job["id"], "stopped")


def test_closing_an_agent_ends_its_threads_but_the_poll_the_server_still_holds(pool: Pool) -> None:
    pool.end_agent()
    left = {thread.name for thread in threading.enumerate() if thread.name.startswith("agent-")}
    assert left <= {"agent-work"}


def fifo(pool: Pool) -> Path:
    """A directory with a fifo on which a job can wait for the test's word."""
    path = pool.server.paths.root / "fifo"
    if not path.exists():
        os.mkfifo(path)
    return pool.server.paths.root
