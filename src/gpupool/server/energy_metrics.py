"""What /metrics says of energy: what each tenant's shares drew, and what was left of the cards."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.core import CounterMetricFamily, Metric


def collect_energy(
    millijoules: Mapping[tuple[str, int], int], tenants: Mapping[int, str]
) -> Metric:
    """Collect the energy that was measured since this server began.

    Args:
        millijoules: by kind and tenant id; 0 is of no tenant.
        tenants: names by id. The energy of a deleted tenant is told no more.
    """
    family = CounterMetricFamily(
        "gpupool_energy_joules",
        "Energy of cards, as far as they report their power: of tenants, and what no share held.",
        labels=["kind", "tenant"],
    )
    for (kind, tenant_id), value in sorted(millijoules.items()):
        if not tenant_id or tenant_id in tenants:
            family.add_metric([kind, tenants.get(tenant_id, "")], value / 1000)
    return family
