"""Advice on shares in the SDK.

from gpupool.client import Pool

with Pool() as pool:
    for family in pool.rightsizing.families():
        print(family.family, family.gpu_milli)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupool.client.messages import path_segment
from gpupool.wire.answers import read_answer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gpupool.client.transport import Api
    from gpupool.wire.rightsizing.advice import (
        AdviceOut,
        BacktestOut,
        LayoutAdviceOut,
        TenantAdviceOut,
    )
    from gpupool.wire.rightsizing.policies import AdvicePolicyOut, AdvicePolicyTrialOut


class Rightsizing:
    """What families of jobs should ask for, and policies that give it to them."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def families(
        self,
        since: str = "30d",
        *,
        family: str | None = None,
        job: str | None = None,
        tenant: str | None = None,
    ) -> list[AdviceOut]:
        """List advice, the greatest saving first. Raises UnknownFamily, NotFound."""
        from gpupool.wire.rightsizing.advice import AdviceOut

        query = {"since": since, "family": family, "job": job, "tenant": tenant}
        found = self._api.request("GET", "advice", query=query)
        return [read_answer(AdviceOut, one) for one in found]

    def backtest(self, since: str = "30d", *, tenant: str | None = None) -> BacktestOut:
        """Judge every run by the runs before it."""
        from gpupool.wire.rightsizing.advice import BacktestOut

        query = {"since": since, "tenant": tenant}
        return read_answer(BacktestOut, self._api.request("GET", "advice/backtest", query=query))

    def tenants(self, since: str = "30d") -> list[TenantAdviceOut]:
        """Sum the advice for each tenant."""
        from gpupool.wire.rightsizing.advice import TenantAdviceOut

        found = self._api.request("GET", "advice/tenants", query={"since": since})
        return [read_answer(TenantAdviceOut, one) for one in found]

    def layouts(self, since: str = "30d", *, tenant: str | None = None) -> list[LayoutAdviceOut]:
        """Plan how cards with MIG would be cut for what families need."""
        from gpupool.wire.rightsizing.advice import LayoutAdviceOut

        query = {"since": since, "tenant": tenant}
        found = self._api.request("GET", "advice/layouts", query=query)
        return [read_answer(LayoutAdviceOut, one) for one in found]

    def policies(self) -> list[AdvicePolicyOut]:
        """List the policies of the pool and of the own tenant."""
        from gpupool.wire.rightsizing.policies import AdvicePolicyOut

        found = self._api.request("GET", "advice/policies")
        return [read_answer(AdvicePolicyOut, one) for one in found]

    def policy(self, policy: str) -> AdvicePolicyOut:
        """Return one policy. Raises UnknownAdvicePolicy."""
        from gpupool.wire.rightsizing.policies import AdvicePolicyOut

        path = f"advice/policies/{path_segment(policy)}"
        return read_answer(AdvicePolicyOut, self._api.request("GET", path))

    def set_policy(self, body: Mapping[str, Any]) -> AdvicePolicyOut:
        """Set the policy of some families: `AdvicePolicyIn`. Raises LooserAdvicePolicy."""
        from gpupool.wire.rightsizing.policies import AdvicePolicyOut

        return read_answer(AdvicePolicyOut, self._api.request("PUT", "advice/policies", dict(body)))

    def try_policy(self, body: Mapping[str, Any], since: str = "30d") -> AdvicePolicyTrialOut:
        """Say what a policy would have done: `AdvicePolicyIn`. Changes nothing."""
        from gpupool.wire.rightsizing.policies import AdvicePolicyTrialOut

        path = "advice/policies/trial"
        found = self._api.request("POST", path, dict(body), query={"since": since})
        return read_answer(AdvicePolicyTrialOut, found)

    def remove_policy(self, policy: str) -> None:
        """Remove a policy; jobs that it changed keep what they have."""
        self._api.request("DELETE", f"advice/policies/{path_segment(policy)}")
