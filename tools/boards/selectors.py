"""Expressions of PromQL that several boards use, and the variables that they name.

Every expression names a family of /metrics; a pool on Kubernetes has some of them under the names of
its agents and its controller, joined with `or`.
"""

from __future__ import annotations

from boards.panels import Variable

#: Of a server or agents, and of controllers.
JOB = Variable("job", ("gpupool_card_held_milli", "gpupool_controller_leads"))
MODEL = Variable("model", ("gpupool_card_held_milli",))
NODE = Variable("node", ("gpupool_card_held_milli",))
#: The job of agents that the chart's ServiceMonitor names.
AGENTS = "gpupool-agent-metrics"
RATE = "[$__rate_interval]"


def select(family: str, *labels: str, **exact: str) -> str:
    """Return a selector of a family by the board's variables, and by exact values."""
    matchers = [f'{label}=~"${label}"' for label in ("job", *labels)]
    matchers += [f'{label}="{value}"' for label, value in exact.items()]
    return f"{family}{{{','.join(matchers)}}}"


def add_up(by: str, inner: str) -> str:
    """Return a sum by labels; without any, of all."""
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


def measure_rate(family: str, *labels: str) -> str:
    """Return a rate by second of a counter, over Grafana's own interval."""
    return f"rate({select(family, *labels)}{RATE})"


def join_either(pool: str, cluster: str) -> str:
    """Return an expression of a pool, or of Kubernetes where the first has no series."""
    return f"{pool}\nor {cluster}"
