"""Quota trees for tests, in one line each.

    tree("1x8xH200", cohorts={"lab": cohort(8)}, nlp=member("lab", gpu=(4, None)), vision=member("lab"))

Compute is in cards; a limit is a number (nominal, any borrowing) or `(nominal, borrowing,
lending)`.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.base.units import GIB, WHOLE
from gpupool.model.quota import (
    GPU,
    MEMORY,
    NODE,
    WEIGHT,
    Quota,
    QuotaBranch,
    QuotaLimit,
    ResourceAmount,
    split_resource,
)
from gpupool.scheduling.quota.pool_size import measure_pool
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.snapshot import TenantView
from tests.support.scheduling_builders import cards, shape

Sizes = float | tuple[float | None, ...] | None


def quota(
    gpu: Sizes = None, memory_gib: Sizes = None, nodes: Sizes = None, **models: Sizes
) -> Quota:
    """`models` by name: `H200=4`."""
    given = {GPU: gpu, MEMORY: memory_gib, NODE: nodes} | {
        f"{GPU}:{name}": size for name, size in models.items()
    }
    return Quota.from_limits(
        {resource: _limit(resource, size) for resource, size in given.items() if size is not None}
    )


def _limit(resource: str, size: Sizes) -> QuotaLimit:
    each = size if isinstance(size, tuple) else (size,)
    unit = {GPU: WHOLE, MEMORY: GIB}.get(split_resource(resource)[0], 1)
    return QuotaLimit(*(None if one is None else round(one * unit) for one in each))


def cohort(
    gpu: Sizes = None, parent: str | None = None, weight: float = 1, **rest: Sizes
) -> QuotaBranch:
    return QuotaBranch(parent, quota(gpu, **rest), round(weight * WEIGHT))


def member(
    cohort: str | None = None,
    gpu: Sizes = None,
    *,
    weight: float = 1,
    holds: float = 0,
    past: int = 0,
    **rest: Sizes,
) -> TenantView:
    held = ResourceAmount(round(holds * WHOLE), 0)
    return TenantView(quota(gpu, **rest), held, cohort, round(weight * WEIGHT), past)


def tree(
    pool: str, cohorts: Mapping[str, QuotaBranch] | None = None, **tenants: TenantView
) -> QuotaTree:
    return QuotaTree(tenants, cohorts or {}, measure_pool(cards(pool)))


def gpus(count: float) -> Mapping[str, int]:
    """The use of so many cards."""
    return {GPU: round(count * WHOLE)}


def runs(
    job: str,
    tenant: str,
    *rows: int,
    started: int = 0,
    priority: int = 0,
    gang: str = "",
    preemptible: bool = True,
) -> RunningJob:
    """A job on whole cards."""
    seats = (WHOLE,) * len(rows)
    want = shape(WHOLE, GIB, len(rows))
    return RunningJob(
        job,
        tenant,
        priority,
        rows,
        seats,
        (GIB,) * len(rows),
        want,
        started,
        preemptible=preemptible,
        gang=gang,
    )
