"""The board of tenants: what they hold and use, and how far they are held back."""

from __future__ import annotations

from boards.panels import Board, Panel, Query, Row, Variable
from boards.selectors import JOB, add_up, join_either, measure_rate, select


def _used(name: str) -> str:
    """Return a rate of what tenants used, in a pool or on Kubernetes."""
    share = add_up("tenant", measure_rate(f"gpupool_share_{name}_total", "tenant"))
    container = add_up("tenant", measure_rate(f"gpupool_container_{name}_total", "tenant"))
    return join_either(share, container)


def _held(pool: str, cluster: str, unit: str = "") -> str:
    return join_either(
        f"{add_up('tenant', select(pool, 'tenant'))}{unit}",
        f"{add_up('tenant', select(cluster, 'tenant'))}{unit}",
    )


def _graph(title: str, expr: str, unit: str = "short", description: str = "") -> Panel:
    return Panel("timeseries", title, (Query(expr, "{{tenant}}"),), unit, description=description)


def _use_of_held(seconds: str, held: str) -> str:
    """Return the part of what tenants hold that they used; absent for a tenant that holds nothing."""
    used = add_up("tenant", measure_rate(seconds, "tenant"))
    return f"1000 * {used} / on (tenant) ({add_up('tenant', select(held, 'tenant'))} > 0)"


def _find_findings() -> str:
    """Return findings of the last hour; 0 for a tenant of a pool that answers and has none."""
    pool = select("gpupool_fence_findings_total", "tenant")
    cluster = select("gpupool_container_fence_findings_total")
    return "\nor ".join(
        (
            f"sum by (tenant, kind) (increase({pool}[1h]))",
            f"sum by (namespace, kind) (increase({cluster}[1h]))",
            f"0 * {add_up('tenant', select('gpupool_tenant_held_milli', 'tenant'))}",
        )
    )


TENANTS = Board(
    "tenants",
    "Tenants",
    "Who holds what, uses what of it, and who is held back.",
    (
        JOB,
        Variable("tenant", ("gpupool_tenant_held_milli", "gpupool_container_limit_milli")),
    ),
    (
        Row(
            "Held and used",
            (
                _graph(
                    "Compute held, in cards",
                    _held("gpupool_tenant_held_milli", "gpupool_container_limit_milli", " / 1000"),
                ),
                _graph(
                    "Compute used, in cards",
                    _used("gpu_seconds"),
                    description="GPU time that fences measured. Whole cards on Kubernetes have no fence.",
                ),
                _graph(
                    "Used of what is held",
                    join_either(
                        _use_of_held(
                            "gpupool_share_gpu_seconds_total", "gpupool_tenant_held_milli"
                        ),
                        _use_of_held(
                            "gpupool_container_gpu_seconds_total", "gpupool_container_limit_milli"
                        ),
                    ),
                    "percentunit",
                ),
                _graph(
                    "Memory held",
                    _held("gpupool_tenant_held_bytes", "gpupool_container_limit_bytes"),
                    "bytes",
                ),
                _graph(
                    "Memory used",
                    _held("gpupool_share_memory_used_bytes", "gpupool_container_memory_used_bytes"),
                    "bytes",
                ),
                _graph("Kernels, graphs and copies", _used("launches"), "cps"),
            ),
        ),
        Row(
            "Limits",
            (
                _graph(
                    "Threads that wait for the card",
                    _used("wait_seconds"),
                    description="Threads on average, that is seconds of waiting in a second.",
                ),
                _graph(
                    "Threads whose share is used up",
                    _used("throttled_seconds"),
                    description="The part of the waiting for which the share was used up.",
                ),
                _graph("Refused allocations", _used("refusals"), "cps"),
                Panel(
                    "timeseries",
                    "Findings past fences, last hour",
                    (Query(_find_findings(), "{{tenant}} {{namespace}} {{kind}}"),),
                    description="What agents found, by kind (docs/concepts/fence.md).",
                ),
            ),
        ),
    ),
)
