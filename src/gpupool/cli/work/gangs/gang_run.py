"""Run a gang as `run` runs a job: wait for its start, copy its output, return its exit code.

No terminal reaches several nodes: the members write to their logs, and this command copies all of
them line by line.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from gpupool.base.errors import GpupoolError, NotFound
from gpupool.cli.work.logs import (
    copy_log,
    stop_followed_job,
    submit_followed_job,
    wait_for_start,
)
from gpupool.client.attached_run import exit_code_of
from gpupool.client.transport import Api
from gpupool.terminal.context import print_notice
from gpupool.terminal.references import job_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Job = dict[str, Any]

#: Members whose output is copied, a thread and a connection each.
MOST_FOLLOWED = 64


def run_gang(
    api: Api,
    asked: Job,
    tell: Callable[[str, Job], None],
    announce: Callable[[], None],
) -> tuple[list[Job], int]:
    """Submit a gang and follow it to its end. Blocks.

    Args:
        api: The pool.
        asked: The body of POST /jobs.
        tell: Prints why it waits and what a member gets.
        announce: Called once, when the gang is accepted.

    Returns:
        The members as they ended, and the highest of their exit codes, as srun(1) has it.
    """
    submitted = submit_followed_job(api, asked)
    name = submitted["array"]
    try:
        announce()
        wait_for_start(api, submitted["first"], tell)
        _copy_outputs(api, name, submitted["count"])
        ended = [_read_member(api, name, number) for number in range(submitted["count"])]
    except KeyboardInterrupt:
        # The connection is in the middle of a long poll; the order to stop needs one of its own.
        api.close()
        stop_followed_job(api, submitted)
        raise
    return ended, max(exit_code_of(member) for member in ended)


def _read_member(api: Api, name: str, number: int) -> Job:
    member: Job = api.request("GET", job_path(f"{name}.{number}"))
    return member


def _copy_outputs(api: Api, name: str, count: int) -> None:
    followed = min(count, MOST_FOLLOWED)
    if count > followed:
        print_notice(
            f"the output of {count - followed} more members is in their logs: "
            f"gpupool logs {name}.{followed}"
        )
    lock = threading.Lock()
    copiers = [_OutputCopier(api.another(), f"{name}.{number}", lock) for number in range(followed)]
    for copier in copiers:
        copier.start()
    for copier in copiers:
        copier.join()
    for copier in copiers:
        if copier.error is not None:
            raise copier.error


class _OutputCopier(threading.Thread):
    """Copies the output of one member, whole lines at a time, so that lines do not mix.

    A daemon: Ctrl-C ends the command while it waits for more.
    """

    def __init__(self, api: Api, member: str, lock: threading.Lock) -> None:
        super().__init__(name=f"output of {member}", daemon=True)
        self.error: GpupoolError | None = None
        self._api = api
        self._member = member
        self._lock = lock
        self._line = b""

    def run(self) -> None:
        try:
            job = self._api.request("GET", job_path(self._member))
            job = wait_for_start(self._api, job, _say_nothing)
            copy_log(self._api, job["id"], 0, follow=True, write=self._write_lines)
            self._write(self._line)
        except NotFound:
            return  # it was refused by its node and never had a log
        except GpupoolError as error:
            self.error = error

    def _write_lines(self, data: bytes) -> None:
        whole, newline, self._line = (self._line + data).rpartition(b"\n")
        self._write(whole + newline)

    def _write(self, data: bytes) -> None:
        with self._lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


def _say_nothing(_what: str, _job: Job) -> None:
    """Print nothing: the first member speaks for all."""
