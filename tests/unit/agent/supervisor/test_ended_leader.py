"""A job whose first thread has ended while others run: it looks like a zombie and is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.supervisor import client
from gpupool.agent.supervisor.client import SupervisorConnection
from tests.support.supervised import Jobs, await_end, is_alive, supervised_jobs, until

PROGRAM = """\
import ctypes, subprocess, threading
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
threading.Thread(target=child.wait).start()
print(child.pid, flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    yield from supervised_jobs(tmp_path)


def read_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_stop_ends_a_job_whose_first_thread_has_ended(jobs: Jobs) -> None:
    job_dir = jobs.start(sys.executable, "-c", PROGRAM)
    child = int(until(lambda: client.read_log(job_dir, 0, 100).data))
    with SupervisorConnection(job_dir) as line:
        pid = line.read_status().pid
        until(lambda: read_state(pid) == "Z", "the end of the first thread")
        line.stop(0)
    assert await_end(job_dir).signal == 9
    assert not is_alive(child)
