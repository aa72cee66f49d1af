"""A job that belongs to its client: what is asked of the pool while it waits, is interrupted, or
the pool is away."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import NoRoomNow, NotFound
from gpupool.client import attached_run
from gpupool.client.attached_run import AttachedRun, exit_code_of
from gpupool.client.transport import Api
from tests.unit.client.scripted_pool import HANG_UP, Request, ScriptedPool, reply

Job = dict[str, Any]


def job(state: str, generation: int = 1, **changes: Any) -> Job:
    known: Job = {"id": "j-1", "name": "n", "state": state, "generation": generation, "reason": ""}
    return {**known, "attach_socket": None, "exit_code": None, "signal": None, **changes}


class Script:
    """One answer after another for the job's polls; what is said about it is kept."""

    def __init__(
        self, tmp_path: Path, *polls: Job | bytes, first: Job | bytes | None = None
    ) -> None:
        self.polls = list(polls)
        self.first = first or job("pending", reason="no room")
        self.told: list[str] = []
        self.pool = ScriptedPool(tmp_path, self.answer)
        self.state_dir = tmp_path

    def answer(self, asked: Request) -> bytes:
        if asked.target.endswith("/stop"):
            return reply([job("stopped", 9)])
        if asked.method == "POST":
            return (
                self.first if isinstance(self.first, bytes) else reply({"first": self.first}, 201)
            )
        following = self.polls.pop(0) if self.polls else job("stopped", 9)
        return following if isinstance(following, bytes) else reply(following)

    def run(self, tell: Callable[[str, Job], None] | None = None) -> AttachedRun:
        def keep(what: str, told: Job) -> None:
            self.told.append(what)
            if tell is not None:
                tell(what, told)

        return AttachedRun(
            Api(ClientSettings(state_dir=self.state_dir)), {"shape": {}}, keep, pty=False
        )

    def asked(self, part: str) -> list[str]:
        return [asked.target for asked in self.pool.requests if part in asked.target]


def test_it_waits_with_its_lease_held_until_the_job_has_ended(tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        job("pending", 2, reason="still none"),
        job("stopped", 3, reason="by its user", signal=15),
    )
    assert script.run().run() == 143
    assert script.told == ["waiting"]
    polls = script.asked("generation=")
    assert [poll.partition("?")[2] for poll in polls] == [
        "generation=1&wait_seconds=2.0&lease=true",
        "generation=2&wait_seconds=20.0&lease=true",
    ]


def test_a_pool_that_goes_away_while_the_job_waits_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached_run, "AWAY_PAUSE_SECONDS", 0.0)
    script = Script(tmp_path, *[HANG_UP] * 6, job("done", 4, exit_code=3))
    assert script.run().run() == 3
    assert script.told == ["away", "waiting", "waiting", "waiting", "back"]


def test_a_refusal_is_raised_and_nothing_is_stopped(tmp_path: Path) -> None:
    script = Script(tmp_path, first=reply({"code": "GP-2003", "detail": "no room now"}, 409))
    with pytest.raises(NoRoomNow, match="no room now"):
        script.run().run()
    assert script.asked("/stop") == []


def test_ctrl_c_while_it_waits_stops_the_job_and_sees_it_end(tmp_path: Path) -> None:
    def interrupt(what: str, _: Job) -> None:
        raise KeyboardInterrupt

    script = Script(tmp_path, job("pending", 2), job("stopped", 3))
    run = script.run(interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert len(script.asked("/stop")) == 1
    assert run.job["state"] == "stopped"


def test_ctrl_c_before_the_answer_to_the_submission_still_finds_and_stops_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(tmp_path)
    run = script.run()
    submit, calls = run._submit, []

    def interrupted_once() -> Job:
        calls.append(submit())
        if len(calls) == 1:
            raise KeyboardInterrupt
        return calls[-1]

    monkeypatch.setattr(run, "_submit", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    keys = [
        asked.headers["idempotency-key"]
        for asked in script.pool.requests
        if asked.target.endswith("/jobs")
    ]
    assert keys == [run.key, run.key]
    assert len(script.asked("/stop")) == 1


def test_ctrl_c_while_the_pool_is_away_leaves_the_job_to_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached_run, "AWAY_PAUSE_SECONDS", 0.0)
    script = Script(tmp_path, job("pending", 2, reason="no room"))

    def away_then_interrupt(what: str, _: Job) -> None:
        script.pool.stop()
        if what == "away":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        script.run(away_then_interrupt).run()


def test_a_job_that_the_pool_no_longer_knows_is_said_to_be_missing(tmp_path: Path) -> None:
    script = Script(tmp_path, reply({"code": "GP-3003", "detail": "no job"}, 404))
    with pytest.raises(NotFound):
        script.run().run()


def test_a_job_stopped_before_it_could_be_attached_ends_as_the_pool_says(tmp_path: Path) -> None:
    gone = job("starting", 2, attach_socket=str(tmp_path / "no-such-socket"))
    script = Script(tmp_path, job("stopped", 3, reason="quota", signal=9), first=gone)
    assert script.run().run() == 137
    assert script.told == ["granted"]


def test_the_lease_is_renewed_while_the_program_runs_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached_run, "FIRST_RENEWAL_SECONDS", 0.0)
    renewed = threading.Event()

    def answer(asked: Request) -> bytes:
        renewed.set()
        return reply(job("running", 5))

    with ScriptedPool(tmp_path, answer) as pool:
        lease = attached_run._JobLease(Api(ClientSettings(state_dir=tmp_path)), job("running", 4))
        assert renewed.wait(10)
        lease.end()
        assert (
            pool.requests[0].target == "/api/v1/jobs/j-1?generation=4&wait_seconds=20.0&lease=true"
        )


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (job("done", exit_code=0), 0),
        (job("failed", exit_code=7), 7),
        (job("stopped", signal=15), 143),
        (job("failed"), 1),
        (job("lost"), 1),
        (job("done"), 0),
    ],
)
def test_exit_codes_are_what_a_shell_would_show(ended: Job, code: int) -> None:
    assert exit_code_of(json.loads(json.dumps(ended))) == code
