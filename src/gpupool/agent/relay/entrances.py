"""The running jobs of an agent, as streams enter them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool.agent.relay.ports import connect_port
from gpupool.agent.relay.programs import start_session
from gpupool.agent.relay.refusal import StreamRefusal
from gpupool.agent.relay.services import connect_service
from gpupool.agent.supervisor.client import JobSpec


@dataclass(frozen=True)
class RunningJob:
    """A job with a command that runs.

    Attributes:
        uid: the account that it runs as.
        is_plain: its command runs on this machine itself, in no container and no VM.
    """

    job: str
    directory: Path
    spec: JobSpec
    uid: int
    gid: int
    is_plain: bool = True


@dataclass(frozen=True)
class OpenTarget:
    """What a stream leads to.

    Attributes:
        token: what a service wants to see in `Authorization`; empty: nothing.
        is_at_root: the pages of a service begin at `/`.
    """

    connection: socket.socket
    token: str = ""
    is_at_root: bool = False


class JobEntrances:
    """Opens targets in running jobs. Thread-safe; each call blocks until the target is open."""

    def __init__(self, find_job: Callable[[str], RunningJob | None]) -> None:
        """Make the entrances.

        Args:
            find_job: finds a running job by its id.
        """
        self._find_job = find_job

    def open(self, job: str, target: Mapping[str, Any]) -> OpenTarget:
        """Connect to a target in a job. Raises StreamRefusal."""
        found = self._find_job(job)
        if found is None:
            raise StreamRefusal(f"job {job[:40]} does not run here")
        kind = target.get("kind")
        try:
            if kind == "port":
                namespace = found.spec.network_namespace
                place = None if namespace is None else Path(namespace)
                return OpenTarget(connect_port(int(target["port"]), place, found.uid))
            if kind == "service":
                service = connect_service(found.directory, target["service"], found.uid)
                return OpenTarget(service.socket, service.token, service.is_at_root)
            if kind in ("exec", "ssh"):
                return OpenTarget(_start_program(found, target))
        except OSError as error:
            raise StreamRefusal(f"job {job}: {error.strerror or error}") from error
        raise StreamRefusal(f"the agent of this node knows no streams of kind {str(kind)[:20]}")


def _start_program(job: RunningJob, target: Mapping[str, Any]) -> socket.socket:
    if not job.is_plain:
        raise StreamRefusal(
            f"job {job.job} runs in a container or a VM, which no program can be started in"
        )
    return start_session(job.directory, job.spec, (job.uid, job.gid), target)
