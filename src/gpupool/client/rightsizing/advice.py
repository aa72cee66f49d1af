"""Advice on shares in the SDK.

from gpupool.client import Pool
from gpupool.client.rightsizing.advice import Rightsizing

with Pool() as pool:
    for family in Rightsizing(pool.api).families():
        print(family.family, family.gpu_milli)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupool.wire.answers import read_answer

if TYPE_CHECKING:
    from gpupool.client.transport import Api
    from gpupool.wire.rightsizing.advice import AdviceOut, BacktestOut


class Rightsizing:
    """What families of jobs should ask for, and how often that would have been too little."""

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
