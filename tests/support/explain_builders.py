"""A busy pool, and the explanation of a claim on it."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.explain.explain import Explanation, explain_claim
from gpupool.scheduling.snapshot.cards import CardStatus
from gpupool.scheduling.snapshot.snapshot import TenantView
from tests.support.scheduling_builders import cards, snapshot, tenant, waiting

BUSY = {f"node-1/{place}": (600 + place, GIB) for place in range(8)}


WAIT = "wait: it starts as soon as enough is given back"


def told(
    pool: str,
    want: Shape,
    used: dict[str, tuple[int, int]] | None = None,
    *,
    status: dict[str, CardStatus] | None = None,
    labels: dict[str, dict[str, str]] | None = None,
    view: TenantView | None = None,
) -> Explanation:
    columns = cards(pool, used=used, status=status, labels=labels)
    asked = waiting("a", want=want)
    return explain_claim(snapshot(columns, asked, tenants={"nlp": view or tenant()}), asked, 0)


NOW = 10_000 * 10**9


FULL = (1000, 140 * GIB)
