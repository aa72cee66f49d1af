"""The quota table adds up what each tenant holds and what waits."""

from __future__ import annotations

from gpupool.kubernetes.plugin import quota
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.terminal.output import format_table
from tests.support.kube_builders import pod
from tests.support.plugin_ledgers import entry, ledger


def test_a_quota_counts_what_is_held_and_who_waits_by_the_tenant_of_the_namespace() -> None:
    tenants = [
        {
            "metadata": {"name": "nlp"},
            "spec": {"namespaces": ["a", "b"], "limits": {"gpu": {"nominal": "2500m"}}},
        }
    ]
    rows = quota.rows_of(
        tenants, [ledger(entry(tenant="nlp"))], [read_pod(pod(namespace=one)) for one in ("a", "c")]
    )
    assert [
        (row["tenant"], row["nominal_milli"], row["held_milli"], row["waiting"]) for row in rows
    ] == [
        ("c", None, 0, 1),
        ("nlp", 2500, 300, 1),
    ]


def test_a_limit_that_cannot_be_read_is_shown_as_it_was_typed_and_stops_nothing() -> None:
    told = {"conditions": [{"type": "InForce", "status": "False"}]}
    tenant = {
        "metadata": {"name": "nlp"},
        "spec": {"limits": {"gpu": {"nominal": "many"}}},
        "status": told,
    }
    (row,) = quota.rows_of([tenant], [], [])
    assert (row["nominal"], row["nominal_milli"], row["in_force"]) == ("many", None, False)
    assert format_table([row], quota.COLUMNS[2:3]).split() == ["NOMINAL", "many"]
