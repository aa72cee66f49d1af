"""Jobs under the real supervisor, for tests: made, started, awaited, and surely gone at the end."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gpupool.agent.supervisor import client
from gpupool.agent.supervisor.client import ExitRecord, JobSpec, JobState, SupervisorConnection

SECONDS = 60.0
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
Answer = TypeVar("Answer")


def until(look: Callable[[], Answer], what: str = "the condition") -> Answer:
    """The first true answer; looks again and again, and fails after a while."""
    deadline = time.monotonic() + SECONDS
    while not (answer := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {SECONDS:g} s")
        time.sleep(0.005)
    return answer


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def await_end(job_dir: Path) -> ExitRecord:
    """The exit record, as soon as there is one."""
    with (
        contextlib.suppress(client.NotRunning, client.ConnectionLost),
        SupervisorConnection(job_dir) as line,
    ):
        line.subscribe()
        while line.read_event() is None:
            assert select.select([line], [], [], SECONDS)[0], "the job did not end in time"
    found = until(lambda: client.read_exit(job_dir), "the exit record")
    assert found is not None
    return found


def _is_free(job_dir: Path) -> bool:
    return not client.is_supervised(job_dir)


class Jobs:
    """Directories below one, each with a job."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: list[Path] = []
        self._numbers = itertools.count(1)

    def write(self, *arguments: str, **fields: Any) -> Path:
        """A directory with a spec that is not started."""
        number = next(self._numbers)
        job_dir = self.root / str(number)
        job_dir.mkdir(mode=0o755)
        self.made.append(job_dir)
        job_id = f"test-{os.getpid()}-{id(self):x}-{number}"
        known: dict[str, Any] = {
            "job_id": job_id,
            "directory": "/",
            "environment": ENVIRONMENT,
        } | fields
        client.write_spec(job_dir, JobSpec(arguments=arguments, **known))
        return job_dir

    def start(self, *arguments: str, **fields: Any) -> Path:
        """A job that is running."""
        job_dir = self.write(*arguments, **fields)
        client.start_supervisor(job_dir)
        return job_dir

    def run(self, *arguments: str, **fields: Any) -> tuple[ExitRecord, bytes]:
        """How a job ended, and all its output."""
        job_dir = self.start(*arguments, **fields)
        record = await_end(job_dir)
        return record, client.read_log(job_dir, 0, 1 << 24).data

    def shell(self, script: str, **fields: Any) -> tuple[ExitRecord, bytes]:
        """`run` of a shell script."""
        return self.run("sh", "-c", script, **fields)

    def end_all(self) -> None:
        for job_dir in self.made:
            if client.inspect_job(job_dir).state is JobState.RUNNING:
                with (
                    contextlib.suppress(client.SupervisorError),
                    SupervisorConnection(job_dir) as line,
                ):
                    line.stop(0)
                until(partial(_is_free, job_dir), "the end of a job")
            client.reap_orphans(job_dir)


def supervised_jobs(root: Path) -> Iterator[Jobs]:
    """For a fixture."""
    jobs = Jobs(root)
    try:
        yield jobs
    finally:
        jobs.end_all()


def kill_supervisor(job_dir: Path) -> None:
    """kill -9, and wait until its lock is free."""
    with SupervisorConnection(job_dir) as line:
        os.kill(line.read_status().supervisor_pid, signal.SIGKILL)
    until(lambda: not client.is_supervised(job_dir), "the supervisor's end")
