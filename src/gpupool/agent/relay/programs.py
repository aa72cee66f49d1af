"""Starts programs in running jobs: each under a session process of its own (`session`)."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gpupool.agent.relay.refusal import StreamRefusal
from gpupool.agent.supervisor.client import (
    JobSpec,
    LiveStatus,
    SupervisorConnection,
    SupervisorError,
)
from gpupool.agent.supervisor.run_directory import RUN_DIRECTORY

#: Seconds in which a session has entered its job.
_ENTER_SECONDS: Final = 15.0
#: Bytes of the reason against a session.
_REASON_BYTES: Final = 400
#: Of the agent's environment, what a session's Python needs.
_VARIABLES: Final = ("PATH", "LANG", "PYTHONPATH")


def start_session(
    directory: Path, spec: JobSpec, account: tuple[int, int], target: Mapping[str, Any]
) -> socket.socket:
    """Start a program in a job; return the connection to its session.

    Blocks until the session is in the job. It ends with its connection, and with the job.

    Args:
        directory: the job's own.
        account: user and group of the job.
        target: what the stream leads to (`wire.workspaces.StreamIn`).

    Raises:
        StreamRefusal: the job does not run, or could not be entered.
    """
    try:
        with SupervisorConnection(directory) as supervisor:
            status = supervisor.read_status()
    except SupervisorError as error:
        raise StreamRefusal("the job does not run any more") from error
    if status.state != "running" or not status.pid:
        raise StreamRefusal(f"the job is {status.state}")
    request = make_request(directory, spec, account, target, status)
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            _start(request, theirs)
    except BaseException:
        ours.close()
        raise
    return ours


def make_request(
    directory: Path,
    spec: JobSpec,
    account: tuple[int, int],
    target: Mapping[str, Any],
    status: LiveStatus,
) -> dict[str, Any]:
    """Make what a session is asked to do."""
    is_mounted = status.share == "mounted" and not status.share_refused
    environment = dict(spec.environment)
    if not is_mounted:
        environment |= spec.unmounted_environment
    share = spec.share_mount if is_mounted else spec.share_directory
    if share is not None:
        environment["GPUPOOL_SHARE"] = share
    environment["GPUPOOL_JOB"] = spec.job_id
    is_other = spec.uid is not None and os.geteuid() == 0
    return {
        "kind": target["kind"],
        "argv": list(target.get("argv") or ()),
        "directory": target.get("cwd") or spec.directory,
        "terminal": target.get("terminal"),
        "term": target.get("term") or "xterm",
        "public_key": target.get("public_key"),
        "environment": environment,
        "pid": status.pid,
        "start_ticks": status.start_ticks,
        "account": [*account, list(spec.groups)] if is_other else None,
        "umask": spec.umask,
        "cgroups": list(spec.cgroups),
        "run_directory": str((directory / RUN_DIRECTORY).absolute()),
    }


def _start(request: Mapping[str, Any], connection: socket.socket) -> None:
    """Start a session process and wait until it is in the job. Raises StreamRefusal."""
    read, write = os.pipe()
    environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    words = ["-m", "gpupool.agent.relay.session", str(connection.fileno()), str(write)]
    try:
        process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(connection.fileno(), write),
            env=environment,
            cwd="/",
        )
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    threading.Thread(target=process.wait, name="session-end", daemon=True).start()
    try:
        assert process.stdin is not None
        with process.stdin as channel:
            channel.write(json.dumps(request).encode())
        answer = _await_answer(read)
    except BrokenPipeError:
        answer = "its session ended at once"
    finally:
        os.close(read)
    if answer != "ok":
        process.kill()
        raise StreamRefusal(f"the job could not be entered: {answer}")


def _await_answer(read: int) -> str:
    ready, _, _ = select.select([read], [], [], _ENTER_SECONDS)
    if not ready:
        return f"not within {_ENTER_SECONDS:g} s"
    return os.read(read, _REASON_BYTES).decode("utf-8", "replace") or "its session ended"
