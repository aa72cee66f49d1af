"""The end of a job's container: what its exit code means, and what is left of it.

Podman removes the container when the command has ended. A Podman that was killed could not, so the
record of the container and its files are removed here.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.container_start import RUNTIME, SETTINGS
from gpupool.agent.supervisor.client import BadSpec, ExitRecord, inspect_job
from gpupool.agent.supervisor.job_log import log_end, read_log
from gpupool.agent.supervisor.job_spec import read_spec
from gpupool.base.files.trees import remove_tree
from gpupool.mechanisms.containers.accounts import MissingPart, find_account
from gpupool.mechanisms.containers.argv import PID_FILE, make_container_name
from gpupool.mechanisms.containers.images import AccountPodman
from gpupool.mechanisms.containers.podman import find_podman

#: Podman's exit codes where no command ran (podman-run(1)), for people.
MEANINGS: Final = {
    125: "Podman could not start the container",
    126: "the container's command cannot be executed",
    127: "the container's command was not found",
}
#: Bytes of the job's output that are searched for Podman's reason.
_TAIL_BYTES: Final = 8192

log = logging.getLogger(__name__)


def explain_container_end(record: ExitRecord, directory: Path) -> ExitRecord:
    """Return the record with Podman's reason, where no command of the container began."""
    runtime = directory / RUNTIME
    if record.state != "ended" or record.exit_code not in MEANINGS or not runtime.is_dir():
        return record
    if (runtime / PID_FILE).exists():
        return record
    meaning = MEANINGS[record.exit_code]
    reason = find_podman_error(_read_tail(directory))
    return replace(record, message=f"{meaning}: {reason}" if reason else meaning)


def find_podman_error(text: str) -> str:
    """Return what Podman said last of an error; empty where it said nothing."""
    lines = [line for line in text.splitlines() if line.startswith("Error: ")]
    return lines[-1].removeprefix("Error: ").strip() if lines else ""


def clear_container(directory: Path, job: str) -> None:
    """Remove what is left of a job's container. Idempotent; does nothing for other jobs.

    Blocks for a call of Podman where the last one was killed.
    """
    runtime = directory / RUNTIME
    if not runtime.is_dir():
        return
    if not _has_ended_orderly(directory):
        _remove_record(directory, job)
    remove_tree(runtime)
    shutil.rmtree(directory / SETTINGS, ignore_errors=True)


def _has_ended_orderly(directory: Path) -> bool:
    """Whether Podman itself ended the container, and so removed it."""
    record = inspect_job(directory).exit
    if record is None:
        return False
    # A Podman that was killed by its own cgroup looks like any other killed command.
    return record.signal is None and record.exit_code not in (None, 128 + signal.SIGKILL)


def _remove_record(directory: Path, job: str) -> None:
    try:
        spec = read_spec(directory)
    except (FileNotFoundError, BadSpec):
        return
    uid = os.geteuid() if spec.uid is None else spec.uid
    gid = os.getegid() if spec.gid is None else spec.gid
    installation = find_podman()
    account = find_account(uid, gid)
    if isinstance(installation, MissingPart) or isinstance(account, MissingPart):
        return
    answer = AccountPodman(installation, account).remove_container(make_container_name(job))
    if answer.code != 0:
        log.warning("the container of job %s stays behind: %s", job, answer.reason)


def _read_tail(directory: Path) -> str:
    # An attached job has no log: its user has seen the words.
    start = max(log_end(directory) - _TAIL_BYTES, 0)
    return read_log(directory, start, _TAIL_BYTES).data.decode(errors="replace")
