"""A pool in memory that answers the jobs of a verification with logs that are written beforehand."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from gpupool.base.errors import NoPermission, WrongState
from gpupool.base.units import GIB
from gpupool.client.transport import Api
from gpupool.verification.bench import VerificationBench
from gpupool.verification.check_run import CheckRun
from gpupool.verification.findings import PromiseFinding
from gpupool.verification.scale import QUICK

MS = 1_000_000
#: Of the card that is verified; a job's share is an eighth of it.
CARD_BYTES = 16 * GIB
SHARE_BYTES = 2 * GIB

#: Lines of a log in one answer: a job writes on while a check does something else.
LINES_AT_ONCE = 10

Line = dict[str, Any]


def stretches(rate: float, begin_ms: int, end_ms: int, step_ms: int = 100) -> list[Line]:
    """Return the lines of a load that ran at one rate."""
    lines: list[Line] = []
    for at in range(begin_ms, end_ms, step_ms):
        lines.append(
            {
                "kind": "stretch",
                "begin_ns": at * MS,
                "end_ns": (at + step_ms) * MS,
                "rate": rate,
            }
        )
    return lines


class ScriptedPool:
    """Answers as a pool's server; a job's log follows from the purpose at the end of its name.

    Args:
        logs: The lines of each job's log by its purpose; none for a job that is not named.
        admin: Whether the caller may create tenants.
        ended: What a job is in the end, by its purpose, above a job that is done.
        devices: The cards on which jobs are placed one after the other; the last one repeats.
    """

    local = False

    def __init__(
        self,
        logs: Mapping[str, Sequence[Line]] | None = None,
        *,
        admin: bool = True,
        ended: Mapping[str, Line] | None = None,
        devices: Sequence[str] = ("node-1:0",),
    ) -> None:
        self._logs = logs or {}
        self._admin = admin
        self._ended = ended or {}
        self._devices = list(devices)
        self.jobs: dict[str, Line] = {}
        #: Every request, as `METHOD path`.
        self.requests: list[str] = []
        #: What a resize says of the node: milliseconds until it was in force.
        self.applied_milliseconds: float | None = 50.0

    @contextmanager
    def another(self) -> Iterator[ScriptedPool]:
        yield self

    def request(self, method: str, path: str, body: Line | None = None, **options: Any) -> Any:
        self.requests.append(f"{method} {path}")
        if path == "tenants" and not self._admin:
            raise NoPermission("only an admin makes tenants")
        if method == "POST" and path == "jobs":
            assert body is not None
            return {"first": self._make_job(body)}
        kind, _, rest = path.partition("/")
        name, _, what = rest.partition("/")
        if kind != "jobs":
            return {}
        job = self.jobs[name]
        if what == "logs":
            return self._read_log(job, options["query"]["offset"])
        if what == "stop":
            if job["state"] != "running":
                raise WrongState(f"{name} has ended")
            job["state"] = "stopped"
        if what == "resize":
            return {"applied_milliseconds": self.applied_milliseconds}
        return job

    def _make_job(self, body: Line) -> Line:
        name = f"j-{len(self.jobs)}"
        purpose = body["name"].split("-", 3)[3]
        device = self._devices.pop(0) if len(self._devices) > 1 else self._devices[0]
        self.jobs[name] = {
            "id": name,
            "name": body["name"],
            "purpose": purpose,
            "body": body,
            "state": "running",
            "reason": "",
            "exit_code": 0,
            "device": device,
            "seats": [{"uuid": "GPU-a"}],
            "fence": "library",
            "generation": 1,
            **self._ended.get(purpose, {}),
        }
        return self.jobs[name]

    def _read_log(self, job: Line, offset: int) -> Line:
        texts = [json.dumps(line) + "\n" for line in self._logs.get(job["purpose"], ())]
        whole = "".join(texts).encode()
        lines = whole[offset:].splitlines(keepends=True)
        data = b"".join(lines[:LINES_AT_ONCE])
        return {
            "data": b64encode(data).decode(),
            "next_offset": offset + len(data),
            "ended": offset + len(data) == len(whole),
        }


def build_bench(pool: ScriptedPool) -> VerificationBench:
    """Return the real bench, with the pool in place of a server."""
    return VerificationBench(cast(Api, pool))


def build_run(pool: ScriptedPool) -> CheckRun:
    """Return the state of a quick verification of that pool."""
    return CheckRun(build_bench(pool), QUICK, CARD_BYTES)


def get_findings(run: CheckRun) -> dict[str, PromiseFinding]:
    """Return what was found so far by its key."""
    return {one.key: one for one in run.found.findings}
