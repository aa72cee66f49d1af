"""The counter of energy: joules by kind and tenant."""

from __future__ import annotations

from gpupool.server.energy_metrics import collect_energy


def test_energy_is_told_by_kind_and_tenant_without_deleted_tenants() -> None:
    drawn = {("tenant", 2): 1500, ("tenant", 9): 7, ("idle", 0): 2000}
    samples = collect_energy(drawn, {2: "nlp"}).samples
    assert [(one.name, one.labels, one.value) for one in samples] == [
        ("gpupool_energy_joules_total", {"kind": "idle", "tenant": ""}, 2.0),
        ("gpupool_energy_joules_total", {"kind": "tenant", "tenant": "nlp"}, 1.5),
    ]
