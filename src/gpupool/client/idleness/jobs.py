"""Idle jobs and their policies in the SDK.

from gpupool.client import Pool

with Pool() as pool:
    for job in pool.idle.jobs():
        print(job.name, job.idle_seconds, job.next_act)
    pool.idle.set_policy({"steps": [{"act": "warn", "after_seconds": 3600}]})
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpupool.client.messages import path_segment
from gpupool.wire.answers import read_answer

if TYPE_CHECKING:
    from gpupool.client.transport import Api
    from gpupool.wire.idleness.jobs import IdleJobOut, IdleReportOut
    from gpupool.wire.idleness.policies import IdlePolicyOut


class Idleness:
    """Idle jobs, keeps, policies and the report. Bodies are those of `wire.idleness`."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def jobs(self, *, every: bool = False) -> list[IdleJobOut]:
        """List idle jobs, those that are idle for longest first; `every`: active ones too."""
        from gpupool.wire.idleness.jobs import IdleJobOut

        found = self._api.request("GET", "idle/jobs", query={"all": "true" if every else None})
        return [read_answer(IdleJobOut, one) for one in found]

    def job(self, job: str) -> IdleJobOut:
        """Return whether a running job is idle. Raises NotFound, WrongState."""
        from gpupool.wire.idleness.jobs import IdleJobOut

        path = f"jobs/{path_segment(job)}/idle"
        return read_answer(IdleJobOut, self._api.request("GET", path))

    def keep(self, job: str, seconds: int | None = None) -> IdleJobOut:
        """Leave an idle job alone for a while. Raises KeepsSpent, KeepTooLong, NoIdleRule."""
        from gpupool.wire.idleness.jobs import IdleJobOut

        path = f"jobs/{path_segment(job)}/idle/keep"
        body = {"seconds": seconds}
        key = os.urandom(16).hex()
        return read_answer(IdleJobOut, self._api.request("POST", path, body, idempotency_key=key))

    def report(
        self, since: str = "7d", until: str = "now", tenant: str | None = None
    ) -> IdleReportOut:
        """Return what policies gave back, and what dry runs would have."""
        from gpupool.wire.idleness.jobs import IdleReportOut

        query = {"since": since, "until": until, "tenant": tenant}
        return read_answer(IdleReportOut, self._api.request("GET", "idle/report", query=query))

    def policies(self) -> list[IdlePolicyOut]:
        """List the policies of the pool and of the own tenant."""
        from gpupool.wire.idleness.policies import IdlePolicyOut

        found = self._api.request("GET", "idle/policies")
        return [read_answer(IdlePolicyOut, one) for one in found]

    def policy(self, policy: str) -> IdlePolicyOut:
        """Return one policy. Raises UnknownIdlePolicy."""
        from gpupool.wire.idleness.policies import IdlePolicyOut

        path = f"idle/policies/{path_segment(policy)}"
        return read_answer(IdlePolicyOut, self._api.request("GET", path))

    def set_policy(self, body: Mapping[str, Any]) -> IdlePolicyOut:
        """Set the policy of some jobs: `IdlePolicyIn`. Raises LooserIdlePolicy."""
        from gpupool.wire.idleness.policies import IdlePolicyOut

        return read_answer(IdlePolicyOut, self._api.request("PUT", "idle/policies", dict(body)))

    def remove_policy(self, policy: str) -> None:
        """Remove a policy: jobs that only it was about get back what they gave."""
        self._api.request("DELETE", f"idle/policies/{path_segment(policy)}")
